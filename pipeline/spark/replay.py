"""Log replay in Spark: the files of a snapshot as a DataFrame, so that no process has to hold all of them.

Spark shuffles only the few actions of commits, to find the newest action on each file. Files of a checkpoint are not
shuffled: a checkpoint names each file once, so it is enough to drop the files that a commit names.

A Spark join converts Arrow to rows and back, which costs more than reading the files. If commits touch at most 100,000
files, checkpoint tasks filter them out locally instead of joining.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.datasource import InputPartition
from pyspark.sql.functions import col, expr, row_number
from pyspark.sql.pandas.types import from_arrow_schema

from core.delta.log.segment import LogSegment
from pipeline.log.rows import FILE, VECTOR_ID, vector_ids
from pipeline.log.snapshot_info import SnapshotInfo, segment_of, snapshot_info
from pipeline.spark.source import (
    SAMPLE_FILES,
    LogReader,
    checkpoint_files,
    checkpoint_sample,
    commit_actions,
    options,
)
from pipeline.spark.worker_errors import carries_errors, worker_errors
from pipeline.storage import TableStorage

# Maximum number of touched files that are filtered out without a join.
MAX_TOUCHED = 100_000

BatchFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Replayed:
    spark: SparkSession
    table: TableStorage
    info: SnapshotInfo
    newest: DataFrame
    """The newest action of the commits on each file, and on the table."""

    @property
    def files(self) -> DataFrame:
        """All files of the snapshot, with the columns of `FILE`."""
        if not self.info.segment.checkpoint:
            return self._added
        checkpoint = checkpoint_files(self.spark, self.table, self.info.segment)
        return self._added.union(untouched(checkpoint, self.newest).select(*FILE.names))

    def mapped(self, function: BatchFunction, schema: pa.Schema) -> DataFrame:
        """Applies `mapInArrow` to the files. Faster than on `files` if the commits touch few files."""
        columns, carrying = from_arrow_schema(schema), carries_errors(function)
        touched = touched_by(self.newest).limit(MAX_TOUCHED + 1).toArrow()
        if touched.num_rows > MAX_TOUCHED or not self.info.segment.checkpoint:
            return self.files.mapInArrow(carrying, columns)
        tasks = CheckpointTasks.of(self.table, self.info.segment, touched, function)
        numbers = self.spark.range(0, len(tasks.slices), 1, max(len(tasks.slices), 1))
        checkpoint = numbers.mapInArrow(carries_errors(tasks.mapped), columns)
        return self._added.mapInArrow(carrying, columns).union(checkpoint)

    def sample(self) -> pa.Table:
        """Returns partition values and statistics of some files, which may include removed files."""
        files = self._added.limit(SAMPLE_FILES)
        if self.info.segment.checkpoint:
            files = files.union(checkpoint_sample(self.spark, self.table, self.info.segment))
        return files.select("partitionValues", "stats").toArrow()

    @property
    def _added(self) -> DataFrame:
        return self.newest.where("action = 'add'").select(*FILE.names)


@dataclass(frozen=True, slots=True)
class CheckpointTasks:
    """Reads a checkpoint, filters out touched files and applies a function: one slice per task. Sent to the workers."""

    reader: LogReader
    slices: Sequence[InputPartition]
    touched: pa.Table
    function: BatchFunction

    @classmethod
    def of(
        cls, table: TableStorage, segment: LogSegment, touched: pa.Table, function: BatchFunction
    ) -> "CheckpointTasks":
        reader = LogReader(options(table, segment, "checkpoint"))
        return cls(reader, reader.partitions(), touched, function)

    def mapped(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            yield from self.function(without_touched(self.reader.read(self.slices[number]), self.touched))


def without_touched(batches: Iterable[pa.RecordBatch], touched: pa.Table) -> Iterator[pa.RecordBatch]:
    """`touched`: a table with the columns of `touched_by`."""
    paths = touched.column("touched").cast(FILE.field("path").type).combine_chunks()
    keys = set(zip(*(column.to_pylist() for column in touched.columns), strict=True))
    for batch in batches:
        has_touched_path = pc.is_in(batch.column("path"), value_set=paths)
        if has_touched_path.true_count:
            identities = zip(batch.column("path").to_pylist(), vector_ids(batch.column("deletionVector")), strict=True)
            yield batch.filter([identity not in keys for identity in identities])
        else:
            yield batch


@contextlib.contextmanager
def replayed(spark: SparkSession, table: TableStorage, version: int | None = None) -> Iterator[Replayed]:
    """Replays the log up to a version, by default the latest.

    Spark reads the commits once and keeps them until the block ends. It reads the checkpoint each time its files are
    used. If a worker rejects the table inside the block, the block raises the same error as `core.delta`.
    """
    with worker_errors():
        opened = table.open()
        segment = segment_of(opened, version)
        newest = newest_actions(commit_actions(spark, table, segment)).persist()
        try:
            table_actions = newest.where("path IS NULL").select("action", "content").collect()
            info = snapshot_info(opened, segment, {row.action: row.content for row in table_actions})
            yield Replayed(spark, table, info, newest)
        finally:
            newest.unpersist()


def newest_actions(commits: DataFrame) -> DataFrame:
    """Returns the newest action on each file, and the newest `protocol` and `metaData`."""
    same_target = Window.partitionBy(expr("if(path IS NULL, action, NULL)"), "path", VECTOR_ID.name)
    newest_first = same_target.orderBy(col("version").desc(), col("line").desc())
    return commits.withColumn("age", row_number().over(newest_first)).where("age = 1").drop("age")


def untouched(checkpoint: DataFrame, newest: DataFrame) -> DataFrame:
    """Returns the checkpoint's files that no commit names. Spark broadcasts the touched files if they are few."""
    same_file = (col("path") == col("touched")) & col(VECTOR_ID.name).eqNullSafe(col("touched_vector"))
    return checkpoint.join(touched_by(newest), same_file, "left_anti")


def touched_by(newest: DataFrame) -> DataFrame:
    """Returns path and vector id of the files that commits name."""
    return newest.where("path IS NOT NULL").selectExpr("path AS touched", f"{VECTOR_ID.name} AS touched_vector")
