"""Access to S3: the location of a table, the role and credentials that read it, its objects, and signed URLs."""
