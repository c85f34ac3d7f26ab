"""Builds an index with Spark: files are sorted, packed and written by workers, and the job moves the head.

What comes back to the job is a row for each chunk, one for some thousand files.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql.functions import col, expr
from pyspark.sql.pandas.types import from_arrow_schema

from core.delta.log.replay import Totals
from core.index.build import indexed_fields
from core.index.builds import Build, Indexed, WrittenChunk
from core.index.items import Place
from core.index.keys import buckets_for
from core.index.order import clustering_field
from core.index.root import ChunkInfo, unpack_zones
from core.index.store import Head
from core.pruning.columns import FileColumns
from core.pruning.schema import Field
from pipeline.footers import Footers
from pipeline.packing import CHUNK, GROUP, Packing
from pipeline.replay import live_files
from pipeline.storage import TableStorage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Of a checkpoint, for each task that packs: some 60,000 files.
BYTES_PER_TASK = 12 * 1024 * 1024
SAMPLE_FILES = 2_000
PARTITIONS_PER_TASK = 4
FOOTERS_PER_TASK = 10_000
HEARTBEAT_SECONDS = 30
POLL_SECONDS = 0.5
# In what Spark type the values of a column are put in order.
SORTED_AS = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "BIGINT"),
    **dict.fromkeys(("float", "double"), "DOUBLE"),
    "decimal": "DECIMAL(38, 18)",
    "date": "DATE",
    **dict.fromkeys(("timestamp", "timestamp_ntz"), "TIMESTAMP"),
}

Progress = Callable[[str, int, int | None], None]


def build_with_spark(
    spark: "SparkSession",
    build: Build,
    index_table: str,
    storage: TableStorage,
    expected: str | None,
    *,
    footers: bool,
    units_per_second: float | None,
    progress: Progress,
) -> tuple[Head, int]:
    """The head that is now live, and the units that workers wrote."""
    parallelism = max(spark.sparkContext.defaultParallelism, 1)
    with _watched(spark, build, progress) as doing, live_files(spark, storage) as (top, files):
        fields = indexed_fields(top.metadata)
        tasks = max(sum(part.size for part in top.segment.checkpoint) // BYTES_PER_TASK, parallelism)
        packing = Packing(
            index_table,
            build.table,
            build.name,
            tuple(fields),
            Footers.of(storage, top.metadata, fields, FOOTERS_PER_TASK) if footers else None,
            units_per_second / parallelism if units_per_second else None,
        )
        ordered = _in_order(files, fields, tasks)
        chunks = ordered.mapInArrow(packing.chunks, from_arrow_schema(CHUNK)).persist(StorageLevel.DISK_ONLY)
        try:
            doing("sorting and packing")
            written = chunks.drop("entries").collect()
            doing("writing keys")
            totals = Totals(
                sum(row.files for row in written),
                int(sum(row.file_bytes for row in written)),
                sum(row.vectors for row in written),
            )
            buckets = buckets_for(totals.num_files)
            units = sum(row.units for row in written) + _write_keys(chunks, packing, buckets)
        finally:
            chunks.unpersist()
    infos = [
        WrittenChunk(
            ChunkInfo(Place(build.name, row.number), row.files, row.size, row.checksum, in_tail=False),
            unpack_zones(row.zones),
        )
        for row in sorted(written, key=lambda row: row.number)
    ]
    indexed = Indexed(top.version, top.segment.tip, top.protocol, top.metadata, totals)
    head = build.finish(indexed, fields, infos, [Place(build.name, number) for number in range(buckets)], expected)
    return head, units


def _write_keys(chunks: "DataFrame", packing: Packing, buckets: int) -> int:
    groups = chunks.select("entries").mapInArrow(partial(packing.groups, buckets=buckets), from_arrow_schema(GROUP))
    written = groups.repartition(col("group")).mapInArrow(partial(packing.buckets, buckets=buckets), "units BIGINT")
    return sum(row.units for row in written.collect())


def _in_order(files: "DataFrame", fields: Sequence[Field], tasks: int) -> "DataFrame":
    """Sorted, in as many ranges as there are tasks.

    Keys are columns for a while: a sort would work them out anew whenever it compares two rows.
    """
    sample = files.limit(SAMPLE_FILES).select("partitionValues", "stats").collect()
    columns = FileColumns([row.partitionValues for row in sample], [row.stats for row in sample])
    usable = [field for field in fields if field.type.name in SORTED_AS]
    clustering = clustering_field(usable, columns) if sample else None
    partitions = [field for field in fields if field.in_partitions]
    ranged = {f"key {number}": _partition_key(field) for number, field in enumerate(partitions)}
    sorted_by = dict(ranged)
    if clustering is not None and "'" not in "".join(clustering.path):
        sorted_by["key"] = _minimum_key(clustering)
    # Spark goes through all keys once more to find the ranges: the dear one is left out if the others will do.
    values = {tuple(sorted(row.partitionValues.items())) for row in sample}
    if len(values) < PARTITIONS_PER_TASK * tasks:
        ranged = sorted_by
    if not ranged:
        return files.repartition(tasks)
    in_ranges = files.withColumns(ranged).repartitionByRange(tasks, *ranged)
    rest = {name: key for name, key in sorted_by.items() if name not in ranged}
    return in_ranges.withColumns(rest).sortWithinPartitions(*sorted_by).drop(*sorted_by)


def _partition_key(field: Field) -> "Column":
    return _typed(col("partitionValues")[field.path[0]], field)


def _minimum_key(field: Field) -> "Column":
    path = "".join(f"['{name}']" for name in ("minValues", *field.path))
    return _typed(expr(f'get_json_object(stats, "${path}")'), field)


def _typed(value: "Column", field: Field) -> "Column":
    return value.try_cast(SORTED_AS[field.type.name]) if field.type.name in SORTED_AS else value


@contextmanager
def _watched(spark: "SparkSession", build: Build, progress: Progress) -> Iterator[Callable[[str], None]]:
    """Tells how far Spark has come with what it is doing, and that the build is alive."""
    done, doing = threading.Event(), ["reading the log"]

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        seen_at = time.monotonic()
        while not done.wait(POLL_SECONDS):
            stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
            if stages:
                tasks = sum(stage.numTasks for stage in stages)
                progress(doing[-1], sum(stage.numCompletedTasks for stage in stages), tasks)
            if time.monotonic() - seen_at > HEARTBEAT_SECONDS:
                build.begin()
                seen_at = time.monotonic()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield doing.append
    finally:
        done.set()
        watcher.join()
