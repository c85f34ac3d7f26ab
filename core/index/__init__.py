"""The file index: the files of a table at a version, sorted and packed for DynamoDB (docs/decisions/0012-index.md)."""
