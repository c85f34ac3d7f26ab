"""What pruning asks of files: a column of partition values or statistics, for many files at once.

One file is a column of length one. `FileColumns` takes the columns from the log's own form of a file; an index may have
them at hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple, Protocol, TypeAlias

import orjson


class Absent(Enum):
    """In the place of a partition value that the log does not have: not even null is known."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
JsonValue: TypeAlias = Any


class Columns(Protocol):
    """Each list has an entry for each file. A path is of physical names; what is not there is None."""

    def __len__(self) -> int: ...

    def select(self, chosen: bytes) -> "Columns":
        """The same columns of those files that have a 1 here."""

    def partition(self, name: str) -> Sequence[str | Absent | None]: ...

    def minimum(self, path: tuple[str, ...]) -> Sequence[JsonValue]: ...

    def maximum(self, path: tuple[str, ...]) -> Sequence[JsonValue]: ...

    def null_count(self, path: tuple[str, ...]) -> Sequence[JsonValue]: ...

    def num_records(self) -> Sequence[JsonValue]: ...


class DeletedRows(Protocol):
    @property
    def cardinality(self) -> int: ...


class File(Protocol):
    """A live file, as the log has it."""

    @property
    def partition_values(self) -> Mapping[str, str | None]: ...

    @property
    def stats(self) -> str | None: ...

    @property
    def deletion_vector(self) -> DeletedRows | None: ...


class Stats(NamedTuple):
    minimum: Mapping[str, JsonValue]
    maximum: Mapping[str, JsonValue]
    null_count: Mapping[str, JsonValue]
    num_records: JsonValue


NO_STATS = Stats({}, {}, {}, None)


class FileColumns:
    """The statistics of a file are parsed when the first column of them is asked for."""

    def __init__(self, files: Sequence[File]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def select(self, chosen: bytes) -> "FileColumns":
        return FileColumns(list(compress(self._files, chosen)))

    def partition(self, name: str) -> list[str | Absent | None]:
        return [file.partition_values.get(name, ABSENT) for file in self._files]

    def minimum(self, path: tuple[str, ...]) -> list[JsonValue]:
        return _column([stats.minimum for stats in self._stats], path)

    def maximum(self, path: tuple[str, ...]) -> list[JsonValue]:
        return _column([stats.maximum for stats in self._stats], path)

    def null_count(self, path: tuple[str, ...]) -> list[JsonValue]:
        return _column([stats.null_count for stats in self._stats], path)

    def num_records(self) -> list[JsonValue]:
        return [stats.num_records for stats in self._stats]

    @cached_property
    def _stats(self) -> list[Stats]:
        return [parse_stats(file.stats) for file in self._files]


def row_count(file: File) -> int:
    """How many rows the file has that are not deleted; 0 if it does not say."""
    rows = parse_stats(file.stats).num_records
    deleted = file.deletion_vector.cardinality if file.deletion_vector else 0
    return max(rows - deleted, 0) if type(rows) is int else 0


def parse_stats(text: str | None) -> Stats:
    try:
        stats = orjson.loads(text or "{}")
        minimum, maximum = stats.get("minValues"), stats.get("maxValues")
        null_count, num_records = stats.get("nullCount"), stats.get("numRecords")
    except (ValueError, AttributeError):
        return NO_STATS
    return Stats(_mapping(minimum), _mapping(maximum), _mapping(null_count), num_records)


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _column(structs: Iterable[Mapping[str, JsonValue]], path: tuple[str, ...]) -> list[JsonValue]:
    *parents, name = path
    for parent in parents:
        structs = [_mapping(struct.get(parent)) for struct in structs]
    return [struct.get(name) for struct in structs]
