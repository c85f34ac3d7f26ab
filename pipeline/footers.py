"""Statistics from Parquet footers, for files without statistics in the log. Only pruning uses them.

They have the same JSON form as in the log, so pruning handles their truncated and rounded bounds in the same way. A
column of a footer is used only if its name and type match the table's column and it has the sort order that Parquet
defines today. Doubtful bounds are left out: INT96, unsigned numbers, NaN, and times before 1900, which old writers
stored in another calendar.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from core.delta.features import column_mapping_mode
from core.delta.model import Metadata
from core.delta.paths import FilePaths
from core.errors import SharingError
from core.pruning.schema import INTEGER_BITS, Field
from core.pruning.values import DAY
from core.storage.objects import ObjectInfo, TableObjects
from pipeline.log.checkpoint import open_parquet
from pipeline.storage import TableStorage

FOOTER_STATS = "footer_stats"
PARALLEL_READS = 16
# Pruning assumes that a string of this length may be truncated, so a prefix is a valid bound.
MAX_CHARACTERS = 32
MIN_TIME = (date(1900, 1, 1) - date(1970, 1, 1)).days * DAY
MAX_TIME = (date(9999, 12, 31) - date(1970, 1, 1)).days * DAY
# Multiplier and divisor that convert each unit to microseconds.
MICROSECONDS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
UNREADABLE = (SharingError, ClientError, BotoCoreError, pa.ArrowException, OSError, ValueError)

Bounds: TypeAlias = tuple[Any, Any] | None


@dataclass(frozen=True, slots=True)
class Footers:
    """Completes statistics from footers. Sent to the workers."""

    table: TableStorage
    fields: tuple[Field, ...]
    """The columns that need statistics."""
    max_files: int
    """Maximum number of footers that a task reads."""

    @classmethod
    def of(cls, table: TableStorage, metadata: Metadata, fields: Sequence[Field], max_files: int) -> "Footers":
        """In column mapping mode `id`, names do not identify columns, so only the number of rows is used."""
        by_id = column_mapping_mode(metadata) == "id"
        return cls(table, () if by_id else tuple(field for field in fields if not field.in_partitions), max_files)

    def complete(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Adds the column `FOOTER_STATS`: null if the log has statistics, or if the footer was not read."""
        remaining = self.max_files
        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            for batch in batches:
                missing = pc.indices_nonzero(_lacks_stats(batch.column("stats"))).slice(0, remaining)
                remaining -= len(missing)
                files = batch.take(missing)
                paths, sizes = files.column("path").to_pylist(), files.column("size").to_pylist()
                found = self.read(pool, paths, sizes) if paths else ()
                stats = dict(zip(missing.to_pylist(), found, strict=True))
                yield batch.append_column(FOOTER_STATS, pa.array(map(stats.get, range(batch.num_rows)), pa.string()))

    def read(self, pool: Executor, paths: Iterable[str], sizes: Iterable[int]) -> Iterator[str | None]:
        """Returns the statistics of each file as JSON, or None if its footer cannot be read."""
        return pool.map(partial(self._read, self.table.open()), paths, sizes)

    def _read(self, table: TableObjects, path: str, size: int) -> str | None:
        try:
            _, key = FilePaths(table.location).find(path)
            return stats_of(open_parquet(table.objects, ObjectInfo(key, size, 0)).metadata, self.fields)
        except UNREADABLE:
            return None


def stats_of(footer: pq.FileMetaData, fields: Sequence[Field]) -> str:
    """Returns the statistics in a footer, in the JSON form of the log."""
    stats: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    indices = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    for field in fields if len(indices) == footer.num_columns else ():
        index = indices.get(".".join(field.path))
        if index is None or not _is_same_column(field, footer.schema.column(index)):
            continue
        groups = [footer.row_group(number).column(index) for number in range(footer.num_row_groups)]
        nulls = [_null_count(group) for group in groups]
        if None not in nulls:
            _put(stats["nullCount"], field.path, sum(filter(None, nulls)))
        if bounds := _bounds(field, footer.schema.column(index), groups):
            _put(stats["minValues"], field.path, bounds[0])
            _put(stats["maxValues"], field.path, bounds[1])
    return orjson.dumps(stats).decode()


def _lacks_stats(stats: pa.Array) -> pa.Array:
    return pc.invert(pc.fill_null(pc.match_substring(stats, '"numRecords"'), False))


def _put(values: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _is_same_column(field: Field, column: pq.ColumnSchema) -> bool:
    """Rejects ambiguous paths: a footer puts dots between names, and names may contain dots."""
    no_dots = all("." not in name for name in field.path[:-1])
    return no_dots and column.name == field.path[-1] and column.max_repetition_level == 0


def _null_count(group: pq.ColumnChunkMetaData) -> int | None:
    statistics = group.statistics
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _bounds(field: Field, column: pq.ColumnSchema, groups: Sequence[pq.ColumnChunkMetaData]) -> Bounds:
    """Returns None if a row group with values has no bounds, or if there are no values at all."""
    statistics = [group.statistics for group in groups if _null_count(group) != group.num_values]
    convert = CONVERTERS.get(field.type.name)
    if not statistics or convert is None or any(each is None or not each.has_min_max for each in statistics):
        return None
    return convert(field, column, statistics)


def _logical_type(column: pq.ColumnSchema) -> Any:
    return orjson.loads(column.logical_type.to_json())


def _values(statistics: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    return min(each.min for each in statistics), max(each.max for each in statistics)


def _integers(_: Field, column: pq.ColumnSchema, statistics: Sequence[pq.Statistics]) -> Bounds:
    logical_type = _logical_type(column)
    signed = logical_type["Type"] == "None" or (logical_type["Type"] == "Int" and logical_type["isSigned"])
    return _values(statistics) if signed and column.physical_type in ("INT32", "INT64") else None


def _booleans(_: Field, column: pq.ColumnSchema, statistics: Sequence[pq.Statistics]) -> Bounds:
    return _values(statistics) if column.physical_type == "BOOLEAN" else None


def _floats(field: Field, column: pq.ColumnSchema, statistics: Sequence[pq.Statistics]) -> Bounds:
    """A `double` column also accepts FLOAT, its type before widening. A `float` column accepts only FLOAT."""
    if column.physical_type not in ("FLOAT", "DOUBLE")[: 1 if field.type.name == "float" else 2]:
        return None
    finite = all(math.isfinite(value) for each in statistics for value in (each.min, each.max))
    return _values(statistics) if finite and _logical_type(column)["Type"] == "None" else None


def _decimals(_: Field, column: pq.ColumnSchema, statistics: Sequence[pq.Statistics]) -> Bounds:
    """Decimals are written as strings, which are exact."""
    low, high = _values(statistics) if _logical_type(column)["Type"] == "Decimal" else (None, None)
    return (f"{low:f}", f"{high:f}") if isinstance(low, Decimal) and isinstance(high, Decimal) else None


def _strings(_: Field, column: pq.ColumnSchema, statistics: Sequence[pq.Statistics]) -> Bounds:
    if _logical_type(column)["Type"] != "String":
        return None
    low, high = _values(statistics)
    return low[:MAX_CHARACTERS], high[:MAX_CHARACTERS]


def _dates(_: Field, column: pq.ColumnSchema, statistics: Sequence[pq.Statistics]) -> Bounds:
    if _logical_type(column)["Type"] != "Date":
        return None
    first, last = min(each.min_raw for each in statistics), max(each.max_raw for each in statistics)
    return (_iso_time(first * DAY)[:10], _iso_time(last * DAY)[:10]) if _in_range(first * DAY, last * DAY) else None


def _timestamps(field: Field, column: pq.ColumnSchema, statistics: Sequence[pq.Statistics]) -> Bounds:
    logical_type = _logical_type(column)
    if logical_type["Type"] != "Timestamp" or logical_type["isAdjustedToUTC"] != (field.type.name == "timestamp"):
        return None
    multiplier, divisor = MICROSECONDS[logical_type["timeUnit"]]
    first = min(each.min_raw for each in statistics) * multiplier // divisor
    last = -(max(each.max_raw for each in statistics) * -multiplier // divisor)
    zone = "Z" if field.type.name == "timestamp" else ""
    return (_iso_time(first) + zone, _iso_time(last) + zone) if _in_range(first, last) else None


def _in_range(first: int, last: int) -> bool:
    return first >= MIN_TIME and last < MAX_TIME


def _iso_time(microseconds: int) -> str:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds")


CONVERTERS: dict[str, Callable[[Field, pq.ColumnSchema, Sequence[pq.Statistics]], Bounds]] = {
    **dict.fromkeys(INTEGER_BITS, _integers),
    "boolean": _booleans,
    "float": _floats,
    "double": _floats,
    "decimal": _decimals,
    "string": _strings,
    "date": _dates,
    "timestamp": _timestamps,
    "timestamp_ntz": _timestamps,
}
