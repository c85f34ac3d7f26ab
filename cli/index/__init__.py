"""`sluice index`: builds the indexes of tables on this machine, and shows their status."""
