"""A checkpoint's files, some row groups at a time, as Arrow from the Parquet file to Spark.

Only what is usual passes so: columns of their own types, with nothing missing. All else (statistics in columns alone,
nulls where none belong) goes to `core.delta`, which makes of it what answers from the log make of it, or refuses
it with the same words.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, groupby
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from arro3.core import RecordBatch
from botocore.exceptions import BotoCoreError, ClientError

from core.delta.log import actions
from core.delta.log.rows import FileRows, objects
from core.delta.snapshot import Metadata, Protocol
from core.errors import MalformedRequestError, SharingError
from core.storage.objects import ObjectInfo, ObjectReader
from pipeline.log.rows import BATCH_ROWS, FILE, VECTOR, file_batches
from pipeline.storage import RangedFile

NEVER_NULL = ("partitionValues", "size", "modificationTime", "dataChange")
PARALLEL_READS = 16
# Delta Spark keeps more of a deletion vector than is part of the log's format.
COLUMNS = [
    *(f"add.{name}" for name in (*FILE.names, *actions.MORE) if name not in ("deletionVector", "more")),
    *(f"add.deletionVector.{field.name}" for field in VECTOR),
]
PARSED = "add.stats_parsed"
# The actions that are no files, by a field that each of them has.
TOPS = {"protocol.minReaderVersion": "protocol", "metaData.id": "metaData", "sidecar.path": "sidecar"}


class Piece(NamedTuple):
    """Of a file of a checkpoint, some row groups; none are named where all are meant."""

    file: ObjectInfo
    row_groups: tuple[int, ...] | None = None


class CheckpointTop(NamedTuple):
    """What a checkpoint says besides its files."""

    protocol: Protocol | None
    metadata: Metadata | None
    sidecars: list[tuple[str, int]]
    """Paths and sizes."""


def read_top(reader: ObjectReader, files: Iterable[ObjectInfo]) -> CheckpointTop:
    """Of each file its footer, and the few row groups that are not files alone."""
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    sidecars: list[tuple[str, int]] = []
    with undamaged():
        for action in _all_top_actions(reader, files):
            if (value := action.get("protocol")) is not None:
                protocol = actions.protocol(value)
            elif (value := action.get("metaData")) is not None:
                metadata = actions.metadata(value)
            elif (value := action.get("sidecar")) is not None:
                sidecars.append((actions.path(value["path"]), actions.size(value["sizeInBytes"])))
    return CheckpointTop(protocol, metadata, sidecars)


def pieces(reader: ObjectReader, files: Iterable[ObjectInfo], most_bytes: int) -> Iterator[tuple[Piece, int]]:
    """Files in pieces of at most so many bytes, as far as their row groups allow, each with its size."""
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        yield from chain.from_iterable(pool.map(lambda file: list(_pieces(reader, file, most_bytes)), files))


def _pieces(reader: ObjectReader, file: ObjectInfo, most_bytes: int) -> Iterator[tuple[Piece, int]]:
    if file.size <= most_bytes or is_manifest(file):
        yield Piece(file), file.size
        return
    with undamaged():
        footer = open_parquet(reader, file).metadata
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        yield Piece(file, (at,)), sum(group.column(leaf).total_compressed_size for leaf in range(group.num_columns))


def joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Those of one file as one, so that its footer is read once."""
    for file, of_file in groupby(pieces, key=lambda piece: piece.file):
        groups = [piece.row_groups for piece in of_file]
        yield Piece(file, None if None in groups else tuple(chain.from_iterable(filter(None, groups))))


def file_rows(reader: ObjectReader, piece: Piece) -> Iterator[pa.RecordBatch]:
    with undamaged():
        if is_manifest(piece.file):
            manifest = actions.json_actions(reader.get(piece.file.key, piece.file.etag))
            yield from file_batches(actions.add(action["add"]) for action in manifest if action.get("add") is not None)
            return
        file = open_parquet(reader, piece.file)
        footer = _Footer(file)
        if "add" not in footer.actions:
            return
        groups = [*(range(file.num_row_groups) if piece.row_groups is None else piece.row_groups)]
        columns = footer.columns(groups)
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False):
            yield from _rows(batch)


def sample_rows(reader: ObjectReader, pieces: Sequence[Piece], number: int) -> Iterator[pa.RecordBatch]:
    """About so many of their files, at even distances."""
    every = max(sum(_num_rows(reader, piece) for piece in pieces) // max(number, 1), 1)
    passed = 0
    for batch in chain.from_iterable(file_rows(reader, piece) for piece in pieces):
        yield batch.take(pa.array(range(-passed % every, batch.num_rows, every), pa.int32()))
        passed += batch.num_rows


def _num_rows(reader: ObjectReader, piece: Piece) -> int:
    """None, of a file that has them all on a few lines."""
    if is_manifest(piece.file):
        return 0
    with undamaged():
        footer = open_parquet(reader, piece.file).metadata
    return sum(footer.row_group(at).num_rows for at in piece.row_groups or range(footer.num_row_groups))


def is_manifest(file: ObjectInfo) -> bool:
    return file.key.endswith(".json")


def open_parquet(reader: ObjectReader, file: ObjectInfo) -> pq.ParquetFile:
    """Its columns are fetched by few requests, ahead of being decoded."""
    return pq.ParquetFile(pa.PythonFile(RangedFile(reader, file.key, file.size, file.etag), "r"), pre_buffer=True)


@contextlib.contextmanager
def undamaged() -> Iterator[None]:
    try:
        yield
    except (SharingError, BotoCoreError, ClientError, MemoryError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # arro3 panics on what it does not expect, and a panic is no Exception
        raise MalformedRequestError("A checkpoint of the table's transaction log is damaged.") from problem


def _all_top_actions(reader: ObjectReader, files: Iterable[ObjectInfo]) -> Iterator[dict[str, Any]]:
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        return chain.from_iterable(pool.map(lambda file: list(_top_actions(reader, file)), files))


def _top_actions(reader: ObjectReader, info: ObjectInfo) -> Iterator[dict[str, Any]]:
    if is_manifest(info):
        yield from actions.json_actions(reader.get(info.key, info.etag))
        return
    file = open_parquet(reader, info)
    groups = _Footer(file).groups_with_tops()
    for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=[*TOPS.values()], use_threads=False):
        rows = RecordBatch.from_arrow(batch)
        for name in TOPS.values():
            yield from ({name: value} for value in objects(rows, name))


class _Footer:
    """What it says of columns, which are named by their paths (`add.path`)."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._metadata = file.metadata
        schema = file.metadata.schema
        self._places = {schema.column(at).path: at for at in range(file.metadata.num_columns)}
        self.actions = {path.partition(".")[0] for path in self._places}

    def groups_with_tops(self) -> list[int]:
        return [group for group in range(self._metadata.num_row_groups) if self._has_tops(group)]

    def columns(self, groups: Iterable[int]) -> list[str]:
        """What is read of an `add`: all of it, where its fields are not what they should be."""
        if "add.path" not in self._places or "add.deletionVector" in self._places:
            return ["add"]
        return COLUMNS if all(map(self._has_all_stats, groups)) else [*COLUMNS, PARSED]

    def _has_tops(self, group: int) -> bool:
        rows = self._metadata.row_group(group).num_rows
        return any(kind in self.actions and self._nulls(group, field) != rows for field, kind in TOPS.items())

    def _has_all_stats(self, group: int) -> bool:
        """Whether no file has its statistics in columns alone: those are large, and are read only where need be."""
        nulls = self._nulls(group, "add.stats")
        return nulls is not None and nulls == self._nulls(group, "add.path")

    def _nulls(self, group: int, path: str) -> int | None:
        """In how many rows a column is null, be they of another action; None if that is not known."""
        place = self._places.get(path)
        statistics = None if place is None else self._metadata.row_group(group).column(place).statistics
        return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _rows(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    column = batch.column("add")
    fields = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
    paths = fields.get("path")
    if paths is None or paths.type != pa.string():
        return _as_core_reads(batch)
    # Where a row is no add, its path is null; or empty, by writers that declare it as never null.
    is_add = pc.fill_null(pc.not_equal(paths, ""), False)
    if not is_add.true_count:
        return ()
    if is_add.true_count < len(paths):
        fields = {name: values.filter(is_add) for name, values in fields.items()}
    if not _is_usual(fields):
        return _as_core_reads(batch)
    return [pa.RecordBatch.from_arrays([*(_column(field, fields) for field in FILE)], schema=FILE)]


def _as_core_reads(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    rows = FileRows.of(RecordBatch.from_arrow(batch), {})
    rows.check()
    return file_batches(rows.adds())


def _is_usual(fields: Mapping[str, pa.Array]) -> bool:
    """Whether Arrow's columns are, as they stand, what `core.delta` would make of them."""
    used = {name: values for name, values in fields.items() if values.null_count < len(values)}
    return (
        all(used[name].type == FILE.field(name).type for name in FILE.names if name in used)
        and all(name in used and not used[name].null_count for name in NEVER_NULL)
        and pc.min(used["size"]).as_py() >= 0
        and ("stats_parsed" not in used or ("stats" in used and not used["stats"].null_count))
        and ("deletionVector" not in used or _are_whole(used["deletionVector"]))
    )


def _are_whole(vectors: pa.Array) -> bool:
    inner = zip(VECTOR, vectors.flatten(), strict=True)
    return all(values.null_count == vectors.null_count for field, values in inner if field.name != "offset")


def _column(field: pa.Field, fields: Mapping[str, pa.Array]) -> pa.Array:
    values = _more(fields) if field.name == "more" else fields.get(field.name)
    return pa.nulls(len(fields["path"]), field.type) if values is None or values.type != field.type else values


def _more(fields: Mapping[str, pa.Array]) -> pa.Array | None:
    used = [name for name in actions.MORE if name in fields and fields[name].null_count < len(fields[name])]
    if not used:
        return None
    rows = pa.StructArray.from_arrays([fields[name] for name in used], used)
    batch = RecordBatch.from_arrow(pa.RecordBatch.from_arrays([rows], ["more"]))
    found = map(actions.more, objects(batch, "more"))
    return pa.array([more and orjson.dumps(more).decode() for more in found], pa.string())
