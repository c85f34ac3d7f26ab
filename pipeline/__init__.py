"""The index job: builds the index of a table, with PySpark if the table is large (docs/decisions/0012-index.md)."""
