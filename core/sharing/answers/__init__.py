"""The lines of answers about a table, in parquet format and in delta format."""
