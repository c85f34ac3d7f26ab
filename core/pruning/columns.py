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


class Stats(NamedTuple):
    minimum: Mapping[str, JsonValue]
    maximum: Mapping[str, JsonValue]
    null_count: Mapping[str, JsonValue]
    num_records: JsonValue


NO_STATS = Stats({}, {}, {}, None)


class FileColumns:
    """Of files as the log has them. Statistics are parsed when the first column of them is asked for."""

    def __init__(self, partition_values: Sequence[Mapping[str, str | None]], stats: Sequence[str | None]) -> None:
        self._partition_values = partition_values
        self._texts = stats

    def __len__(self) -> int:
        return len(self._texts)

    def select(self, chosen: bytes) -> "FileColumns":
        return FileColumns(list(compress(self._partition_values, chosen)), list(compress(self._texts, chosen)))

    def partition(self, name: str) -> list[str | Absent | None]:
        return [values.get(name, ABSENT) for values in self._partition_values]

    def minimum(self, path: tuple[str, ...]) -> list[JsonValue]:
        return column_of([stats.minimum for stats in self._stats], path)

    def maximum(self, path: tuple[str, ...]) -> list[JsonValue]:
        return column_of([stats.maximum for stats in self._stats], path)

    def null_count(self, path: tuple[str, ...]) -> list[JsonValue]:
        return column_of([stats.null_count for stats in self._stats], path)

    def num_records(self) -> list[JsonValue]:
        return [stats.num_records for stats in self._stats]

    @cached_property
    def _stats(self) -> list[Stats]:
        return [parse_stats(text) for text in self._texts]


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


def column_of(structs: Iterable[Mapping[str, JsonValue]], path: tuple[str, ...]) -> list[JsonValue]:
    *parents, name = path
    for parent in parents:
        structs = [_mapping(struct.get(parent)) for struct in structs]
    return [struct.get(name) for struct in structs]
