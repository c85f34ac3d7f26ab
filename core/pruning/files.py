"""What a predicate says of a file, and how many rows a file has."""

from typing import Protocol

from core.pruning.columns import JsonValue

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


def row_count(num_records: JsonValue, deleted: DeletedRows | None) -> int | None:
    """How many rows a file has that are not deleted; None if its statistics do not say."""
    return max(num_records - (deleted.cardinality if deleted else 0), 0) if type(num_records) is int else None
