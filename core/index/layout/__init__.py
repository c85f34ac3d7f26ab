"""The format of an index in DynamoDB: item keys, head, root, chunks and buckets. Readers and writers share it."""
