"""The files of a checkpoint as Arrow columns, one batch of rows at a time.

Columns become Python lists only when they are read: paths always, the rest rarely. Nested columns are read through
Arrow's JSON writer, which distinguishes maps from lists and formats numbers, dates and times as Delta does. For
partition values, that JSON is parsed once per partition. For statistics it is not parsed: they are relayed as JSON.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from io import BytesIO
from sys import getsizeof
from typing import Any

import orjson
from arro3.core import Array, DataType, Field, RecordBatch, struct_field
from arro3.io import write_ndjson

from core.delta.log import actions
from core.delta.log.batch import AddBatch, AddFields, ArrowField
from core.delta.model import Add, DeletionVector
from core.pruning.columns import Columns, FileColumns

# Number of partitions whose parsed values are kept for later batches.
MAX_CACHED_PARTITIONS = 10_000
# Approximate memory of a file's entries in lists, beside its path, and of a partition in the cache.
BYTES_PER_FILE = 100
BYTES_PER_PARTITION = 450
# The buffers of decoded columns have room for up to twice their content, because they grow by doubling.
SPARE_CAPACITY = 1.5

TEXTS = (DataType.is_string, DataType.is_large_string, DataType.is_string_view)
STRUCTS = (DataType.is_struct,)
BINARIES = (DataType.is_binary, DataType.is_large_binary, DataType.is_binary_view)

TEXT_MAP = re.compile(r'.*<Map\("\w+": (non-null )?Struct\("\w+": (non-null )?Utf8, "\w+": (non-null )?Utf8\).*>\s*')


def is_text_map(data_type: DataType) -> bool:
    """Whether a type maps strings to strings. arro3 shows the key and value types of a map only in its repr."""
    return TEXT_MAP.fullmatch(repr(data_type)) is not None


PartitionCache = dict[bytes, Mapping[str, str | None]]
"""Parsed partition values by their JSON."""


def objects(batch: RecordBatch, name: str) -> Iterator[dict[str, Any]]:
    """Yields the actions with a given name. Use it only for names with few actions."""
    if name in batch.schema.names and batch[name].null_count < batch.num_rows:
        for line in _json_lines([batch[name]], [name]):
            value = orjson.loads(line)[name]
            if value is not None:
                yield value


class FileRows:
    def __init__(self, fields: Mapping[str, Array], partitions: PartitionCache) -> None:
        """`fields` are the columns of the `add` actions, without rows of other actions."""
        self.fields = {name: column for name, column in fields.items() if column.null_count < len(column)}
        self._partitions = partitions

    @classmethod
    def of(cls, batch: RecordBatch, partitions: PartitionCache) -> "FileRows":
        column = batch["add"] if "add" in batch.schema.names else None
        if column is None or column.null_count == len(column):
            return cls({}, partitions)
        names = [field.name for field in column.type.fields]
        fields = {name: struct_field(column, [index]) for index, name in enumerate(names)}
        # In rows of other actions the path is null, or empty if the writer declared it as non-null.
        paths = _texts(fields["path"])
        if not all(paths):
            adds = Array(_true_indices(paths), type=DataType.uint32())
            fields = {name: column.take(adds) for name, column in fields.items()}
        return cls(fields, partitions)

    def check(self) -> None:
        """Raises for values that would otherwise fail in the middle of an answer."""
        if not self.paths:
            return
        if "modificationTime" not in self.fields or self.fields["modificationTime"].null_count:
            raise TypeError("a file has no modification time")
        if "stats" in self.fields and not _is_text(self.fields["stats"].type):
            raise TypeError("statistics are not text")
        partitions = self.fields.get("partitionValues")
        if partitions is not None and (partitions.null_count or not is_text_map(partitions.type)):
            _ = self.partition_values

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of the columns, and of the paths, sizes and deletion vectors that stay in memory."""
        columns = SPARE_CAPACITY * sum(column.nbytes for column in self.fields.values())
        return int(columns) + sum(map(getsizeof, self.paths)) + BYTES_PER_FILE * len(self.paths)

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
        values = {line: self._partitions.get(line) or _partition_values(line) for line in set(lines)}
        if len(self._partitions) > MAX_CACHED_PARTITIONS:
            self._partitions.clear()
        self._partitions.update(values)
        return [values[line] for line in lines]

    @property
    def stats(self) -> list[str | None]:
        stats = _texts(self.fields["stats"]) if "stats" in self.fields else [None] * len(self.paths)
        if None not in stats or "stats_parsed" not in self.fields:
            return stats
        parsed = _stats_json(self.fields["stats_parsed"])
        return [from_columns if text is None else text for text, from_columns in zip(stats, parsed, strict=True)]

    def adds(self) -> Iterator[Add]:
        return AddBatch(
            self.paths,
            self.partition_values,
            self.sizes,
            self._values("modificationTime"),
            self._data_changes(),
            self.stats,
            self.deletion_vectors,
            self._extra_fields(),
        ).adds()

    def add_fields(self, names: Sequence[str]) -> AddFields:
        read: dict[str, Callable[[], Sequence[Any]]] = {
            "partitionValues": lambda: self.partition_values,
            "size": lambda: self.sizes,
            "modificationTime": lambda: self._values("modificationTime"),
            "dataChange": self._data_changes,
            "stats": lambda: self.stats,
        }
        extra_fields = cache(self._extra_fields)
        fields: dict[str, ArrowField | Sequence[Any]] = {}
        for name in names:
            if name in self.fields:
                fields[name] = ArrowField(self.fields[name], read.get(name) or partial(_field_of, extra_fields, name))
            elif name == "stats" and "stats_parsed" in self.fields:
                fields[name] = self.stats
        return fields

    def between(self, begin: int, end: int) -> "FileRows":
        length = max(min(end, len(self.paths)) - begin, 0)
        return FileRows({name: column.slice(begin, length) for name, column in self.fields.items()}, self._partitions)

    def only(self, chosen: Iterable[object]) -> "FileRows":
        return self.at(_true_indices(chosen))

    def at(self, indices: Sequence[int]) -> "FileRows":
        rows = Array(indices, type=DataType.uint32())
        return FileRows({name: column.take(rows) for name, column in self.fields.items()}, self._partitions)

    def _data_changes(self) -> list[bool]:
        return list(map(bool, self._values("dataChange")))

    def _extra_fields(self) -> list[Any]:
        used = [name for name in actions.EXTRA_FIELDS if name in self.fields]
        if not used:
            return [None] * len(self.paths)
        lines = _json_lines([self.fields[name] for name in used], used)
        return [actions.extra_fields(orjson.loads(line)) for line in lines]

    def _values(self, name: str) -> list[Any]:
        return list(self.fields[name].to_pylist()) if name in self.fields else [None] * len(self.paths)


def _partition_values(line: bytes) -> Mapping[str, str | None]:
    return actions.partition_values(orjson.loads(line)["partitionValues"])


def _field_of(extra_fields: Callable[[], list[Any]], name: str) -> list[Any]:
    return [fields and fields.get(name) for fields in extra_fields()]


def _texts(column: Array) -> list[Any]:
    if not _is_text(column.type):
        raise TypeError("a column is not text")
    return list((column.cast(DataType.string()) if DataType.is_dictionary(column.type) else column).to_pylist())


def _is_text(data_type: DataType) -> bool:
    return any(is_text(data_type) for is_text in (*TEXTS, DataType.is_dictionary))


def _true_indices(values: Iterable[object]) -> list[int]:
    return [index for index, value in enumerate(values) if value]


def _stats_json(parsed: Array) -> list[str | None]:
    """Converts parsed statistics to the JSON that a commit would have, without nulls."""
    data_type = _with_bounds(parsed.type)
    if data_type is None:
        return [None] * len(parsed)
    lines = _json_lines([parsed if data_type == parsed.type else parsed.cast(data_type)], ["s"], explicit_nulls=False)
    return [line[len(b'{"s":') : -1].decode() if line != b"{}" else None for line in lines]


def _with_bounds(data_type: DataType) -> DataType | None:
    """The type without fields for which Delta has no bounds, or whose bounds may be wrong.

    Timestamps in nanoseconds are Spark's INT96, and Arrow overflows on years outside 1677 to 2262.
    """
    if any(is_struct(data_type) for is_struct in STRUCTS):
        inner = [(field.name, _with_bounds(field.type)) for field in data_type.fields]
        fields = [Field(name, narrowed, nullable=True) for name, narrowed in inner if narrowed is not None]
        return DataType.struct(fields) if fields else None
    wraps_around = DataType.is_timestamp(data_type) and data_type.time_unit == "ns"
    return None if wraps_around or any(is_binary(data_type) for is_binary in BINARIES) else data_type


def _json_lines(columns: list[Array], names: list[str], *, explicit_nulls: bool = True) -> list[bytes]:
    lines = BytesIO()
    write_ndjson(RecordBatch.from_arrays(columns, names=names), lines, explicit_nulls=explicit_nulls)
    return lines.getvalue().splitlines()
