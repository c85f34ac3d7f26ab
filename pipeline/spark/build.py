"""Builds an index with Spark: workers sort, pack and write the files, and the job moves the head.

Workers return one row per chunk (hundreds to thousands of files) to the job.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql.functions import posexplode
from pyspark.sql.pandas.types import from_arrow_schema

from core.delta.model import Totals
from core.index.layout.buckets import buckets_for
from core.index.layout.head import Head
from core.index.layout.items import Place
from core.index.layout.root import ChunkInfo, unpack_zones
from core.index.write.build import Build, IndexedVersion, WrittenChunk
from core.index.write.packing import chunk_bytes, indexed_fields
from pipeline.footers import Footers
from pipeline.spark.packing import CHUNK, Packing
from pipeline.spark.ranges import runs_in_ranges
from pipeline.spark.replay import replayed
from pipeline.spark.worker_errors import carries_errors
from pipeline.storage import TableStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.indexing import Progress

# Checkpoint bytes for each packing task: about 60,000 files.
BYTES_PER_TASK = 12 * 1024 * 1024
# A file takes about this many times as many bytes in a commit as in a checkpoint.
COMMIT_TO_CHECKPOINT_BYTES = 4
FOOTERS_PER_TASK = 10_000
HEARTBEAT_SECONDS = 30
POLL_SECONDS = 0.5


def build_with_spark(
    spark: "SparkSession",
    build: Build,
    index_table: str,
    storage: TableStorage,
    expected: str | None,
    *,
    columns: int,
    footers: bool,
    units_per_second: float | None,
    progress: "Progress",
) -> tuple[Head, int]:
    """Returns the new head, and the write units that workers used."""
    parallelism = max(spark.sparkContext.defaultParallelism, 1)
    with _watched(spark, build, progress) as begin_step, replayed(spark, storage) as log:
        info = log.info
        fields = indexed_fields(info.metadata, columns)
        commit_bytes = sum(commit.size for commit in info.segment.commits)
        log_bytes = info.checkpoint_bytes + commit_bytes // COMMIT_TO_CHECKPOINT_BYTES
        tasks = max(log_bytes // BYTES_PER_TASK, parallelism)
        packing = Packing(
            index_table,
            build.table,
            build.name,
            tuple(fields),
            Footers.of(storage, info.metadata, fields, FOOTERS_PER_TASK) if footers else None,
            chunk_bytes(log_bytes, fields),
            tasks,
            units_per_second / parallelism if units_per_second else None,
        )
        runs = runs_in_ranges(spark, log, fields, tasks)
        packed = runs.mapInArrow(carries_errors(packing.chunks), from_arrow_schema(CHUNK))
        chunks = packed.persist(StorageLevel.DISK_ONLY)
        try:
            begin_step("sorting and packing")
            written = chunks.where("number IS NOT NULL").drop("groups").collect()
            begin_step("writing keys")
            totals = Totals(
                sum(row.files for row in written),
                int(sum(row.file_bytes for row in written)),
                sum(row.vectors for row in written),
            )
            per_group = -(-buckets_for(totals.num_files) // packing.groups)
            units = sum(row.units for row in written) + _write_keys(chunks, packing, per_group)
        finally:
            chunks.unpersist()
    infos = [
        WrittenChunk(
            ChunkInfo(Place(build.name, row.number), row.files, row.size, row.checksum, in_tail=False),
            unpack_zones(row.zones),
        )
        for row in sorted(written, key=lambda row: row.number)
    ]
    indexed = IndexedVersion(info.version, info.segment.tip, info.protocol, info.metadata, totals)
    buckets = [Place(build.name, number) for number in range(per_group * packing.groups)]
    head = build.finish(indexed, fields, infos, buckets, expected)
    return head, units


def _write_keys(chunks: "DataFrame", packing: Packing, per_group: int) -> int:
    groups = chunks.select(posexplode("groups")).repartition("pos")
    written = groups.mapInArrow(partial(carries_errors(packing.buckets), per_group=per_group), "units BIGINT")
    return sum(row.units for row in written.collect())


@contextmanager
def _watched(spark: "SparkSession", build: Build, progress: "Progress") -> Iterator[Callable[[str], None]]:
    """Reports Spark's progress and renews the build's heartbeat. Yields a function that names the current step."""
    done, steps = threading.Event(), ["reading the log"]

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        heartbeat_at = time.monotonic()
        while not done.wait(POLL_SECONDS):
            stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
            if stages:
                tasks = sum(stage.numTasks for stage in stages)
                progress(steps[-1], sum(stage.numCompletedTasks for stage in stages), tasks)
            if time.monotonic() - heartbeat_at > HEARTBEAT_SECONDS:
                build.begin()
                heartbeat_at = time.monotonic()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield steps.append
    finally:
        done.set()
        watcher.join()
