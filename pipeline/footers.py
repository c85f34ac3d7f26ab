"""Statistics from Parquet footers, for files of which the log has none. Pruning alone uses them.

They have the log's form, so that what pruning knows of cut and rounded bounds holds for them too. A footer counts only
where its column is surely the table's: of the same name and type, and written in the order that Parquet now defines.
Whatever is doubtful (INT96, unsigned numbers, NaN, times before 1900, which old writers counted by another calendar) is
left out.
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
from core.storage.objects import ObjectInfo
from pipeline.log.checkpoint import open_parquet
from pipeline.storage import TableObjects, TableStorage

COLUMN = "footer_stats"
PARALLEL_READS = 16
# As long as pruning takes a text for one that may be cut, which makes a prefix as good as the whole.
MAX_CHARACTERS = 32
OLDEST = (date(1900, 1, 1) - date(1970, 1, 1)).days * DAY
NEWEST = (date(9999, 12, 31) - date(1970, 1, 1)).days * DAY
# By how many microseconds a unit is multiplied, and divided.
MICROSECONDS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
UNREADABLE = (SharingError, ClientError, BotoCoreError, pa.ArrowException, OSError, ValueError)

Bounds: TypeAlias = tuple[Any, Any] | None


@dataclass(frozen=True, slots=True)
class Footers:
    """How statistics are completed; it goes to the workers."""

    table: TableStorage
    fields: tuple[Field, ...]
    """The columns to have statistics of."""
    most_files: int
    """How many footers a task may read."""

    @classmethod
    def of(cls, table: TableStorage, metadata: Metadata, fields: Sequence[Field], most_files: int) -> "Footers":
        """Where columns go by their ids, a name says nothing: then only rows are counted."""
        by_id = column_mapping_mode(metadata) == "id"
        return cls(table, () if by_id else tuple(field for field in fields if not field.in_partitions), most_files)

    def complete(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same inside of a worker."""
        left = self.most_files
        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            for batch in batches:
                lacking = pc.indices_nonzero(_lacks_stats(batch.column("stats"))).slice(0, left)
                left -= len(lacking)
                files = batch.take(lacking)
                paths, sizes = files.column("path").to_pylist(), files.column("size").to_pylist()
                found = self.read(pool, paths, sizes) if paths else ()
                stats = dict(zip(lacking.to_pylist(), found, strict=True))
                yield batch.append_column(COLUMN, pa.array(map(stats.get, range(batch.num_rows)), pa.string()))

    def read(self, pool: Executor, paths: Iterable[str], sizes: Iterable[int]) -> Iterator[str | None]:
        return pool.map(partial(self._read, self.table.open()), paths, sizes)

    def _read(self, table: TableObjects, path: str, size: int) -> str | None:
        try:
            _, key = FilePaths(table.location).find(path)
            return stats_of(open_parquet(table.objects, ObjectInfo(key, size, 0)).metadata, self.fields)
        except UNREADABLE:
            return None


def stats_of(footer: pq.FileMetaData, fields: Sequence[Field]) -> str:
    """What a footer says of a file, as the JSON that the log would have."""
    stats: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    for field in fields if len(places) == footer.num_columns else ():
        place = places.get(".".join(field.path))
        if place is None or not _is_surely(field, footer.schema.column(place)):
            continue
        groups = [footer.row_group(at).column(place) for at in range(footer.num_row_groups)]
        nulls = [_null_count(group) for group in groups]
        if None not in nulls:
            _put(stats["nullCount"], field.path, sum(filter(None, nulls)))
        if bounds := _bounds(field, footer.schema.column(place), groups):
            _put(stats["minValues"], field.path, bounds[0])
            _put(stats["maxValues"], field.path, bounds[1])
    return orjson.dumps(stats).decode()


def _lacks_stats(stats: pa.Array) -> pa.Array:
    return pc.invert(pc.fill_null(pc.match_substring(stats, '"numRecords"'), False))


def _put(values: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _is_surely(field: Field, column: pq.ColumnSchema) -> bool:
    """A path in a footer has dots between names, and perhaps in them."""
    no_dots = all("." not in name for name in field.path[:-1])
    return no_dots and column.name == field.path[-1] and column.max_repetition_level == 0


def _null_count(group: pq.ColumnChunkMetaData) -> int | None:
    statistics = group.statistics
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _bounds(field: Field, column: pq.ColumnSchema, groups: Sequence[pq.ColumnChunkMetaData]) -> Bounds:
    """None if a row group with values has no bounds, or if there are no values at all."""
    known = [group.statistics for group in groups if _null_count(group) != group.num_values]
    convert = BOUNDS.get(field.type.name)
    if not known or convert is None or any(each is None or not each.has_min_max for each in known):
        return None
    return convert(field, column, known)


def _logical_type(column: pq.ColumnSchema) -> Any:
    return orjson.loads(column.logical_type.to_json())


def _values(known: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    return min(each.min for each in known), max(each.max for each in known)


def _integers(_: Field, column: pq.ColumnSchema, known: Sequence[pq.Statistics]) -> Bounds:
    kind = _logical_type(column)
    signed = kind["Type"] == "None" or (kind["Type"] == "Int" and kind["isSigned"])
    return _values(known) if signed and column.physical_type in ("INT32", "INT64") else None


def _booleans(_: Field, column: pq.ColumnSchema, known: Sequence[pq.Statistics]) -> Bounds:
    return _values(known) if column.physical_type == "BOOLEAN" else None


def _floats(field: Field, column: pq.ColumnSchema, known: Sequence[pq.Statistics]) -> Bounds:
    """A float is a double too, but not the other way round."""
    if column.physical_type not in ("FLOAT", "DOUBLE")[: 1 if field.type.name == "float" else 2]:
        return None
    finite = all(math.isfinite(value) for each in known for value in (each.min, each.max))
    return _values(known) if finite and _logical_type(column)["Type"] == "None" else None


def _decimals(_: Field, column: pq.ColumnSchema, known: Sequence[pq.Statistics]) -> Bounds:
    """As texts, which are exact."""
    low, high = _values(known) if _logical_type(column)["Type"] == "Decimal" else (None, None)
    return (f"{low:f}", f"{high:f}") if isinstance(low, Decimal) and isinstance(high, Decimal) else None


def _strings(_: Field, column: pq.ColumnSchema, known: Sequence[pq.Statistics]) -> Bounds:
    if _logical_type(column)["Type"] != "String":
        return None
    low, high = _values(known)
    return low[:MAX_CHARACTERS], high[:MAX_CHARACTERS]


def _dates(_: Field, column: pq.ColumnSchema, known: Sequence[pq.Statistics]) -> Bounds:
    if _logical_type(column)["Type"] != "Date":
        return None
    first, last = min(each.min_raw for each in known), max(each.max_raw for each in known)
    return (_moment(first * DAY)[:10], _moment(last * DAY)[:10]) if _are_modern(first * DAY, last * DAY) else None


def _timestamps(field: Field, column: pq.ColumnSchema, known: Sequence[pq.Statistics]) -> Bounds:
    kind = _logical_type(column)
    if kind["Type"] != "Timestamp" or kind["isAdjustedToUTC"] != (field.type.name == "timestamp"):
        return None
    times, per = MICROSECONDS[kind["timeUnit"]]
    first = min(each.min_raw for each in known) * times // per
    last = -(max(each.max_raw for each in known) * -times // per)
    zone = "Z" if field.type.name == "timestamp" else ""
    return (_moment(first) + zone, _moment(last) + zone) if _are_modern(first, last) else None


def _are_modern(first: int, last: int) -> bool:
    return first >= OLDEST and last < NEWEST


def _moment(microseconds: int) -> str:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds")


BOUNDS: dict[str, Callable[[Field, pq.ColumnSchema, Sequence[pq.Statistics]], Bounds]] = {
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
