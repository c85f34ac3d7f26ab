"""`sluice index`: builds the indexes of tables on this machine, and tells what became of them."""
