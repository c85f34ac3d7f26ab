"""The truth values of a predicate for a file, and the number of rows in a file."""

from typing import Protocol

from core.pruning.columns import JsonValue

# A truth value is one byte of these flags.
MAY_MATCH = 1
"""Some row may match. Without this flag, the file is skipped."""
ALL_MATCH = 2
"""Every row matches."""
PRUNED_BY_PARTITION = 4
"""No row matches, and the partition values alone show it."""


class DeletedRows(Protocol):
    @property
    def cardinality(self) -> int: ...


def row_count(num_records: JsonValue, deleted: DeletedRows | None) -> int | None:
    """Returns the number of rows that are not deleted, or None if the statistics have no usable `numRecords`."""
    return max(num_records - (deleted.cardinality if deleted else 0), 0) if type(num_records) is int else None
