"""Reads the files of a checkpoint as Arrow batches, a few row groups at a time.

Batches in the usual form, with the expected types and no unexpected nulls, pass from Parquet to Spark without becoming
Python objects. `core.delta` reads all others (for example statistics only in `stats_parsed`), and converts or rejects
them as it does for queries.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from arro3.core import RecordBatch
from botocore.exceptions import BotoCoreError, ClientError

from core.delta.log import actions
from core.delta.log.damage import log_file, undamaged, valid_actions
from core.delta.log.file_schema import VECTOR_TYPES
from core.delta.log.rows import FileRows
from core.delta.log.table_actions import TABLE_ACTIONS, TableActions
from core.index.layout.rows import NotIndexableError
from core.storage.objects import ObjectInfo, ObjectReader
from pipeline.log.rows import BATCH_ROWS, FILE, file_batches
from pipeline.storage import RangedFile

NEVER_NULL = ("partitionValues", "size", "modificationTime", "dataChange")
PARALLEL_READS = 16
# Lists the fields of deletion vectors, because Delta Spark stores more of them than the protocol defines.
COLUMNS = [
    *(f"add.{name}" for name in FILE.names if name != "deletionVector"),
    *(f"add.deletionVector.{name}" for name in VECTOR_TYPES),
]
STATS_PARSED = "add.stats_parsed"
# For each table action, a field that is never null.
REQUIRED_FIELDS = ("protocol.minReaderVersion", "metaData.id", "sidecar.path")
# Errors that do not mean that a checkpoint is damaged.
UNRELATED = (BotoCoreError, ClientError, NotIndexableError)


class Piece(NamedTuple):
    """Row groups of a checkpoint file. If `row_groups` is None, all of them."""

    file: ObjectInfo
    row_groups: tuple[int, ...] | None = None


def table_actions(reader: ObjectReader, files: Iterable[ObjectInfo]) -> TableActions:
    """Reads only the footer of each file, and the few row groups with a protocol, metadata or sidecars."""
    found = TableActions()
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        for file, takes in pool.map(lambda file: (file, list(_table_actions(reader, file))), files):
            with undamaged(log_file(file.key), *UNRELATED):
                for take in takes:
                    take(found)
    return found


def pieces(reader: ObjectReader, files: Iterable[ObjectInfo], max_bytes: int) -> Iterator[tuple[Piece, int]]:
    """Splits files larger than `max_bytes` into one piece per row group. Yields each piece with its size."""
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        yield from chain.from_iterable(pool.map(lambda file: list(_pieces(reader, file, max_bytes)), files))


def _pieces(reader: ObjectReader, file: ObjectInfo, max_bytes: int) -> Iterator[tuple[Piece, int]]:
    if file.size <= max_bytes or is_manifest(file):
        yield Piece(file), file.size
        return
    with undamaged(log_file(file.key), *UNRELATED):
        footer = open_parquet(reader, file).metadata
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        yield Piece(file, (number,)), sum(group.column(leaf).total_compressed_size for leaf in range(group.num_columns))


def joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Joins adjacent pieces of the same file, so that its footer is read once."""
    for file, adjacent in groupby(pieces, key=lambda piece: piece.file):
        groups = [piece.row_groups for piece in adjacent]
        yield Piece(file, None if None in groups else tuple(chain.from_iterable(filter(None, groups))))


def file_rows(reader: ObjectReader, piece: Piece) -> Iterator[pa.RecordBatch]:
    name = log_file(piece.file.key)
    if is_manifest(piece.file):
        with valid_actions(name) as at:
            manifest = actions.json_actions(reader.get(piece.file.key, piece.file.etag), at)
            yield from file_batches(actions.add(action["add"]) for action in manifest if action.get("add") is not None)
        return
    with undamaged(name, *UNRELATED):
        file = open_parquet(reader, piece.file)
        footer = _Footer(file)
        if "add" not in footer.actions:
            return
        groups = [*(range(file.num_row_groups) if piece.row_groups is None else piece.row_groups)]
        columns = footer.columns(groups)
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False):
            yield from _rows(batch)


def sample_rows(reader: ObjectReader, pieces: Sequence[Piece], number: int) -> Iterator[pa.RecordBatch]:
    """Returns about `number` files of the pieces, evenly spaced."""
    every = max(sum(_num_rows(reader, piece) for piece in pieces) // max(number, 1), 1)
    passed = 0
    for batch in chain.from_iterable(file_rows(reader, piece) for piece in pieces):
        yield batch.take(pa.array(range(-passed % every, batch.num_rows, every), pa.int32()))
        passed += batch.num_rows


def _num_rows(reader: ObjectReader, piece: Piece) -> int:
    """Returns zero for a manifest, which holds few files."""
    if is_manifest(piece.file):
        return 0
    with undamaged(log_file(piece.file.key), *UNRELATED):
        footer = open_parquet(reader, piece.file).metadata
    return sum(footer.row_group(number).num_rows for number in piece.row_groups or range(footer.num_row_groups))


def is_manifest(file: ObjectInfo) -> bool:
    return file.key.endswith(".json")


def open_parquet(reader: ObjectReader, file: ObjectInfo) -> pq.ParquetFile:
    """Opens a file with `pre_buffer`, which fetches columns in few requests before decoding them."""
    return pq.ParquetFile(pa.PythonFile(RangedFile(reader, file.key, file.size, file.etag), "r"), pre_buffer=True)


def _table_actions(reader: ObjectReader, info: ObjectInfo) -> Iterator[Callable[[TableActions], None]]:
    name = log_file(info.key)
    if is_manifest(info):
        with valid_actions(name) as at:
            for action in actions.json_actions(reader.get(info.key, info.etag), at):
                yield partial(TableActions.take, action=action, file=name, line=at.line)
        return
    with undamaged(name, *UNRELATED):
        file = open_parquet(reader, info)
        groups = _Footer(file).groups_with_table_actions()
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=[*TABLE_ACTIONS], use_threads=False):
            yield partial(TableActions.take_rows, batch=RecordBatch.from_arrow(batch), file=name)


class _Footer:
    """Finds columns and their null counts by path, such as `add.path`."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._metadata = file.metadata
        schema = file.metadata.schema
        self._indices = {schema.column(index).path: index for index in range(file.metadata.num_columns)}
        self.actions = {path.partition(".")[0] for path in self._indices}

    def groups_with_table_actions(self) -> list[int]:
        return [group for group in range(self._metadata.num_row_groups) if self._has_table_actions(group)]

    def columns(self, groups: Iterable[int]) -> list[str]:
        """Returns the columns to read: all of `add` if it has unexpected fields."""
        if "add.path" not in self._indices or "add.deletionVector" in self._indices:
            return ["add"]
        return COLUMNS if all(map(self._has_all_stats, groups)) else [*COLUMNS, STATS_PARSED]

    def _has_table_actions(self, group: int) -> bool:
        rows = self._metadata.row_group(group).num_rows
        fields = (field for field in REQUIRED_FIELDS if field.partition(".")[0] in self.actions)
        return any(self._nulls(group, field) != rows for field in fields)

    def _has_all_stats(self, group: int) -> bool:
        """Whether every file has JSON statistics, so that the large `stats_parsed` need not be read."""
        nulls = self._nulls(group, "add.stats")
        return nulls is not None and nulls == self._nulls(group, "add.path")

    def _nulls(self, group: int, path: str) -> int | None:
        """Returns the number of rows in which a column is null, including rows of other actions. None if unknown."""
        index = self._indices.get(path)
        statistics = None if index is None else self._metadata.row_group(group).column(index).statistics
        return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _rows(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    column = batch.column("add")
    fields = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
    paths = fields.get("path")
    if paths is None or paths.type != pa.string():
        return _as_core_reads(batch)
    # In rows of other actions the path is null, or empty if the writer declared the column as not nullable.
    is_add = pc.fill_null(pc.not_equal(paths, ""), False)
    if not is_add.true_count:
        return ()
    if is_add.true_count < len(paths):
        fields = {name: values.filter(is_add) for name, values in fields.items()}
    if not _is_usual(fields):
        return _as_core_reads(batch)
    return [pa.RecordBatch.from_arrays([_column(field, fields) for field in FILE], schema=FILE)]


def _as_core_reads(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    rows = FileRows.of(RecordBatch.from_arrow(batch), {})
    rows.check()
    return file_batches(rows.adds())


def _is_usual(fields: Mapping[str, pa.Array]) -> bool:
    """Whether `core.delta` would return exactly the values in these columns."""
    used = {name: values for name, values in fields.items() if values.null_count < len(values)}
    return (
        all(_is_usual_type(used[name].type, FILE.field(name).type) for name in FILE.names if name in used)
        and all(name in used and not used[name].null_count for name in NEVER_NULL)
        and pc.min(used["size"]).as_py() >= 0
        and ("stats_parsed" not in used or ("stats" in used and not used["stats"].null_count))
        and ("deletionVector" not in used or _are_complete(used["deletionVector"]))
    )


def _is_usual_type(found: pa.DataType, expected: pa.DataType) -> bool:
    """Accepts 32-bit integers in deletion vectors, because some writers store them instead of 64-bit integers."""
    if not pa.types.is_struct(expected):
        return bool(found == expected)
    if not pa.types.is_struct(found) or [field.name for field in found] != [field.name for field in expected]:
        return False
    pairs = zip(found, expected, strict=True)
    return all(
        field.type == other.type or (other.type == pa.int64() and field.type == pa.int32()) for field, other in pairs
    )


def _are_complete(vectors: pa.Array) -> bool:
    members = zip(vectors.type, vectors.flatten(), strict=True)
    return all(values.null_count == vectors.null_count for field, values in members if field.name != "offset")


def _column(field: pa.Field, fields: Mapping[str, pa.Array]) -> pa.Array:
    values = fields.get(field.name)
    if values is None or values.null_count == len(values):
        return pa.nulls(len(fields["path"]), field.type)
    return values if values.type == field.type else values.cast(field.type)
