"""The log source without Spark: its slices read in this process, and replayed the plain way."""

import os
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.delta.log import actions
from core.delta.log.segment import LogSegment
from core.delta.model import Add, DeletionVector, FileKey, file_key
from pipeline.log.snapshot_info import SnapshotInfo, segment_of, snapshot_info
from pipeline.spark.replay import Reading
from pipeline.spark.source import LogReader, options
from pipeline.storage import TableStorage
from tests.unit.delta.builder import TableInMemory

Row = dict[str, Any]


def rows_of(table: TableStorage, segment: LogSegment, kind: str) -> Iterator[Row]:
    """As they come from workers, to which slices go pickled."""
    reader = LogReader(options(table, segment, kind))
    for piece in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(piece))):
            yield from batch.to_pylist()


def read_log(table: TableStorage, version: int | None = None) -> tuple[SnapshotInfo, list[Add]]:
    opened = table.open()
    segment = segment_of(opened, version)
    of_table: dict[str, str] = {}
    files: dict[FileKey, Add | None] = {}
    touched: list[Row] = []
    for row in sorted(rows_of(table, segment, "commits"), key=lambda row: (row["version"], row["line"])):
        if row["path"] is None:
            of_table[row["action"]] = row["content"]
        else:
            add = add_of(row)
            files[file_key(add)] = add if row["action"] == "add" else None
            touched.append({"touched": row["path"], "touched_vector": row["vectorId"]})
    info = snapshot_info(opened, segment, of_table)
    untouched = map(add_of, rows_without(table, segment, touched)) if segment.checkpoint else ()
    return info, [*filter(None, files.values()), *untouched]


def rows_without(table: TableStorage, segment: LogSegment, touched: list[Row]) -> Iterator[Row]:
    keys = pa.Table.from_pylist(touched, pa.schema({"touched": pa.string(), "touched_vector": pa.string()}))
    reading = pickle.loads(pickle.dumps(Reading.of(table, segment, keys, as_they_are)))
    for batch in reading.mapped([pa.record_batch({"id": [*range(len(reading.slices))]})]):
        yield from batch.to_pylist()


def add_of(row: Row) -> Add:
    vector = row["deletionVector"]
    return Add(
        row["path"],
        dict(row["partitionValues"] or ()),
        row["size"],
        row["modificationTime"],
        row["dataChange"],
        row["stats"],
        vector and DeletionVector(*vector.values()),
        actions.more({**row, "tags": row["tags"] and dict(row["tags"])}),
    )


def in_order(adds: Iterator[Add] | list[Add]) -> list[Add]:
    return sorted(adds, key=lambda add: (add.path, str(add.deletion_vector)))


def in_memory(folder: Path) -> TableInMemory:
    """The log in a folder, for `core.delta`."""
    table = TableInMemory()
    for file in (folder / "_delta_log").rglob("*"):
        if file.is_file():
            at_ms = file.stat().st_mtime_ns // 1_000_000
            table.put(file.relative_to(folder).as_posix(), file.read_bytes(), at_ms=at_ms)
    return table


def on_disk(table: TableInMemory, folder: Path) -> TableStorage:
    """The same the other way round."""
    for key, (body, at_ms) in table.s3.objects.items():
        file = folder / key.removeprefix(table.location.key(""))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        os.utime(file, (at_ms / 1000, at_ms / 1000))
    return TableStorage(folder.as_uri())


def as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
