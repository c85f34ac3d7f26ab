"""Cases that the suites of all clients share."""

from tests.clients.delta_log import Version
from tests.clients.spark import scripts

# A shallow clone: its files are in the folder of another table, which is not a registered location.
CLONE = "cloned"
TABLES = sorted(scripts().keys() - {CLONE})

# Version ranges in which the change feed is enabled: table, first version, last version.
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
# The time of a commit is that of its file, which differs between the server's S3 and the folder that Spark reads.
TIME = "_commit_timestamp"


def refusal(version: Version) -> str | None:
    """Returns the expected error if a version is refused in parquet format, because a plain read would be wrong."""
    if version.has_column_mapping or version.has_type("variant"):
        return "Unsupported Delta Table Properties"
    if version.has_deletion_vectors:
        enabled = version.metadata["configuration"].get("delta.enableDeletionVectors") == "true"
        return "Unsupported Delta Table Properties" if enabled else "Deletion Vector property disabled"
    return None
