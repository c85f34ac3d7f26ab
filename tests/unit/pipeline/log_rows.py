"""Reads the slices of the log source in this process, without Spark, and replays them with plain Python."""

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
from pipeline.spark.replay import CheckpointTasks
from pipeline.spark.source import LogReader, options
from pipeline.storage import TableStorage
from tests.unit.delta.builder import TableInMemory

Row = dict[str, Any]


def rows_of(table: TableStorage, segment: LogSegment, rows: str) -> Iterator[Row]:
    """Reads all slices, each pickled as on its way to a worker."""
    reader = LogReader(options(table, segment, rows))
    for partition in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(partition))):
            yield from batch.to_pylist()


def read_log(table: TableStorage, version: int | None = None) -> tuple[SnapshotInfo, list[Add]]:
    opened = table.open()
    segment = segment_of(opened, version)
    table_actions: dict[str, str] = {}
    files: dict[FileKey, Add | None] = {}
    touched: list[Row] = []
    for row in sorted(rows_of(table, segment, "commits"), key=lambda row: (row["version"], row["line"])):
        if row["path"] is None:
            table_actions[row["action"]] = row["content"]
        else:
            add = add_of(row)
            files[file_key(add)] = add if row["action"] == "add" else None
            touched.append({"touched": row["path"], "touched_vector": row["vectorId"]})
    info = snapshot_info(opened, segment, table_actions)
    untouched = map(add_of, checkpoint_rows_without(table, segment, touched)) if segment.checkpoint else ()
    return info, [*filter(None, files.values()), *untouched]


def checkpoint_rows_without(table: TableStorage, segment: LogSegment, touched: list[Row]) -> Iterator[Row]:
    keys = pa.Table.from_pylist(touched, pa.schema({"touched": pa.string(), "touched_vector": pa.string()}))
    tasks = pickle.loads(pickle.dumps(CheckpointTasks.of(table, segment, keys, unchanged)))
    for batch in tasks.mapped([pa.record_batch({"id": [*range(len(tasks.slices))]})]):
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
        actions.extra_fields({**row, "tags": row["tags"] and dict(row["tags"])}),
    )


def in_order(adds: Iterator[Add] | list[Add]) -> list[Add]:
    return sorted(adds, key=lambda add: (add.path, str(add.deletion_vector)))


def in_memory(folder: Path) -> TableInMemory:
    """Copies the log of a folder into memory, for `core.delta`."""
    table = TableInMemory()
    for file in (folder / "_delta_log").rglob("*"):
        if file.is_file():
            at_ms = file.stat().st_mtime_ns // 1_000_000
            table.put(file.relative_to(folder).as_posix(), file.read_bytes(), at_ms=at_ms)
    return table


def on_disk(table: TableInMemory, folder: Path) -> TableStorage:
    """Writes an in-memory log to a folder, for the log source."""
    for key, (body, at_ms) in table.s3.objects.items():
        file = folder / key.removeprefix(table.location.key(""))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        os.utime(file, (at_ms / 1000, at_ms / 1000))
    return TableStorage(folder.as_uri())


def unchanged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
