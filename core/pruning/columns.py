"""Partition values and statistics of many files, column by column.

Pruning sees files only through `Columns`. `FileColumns` extracts the columns from the JSON statistics in the log. The
index stores columns, so it needs no extraction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from itertools import chain, compress
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

import orjson


class Absent(Enum):
    """Marks a partition value that is missing from the log, as opposed to null."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
JsonValue: TypeAlias = Any


class Columns(Protocol):
    """Each sequence has one entry per file; None means that the file has no such entry. Paths use physical names."""

    def __len__(self) -> int: ...

    def select(self, chosen: bytes) -> "Columns":
        """Returns the columns of the files whose byte in `chosen` is 1."""

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
NULL_COUNT = ',"nullCount":'


class FileColumns:
    """Columns of files as the log stores them. Parses the statistics on the first use of one of their columns."""

    def __init__(self, partition_values: Sequence[Mapping[str, str | None]], stats: Sequence[str | None]) -> None:
        self._partition_values = partition_values
        self._texts = stats

    def __len__(self) -> int:
        return len(self._texts)

    def select(self, chosen: bytes) -> "FileColumns":
        return FileColumns(list(compress(self._partition_values, chosen)), list(compress(self._texts, chosen)))

    def partition(self, name: str) -> list[str | Absent | None]:
        return [values.get(name, ABSENT) for values in self._partition_values]

    def minimum(self, path: tuple[str, ...]) -> Sequence[JsonValue]:
        return column_of([stats.minimum for stats in self._stats], path)

    def maximum(self, path: tuple[str, ...]) -> Sequence[JsonValue]:
        return column_of([stats.maximum for stats in self._stats], path)

    def null_count(self, path: tuple[str, ...]) -> Sequence[JsonValue]:
        return column_of([stats.null_count for stats in self._stats], path)

    def num_records(self) -> Sequence[JsonValue]:
        return [stats.num_records for stats in self._stats]

    @cached_property
    def _stats(self) -> list[Stats]:
        return [parse_stats(text) for text in self._texts]


class EagerFileColumns(FileColumns):
    """Extracts several columns while it parses the statistics, which is faster if most of them are needed."""

    def __init__(
        self, partition_values: Sequence[Mapping[str, str | None]], stats: Sequence[str | None], names: Sequence[str]
    ) -> None:
        """`names` are the top-level columns to extract."""
        super().__init__(partition_values, stats)
        # At least two names, because `itemgetter` of one name does not return a tuple.
        self._names = names if len(names) > 1 else [*names, *names] or ["", ""]
        self._positions = {name: position for position, name in enumerate(self._names)}

    def minimum(self, path: tuple[str, ...]) -> Sequence[JsonValue]:
        return self._column(0, path)

    def maximum(self, path: tuple[str, ...]) -> Sequence[JsonValue]:
        return self._column(1, path)

    def null_count(self, path: tuple[str, ...]) -> Sequence[JsonValue]:
        return self._column(2, path)

    def num_records(self) -> Sequence[JsonValue]:
        return self._columns[-1]

    def _column(self, group: int, path: tuple[str, ...]) -> Sequence[JsonValue]:
        name, *inner = path
        values = self._columns[group * len(self._names) + self._positions[name]]
        return column_of(map(_mapping, values), tuple(inner)) if inner else values

    @cached_property
    def _columns(self) -> list[Sequence[JsonValue]]:
        """The minima of all names (group 0), their maxima (1), their null counts (2), and finally `numRecords`."""
        rows = list(map(_extractor(self._names), self._texts))
        return list(zip(*rows, strict=True)) if rows else [()] * (3 * len(self._names) + 1)


def _extractor(names: Sequence[str]) -> Callable[[str | None], tuple[JsonValue, ...]]:
    """Returns a function that extracts the columns `names` from the statistics of one file.

    The fast path assumes that no name is missing; checking each name takes 50 % longer. It also parses each distinct
    `nullCount` only once, because the statistics of many files end with the same one. Splitting the text at
    `NULL_COUNT` is safe: a JSON string cannot contain its unescaped quotes.
    """
    get: Callable[[Any], tuple[JsonValue, ...]] = itemgetter(*names)
    parsed: dict[str, tuple[JsonValue, ...]] = {}

    def values(text: str | None) -> tuple[JsonValue, ...]:
        try:
            before, _, end = (text or "").rpartition(NULL_COUNT)
            if end not in parsed:
                parsed[end] = get(_null_counts(orjson.loads(f"{{{NULL_COUNT[1:]}{end}")))
            stats = orjson.loads(before + "}")
            return (*get(stats["minValues"]), *get(stats["maxValues"]), *parsed[end], stats["numRecords"])
        except (ValueError, KeyError, TypeError):
            *mappings, num_records = parse_stats(text)
            return (*chain.from_iterable(map(mapping.get, names) for mapping in mappings), num_records)

    return values


def _null_counts(stats: Mapping[str, Any]) -> Any:
    """Raises KeyError if a key after `nullCount` repeats one before it: the last one counts, but was split off."""
    if not stats.keys().isdisjoint(("numRecords", "minValues", "maxValues")):
        raise KeyError
    return stats["nullCount"]


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
