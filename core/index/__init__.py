"""The file index: a table's files at a version, sorted and packed for DynamoDB (docs/decisions/0012-index.md)."""
