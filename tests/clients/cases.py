"""What the suites ask of the tables, whatever the client."""

from tests.clients.delta_log import Version
from tests.clients.spark import scripts

# Its files lie in another table's folder, which is not shared with it.
CLONE = "cloned"
TABLES = sorted(scripts().keys() - {CLONE})

# First and last versions of ranges in which the change feed is on.
CHANGES = [
    ("change_feed", 0, 10),
    ("change_feed", 2, 6),
    ("change_feed_partitioned", 0, 4),
    ("change_feed_late", 2, 4),
    ("change_feed_late", 7, 8),
    ("change_feed_deletion_vectors", 0, 6),
    ("change_feed_deletion_vectors", 3, 4),
    ("change_feed_column_mapping", 0, 5),
    ("in_commit_timestamps", 1, 3),
]
# A commit's time is that of its file: another one in the server's S3 than in the folder that Spark reads.
TIME = "_commit_timestamp"


def refusal(version: Version) -> str | None:
    """Why a version is not given in parquet format, if so: its files, read as they are, would be wrong."""
    if version.has_column_mapping or version.has_type("variant"):
        return "Unsupported Delta Table Properties"
    if version.has_deletion_vectors:
        enabled = version.metadata["configuration"].get("delta.enableDeletionVectors") == "true"
        return "Unsupported Delta Table Properties" if enabled else "Deletion Vector property disabled"
    return None
