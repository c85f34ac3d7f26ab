"""The job that builds the file index. Uses PySpark for large tables (docs/decisions/0012-index.md)."""
