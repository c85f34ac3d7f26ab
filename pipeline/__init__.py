"""The job that builds the file index, with PySpark where a table is large (docs/decisions/0012-index.md)."""
