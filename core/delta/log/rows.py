"""The files of a checkpoint, a batch of its rows at a time, as arrow has them.

What is asked for becomes Python lists: paths always, the rest seldom. What is nested is written as JSON by arrow, which
knows a map from a list and writes numbers, dates and times as Delta does. It is read back only where that is needed:
partition values once for each partition, statistics not at all, since their JSON is what is relayed. Arrow also writes
the lines of an answer, in half the time that Python takes, where they are such that both write the same bytes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from sys import getsizeof
from typing import Any

import orjson
from arro3.core import Array, DataType, Field, RecordBatch, struct_field
from arro3.io import write_ndjson

from core.api.lines import Layout
from core.delta.log import actions
from core.delta.snapshot import Add, AddBatch, DeletionVector, Frame
from core.pruning.columns import Columns, FileColumns

# How many partitions' values are remembered, for the files that follow.
MAX_KNOWN_PARTITIONS = 10_000

TEXTS = (DataType.is_string, DataType.is_large_string, DataType.is_string_view)
STRUCTS = (DataType.is_struct,)
BINARIES = (DataType.is_binary, DataType.is_large_binary, DataType.is_binary_view)

TEXTS_BY_NAME = re.compile(
    r'.*<Map\("\w+": (non-null )?Struct\("\w+": (non-null )?Utf8, "\w+": (non-null )?Utf8\).*>\s*'
)


def _maps_texts(kind: DataType) -> bool:
    """arro3 tells a map's own types in no other way."""
    return TEXTS_BY_NAME.fullmatch(repr(kind)) is not None


# Of what type arrow writes each field as Python does.
PLAIN: dict[str, Callable[[DataType], bool]] = {
    "partitionValues": _maps_texts,
    "size": DataType.is_int64,
    "modificationTime": DataType.is_int64,
    "dataChange": DataType.is_boolean,
    "stats": DataType.is_string,
    "tags": _maps_texts,
    "baseRowId": DataType.is_int64,
    "defaultRowCommitVersion": DataType.is_int64,
    "clusteringProvider": DataType.is_string,
}

KnownPartitions = dict[bytes, Mapping[str, str | None]]


def objects(batch: RecordBatch, name: str) -> Iterator[dict[str, Any]]:
    """The actions of one kind, of which there are few."""
    if name in batch.schema.names and batch[name].null_count < batch.num_rows:
        for line in _json_lines([batch[name]], [name]):
            value = orjson.loads(line)[name]
            if value is not None:
                yield value


class FileRows:
    def __init__(self, fields: Mapping[str, Array], known: KnownPartitions) -> None:
        """`fields`: the columns of an `add`, of rows that are one."""
        self.fields = {name: column for name, column in fields.items() if column.null_count < len(column)}
        self._known = known

    @classmethod
    def of(cls, batch: RecordBatch, known: KnownPartitions) -> "FileRows":
        column = batch["add"] if "add" in batch.schema.names else None
        if column is None or column.null_count == len(column):
            return cls({}, known)
        names = [field.name for field in column.type.fields]
        fields = {name: struct_field(column, [index]) for index, name in enumerate(names)}
        # Where a row is no add, its path is null; or empty, by writers that declare it as never null.
        paths = _texts(fields["path"])
        if not all(paths):
            adds = Array(_places(paths), type=DataType.uint32())
            fields = {name: column.take(adds) for name, column in fields.items()}
        return cls(fields, known)

    def check(self) -> None:
        """What would fail only when it is used, in the middle of an answer."""
        if not self.paths:
            return
        if "modificationTime" not in self.fields or self.fields["modificationTime"].null_count:
            raise TypeError("a file has no time of modification")
        if "stats" in self.fields and not _is_text(self.fields["stats"].type):
            raise TypeError("statistics are no text")
        if not _is_plain("partitionValues", self.fields):
            _ = self.partition_values

    @property
    def memory_bytes(self) -> int:
        """With what is made of them and kept."""
        return sum(column.nbytes for column in self.fields.values()) + sum(map(getsizeof, self.paths))

    @property
    def num_files(self) -> int:
        return len(self.paths)

    @property
    def columns(self) -> Columns:
        return FileColumns(self.partition_values, self.stats)

    @cached_property
    def paths(self) -> list[str]:
        return _texts(self.fields["path"]) if self.fields else []

    @cached_property
    def sizes(self) -> list[int]:
        sizes = self._values("size")
        if sizes:
            actions.size(min(sizes))
            actions.size(max(sizes))
        return sizes

    @cached_property
    def deletion_vectors(self) -> list[DeletionVector | None]:
        return [value and actions.deletion_vector(value) for value in self._values("deletionVector")]

    @property
    def partition_values(self) -> list[Mapping[str, str | None]]:
        if "partitionValues" not in self.fields:
            return [{}] * len(self.paths)
        lines = _json_lines([self.fields["partitionValues"]], ["partitionValues"])
        values = {line: self._known.get(line) or _partition_values(line) for line in set(lines)}
        if len(self._known) > MAX_KNOWN_PARTITIONS:
            self._known.clear()
        self._known.update(values)
        return [values[line] for line in lines]

    @property
    def stats(self) -> list[str | None]:
        stats = _texts(self.fields["stats"]) if "stats" in self.fields else [None] * len(self.paths)
        if None not in stats or "stats_parsed" not in self.fields:
            return stats
        parsed = _stats_json(self.fields["stats_parsed"])
        return [also if text is None else text for text, also in zip(stats, parsed, strict=True)]

    def adds(self) -> Iterator[Add]:
        return AddBatch(
            self.paths,
            self.partition_values,
            self.sizes,
            self._values("modificationTime"),
            list(map(bool, self._values("dataChange"))),
            self.stats,
            self.deletion_vectors,
            self._more(),
        ).adds()

    def lines(self, names: Sequence[str], frame: Frame) -> Iterator[bytes]:
        if self._are_plain(names):
            written = BytesIO()
            fields = {name: self.fields[name] for name in names if name in self.fields}
            write_ndjson(_record_batch(frame(fields), len(self.paths)), written, explicit_nulls=True)
            lines = written.getvalue()
            if lines.isascii():
                yield lines
                return
        yield from AddBatch.of(self.adds()).lines(names, frame)

    def _are_plain(self, names: Sequence[str]) -> bool:
        """Whether arrow writes the fields as Python does."""
        derived = "stats_parsed" in self.fields and "stats" not in self.fields
        return not (derived or "deletionVector" in self.fields) and all(_is_plain(name, self.fields) for name in names)

    def between(self, begin: int, end: int) -> "FileRows":
        length = max(min(end, len(self.paths)) - begin, 0)
        return FileRows({name: column.slice(begin, length) for name, column in self.fields.items()}, self._known)

    def only(self, chosen: Iterable[object]) -> "FileRows":
        return self.at(_places(chosen))

    def at(self, places: Sequence[int]) -> "FileRows":
        rows = Array(places, type=DataType.uint32())
        return FileRows({name: column.take(rows) for name, column in self.fields.items()}, self._known)

    def _more(self) -> list[Any]:
        used = [name for name in actions.MORE if name in self.fields]
        if not used:
            return [None] * len(self.paths)
        lines = _json_lines([self.fields[name] for name in used], used)
        return [actions.more(orjson.loads(line)) for line in lines]

    def _values(self, name: str) -> list[Any]:
        return list(self.fields[name].to_pylist()) if name in self.fields else [None] * len(self.paths)


def _partition_values(line: bytes) -> Mapping[str, str | None]:
    return actions.partition_values(orjson.loads(line)["partitionValues"])


def _is_plain(name: str, fields: Mapping[str, Array]) -> bool:
    """Whether the field is nowhere, or is everywhere and of its type."""
    if name not in fields:
        return True
    return fields[name].null_count == 0 and PLAIN[name](fields[name].type)


def _texts(column: Array) -> list[Any]:
    if not _is_text(column.type):
        raise TypeError("a text is none")
    return list((column.cast(DataType.string()) if DataType.is_dictionary(column.type) else column).to_pylist())


def _is_text(kind: DataType) -> bool:
    return any(is_text(kind) for is_text in (*TEXTS, DataType.is_dictionary))


def _places(chosen: Iterable[object]) -> list[int]:
    """Where something is true."""
    return [place for place, is_chosen in enumerate(chosen) if is_chosen]


def _record_batch(layout: Layout, rows: int) -> RecordBatch:
    told = {name: values for name, values in layout.items() if values is not None}
    return RecordBatch.from_arrays([_column(values, rows) for values in told.values()], names=list(told))


def _column(values: Any, rows: int) -> Array:
    if isinstance(values, Mapping):
        return _record_batch(values, rows).to_struct_array()
    if isinstance(values, int):
        return Array([values] * rows, type=DataType.int64())
    return Array(values, type=DataType.string()) if isinstance(values, list) else values


def _stats_json(parsed: Array) -> list[str | None]:
    """Statistics that are columns, as the JSON text that a commit would have: what is null is left out."""
    kind = _with_bounds(parsed.type)
    if kind is None:
        return [None] * len(parsed)
    lines = _json_lines([parsed if kind == parsed.type else parsed.cast(kind)], ["s"], explicit_nulls=False)
    return [line[len(b'{"s":') : -1].decode() if line != b"{}" else None for line in lines]


def _with_bounds(kind: DataType) -> DataType | None:
    """The type without what Delta has no bounds for, or none that could be trusted.

    Times in nanoseconds are Spark's INT96, of which arrow makes another year if it is not between 1677 and 2262.
    """
    if any(is_struct(kind) for is_struct in STRUCTS):
        inner = [(field.name, _with_bounds(field.type)) for field in kind.fields]
        fields = [Field(name, narrowed, nullable=True) for name, narrowed in inner if narrowed is not None]
        return DataType.struct(fields) if fields else None
    wraps_around = DataType.is_timestamp(kind) and kind.time_unit == "ns"
    return None if wraps_around or any(is_binary(kind) for is_binary in BINARIES) else kind


def _json_lines(columns: list[Array], names: list[str], *, explicit_nulls: bool = True) -> list[bytes]:
    lines = BytesIO()
    write_ndjson(RecordBatch.from_arrays(columns, names=names), lines, explicit_nulls=explicit_nulls)
    return lines.getvalue().splitlines()
