"""`sluice explain`: what becomes of a table's files when a query asks for some of them."""
