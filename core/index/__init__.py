"""The index: a table's files at one version, sorted and packed into DynamoDB items (docs/decisions/0012-index.md)."""
