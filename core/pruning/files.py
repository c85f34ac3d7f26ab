"""What a predicate says of a file, and how many rows a file has."""

from typing import Protocol

from core.pruning.columns import parse_stats

# What is said of a file; one byte each.
SOME = 1
"""Some row may match."""
EVERY = 2
"""Every row must match."""
BY_PARTITION = 4
"""No row matches, as the partition values alone say."""


class DeletedRows(Protocol):
    @property
    def cardinality(self) -> int: ...


def row_count(stats: str | None, deleted: DeletedRows | None) -> int:
    """How many rows the file has that are not deleted; 0 if it does not say."""
    rows = parse_stats(stats).num_records
    return max(rows - (deleted.cardinality if deleted else 0), 0) if type(rows) is int else 0
