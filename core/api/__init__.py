"""The Delta Sharing protocol: requests, lines, tokens and responses. Independent of tables and storage."""
