"""The rows of a checkpoint's batch, as the actions that they are.

What stands in plain columns becomes Python lists at once. What is nested is written as JSON by arrow, which knows a map
from a list and writes numbers, dates and times as Delta does. It is read back only where that is needed: partition
values once for each partition, statistics not at all, since their JSON is what is relayed.
"""

from collections.abc import Iterator
from io import BytesIO
from itertools import compress
from typing import Any

import orjson
from arro3.core import Array, DataType, Field, RecordBatch, struct_field
from arro3.io import write_ndjson

from core.delta.log import actions
from core.delta.snapshot import AddBatch, DeletionVector

# How many partitions' values are remembered, for the files that follow.
MAX_KNOWN_PARTITIONS = 10_000

TEXTS = (DataType.is_string, DataType.is_large_string, DataType.is_string_view)
STRUCTS = (DataType.is_struct,)
BINARIES = (DataType.is_binary, DataType.is_large_binary, DataType.is_binary_view)

KnownPartitions = dict[bytes, dict[str, str | None]]


def objects(batch: RecordBatch, name: str) -> Iterator[dict[str, Any]]:
    """The actions of one kind, of which there are few."""
    if name in batch.schema.names and batch[name].null_count < batch.num_rows:
        for line in _json_lines([batch[name]], [name]):
            value = orjson.loads(line)[name]
            if value is not None:
                yield value


class AddRows:
    """The rows of a batch that are `add` actions, by column."""

    def __init__(self, batch: RecordBatch) -> None:
        column = batch["add"] if "add" in batch.schema.names else None
        self._fields: dict[str, Array] = {}
        if column is not None and column.null_count < len(column):
            names = [field.name for field in column.type.fields]
            self._fields = {name: struct_field(column, [index]) for index, name in enumerate(names)}
        # Where a row is no add, its path is null; or empty, by writers that declare it as never null.
        paths: list[str | None] = self._texts("path") if self._fields else []
        self._rows = len(paths)
        self._is_add = None if all(paths) else list(map(bool, paths))
        self.paths = self._only(paths)

    def sizes(self) -> list[int]:
        sizes = self._values("size")
        if sizes:
            actions.size(min(sizes))
            actions.size(max(sizes))
        return sizes

    def deletion_vectors(self) -> list[DeletionVector | None]:
        return [value and actions.deletion_vector(value) for value in self._values("deletionVector")]

    def adds(self, known: KnownPartitions) -> AddBatch:
        modified = self._values("modificationTime")
        if None in modified:
            raise TypeError("a file has no time of modification")
        return AddBatch(
            self.paths,
            self._partition_values(known),
            self.sizes(),
            modified,
            list(map(bool, self._values("dataChange"))),
            self._stats(),
            self.deletion_vectors(),
            self._more(),
        )

    def _partition_values(self, known: KnownPartitions) -> list[Any]:
        if not self.paths:
            return []
        lines = self._only(_json_lines([self._fields["partitionValues"]], ["partitionValues"]))
        for line in set(lines).difference(known):
            known[line] = actions.partition_values(orjson.loads(line)["partitionValues"])
        values = [known[line] for line in lines]
        if len(known) > MAX_KNOWN_PARTITIONS:
            known.clear()
        return values

    def _stats(self) -> list[str | None]:
        stats = self._only(self._texts("stats")) if self._has_values("stats") else [None] * len(self.paths)
        if None not in stats or not self._has_values("stats_parsed"):
            return stats
        parsed = self._only(_stats_json(self._fields["stats_parsed"]))
        return [also if text is None else text for text, also in zip(stats, parsed, strict=True)]

    def _more(self) -> list[Any]:
        used = [name for name in actions.MORE if self._has_values(name)]
        if not used:
            return [None] * len(self.paths)
        lines = self._only(_json_lines([self._fields[name] for name in used], used))
        return [actions.more(orjson.loads(line)) for line in lines]

    def _values(self, name: str) -> list[Any]:
        if not self._has_values(name):
            return [None] * len(self.paths)
        return self._only(list(self._fields[name].to_pylist()))

    def _texts(self, name: str) -> list[Any]:
        field = self._fields[name]
        if DataType.is_dictionary(field.type):
            field = field.cast(DataType.string())
        if not any(is_text(field.type) for is_text in TEXTS):
            raise TypeError(f"{name} is no text")
        return list(field.to_pylist())

    def _has_values(self, name: str) -> bool:
        return name in self._fields and self._fields[name].null_count < self._rows

    def _only(self, values: list[Any]) -> list[Any]:
        return values if self._is_add is None else list(compress(values, self._is_add))


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
