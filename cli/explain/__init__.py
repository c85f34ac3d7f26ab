"""`sluice explain`: shows which files of a table a query lists, and why."""
