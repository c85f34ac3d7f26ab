"""Log replay in Spark: the files of a table at a version, as a DataFrame that no single process holds.

A checkpoint names each file once, so its files stay in the tasks that read them, without those that a later commit
names. Only the actions of commits, which are few, are shuffled to find the newest action on each file.

Spark's joins convert Arrow to rows and back, which costs more than reading the files. If commits touch at most 100,000
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
from pipeline.spark.refusals import refusals
from pipeline.spark.source import (
    SAMPLE_FILES,
    LogReader,
    checkpoint_files,
    checkpoint_sample,
    commit_actions,
    options,
)
from pipeline.storage import TableStorage

# Up to this number, touched files are filtered out without a join.
MAX_TOUCHED = 100_000

OfBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Replayed:
    spark: SparkSession
    table: TableStorage
    info: SnapshotInfo
    newest: DataFrame
    """The newest actions of the commits."""

    @property
    def files(self) -> DataFrame:
        """The columns of `FILE`."""
        if not self.info.segment.checkpoint:
            return self._added
        checkpoint = checkpoint_files(self.spark, self.table, self.info.segment)
        return self._added.union(untouched(checkpoint, self.newest).select(*FILE.names))

    def mapped(self, function: OfBatches, schema: pa.Schema) -> DataFrame:
        """The result of `mapInArrow` on the files. Faster than that if the commits touch few files."""
        columns = from_arrow_schema(schema)
        some = touched_by(self.newest).limit(MAX_TOUCHED + 1).toArrow()
        if some.num_rows > MAX_TOUCHED or not self.info.segment.checkpoint:
            return self.files.mapInArrow(function, columns)
        reading = Reading.of(self.table, self.info.segment, some, function)
        numbers = self.spark.range(0, len(reading.slices), 1, max(len(reading.slices), 1))
        return self._added.mapInArrow(function, columns).union(numbers.mapInArrow(reading.mapped, columns))

    def sample(self) -> pa.Table:
        """Partition values and statistics of some files, possibly including removed ones."""
        some = self._added.limit(SAMPLE_FILES)
        if self.info.segment.checkpoint:
            some = some.union(checkpoint_sample(self.spark, self.table, self.info.segment))
        return some.select("partitionValues", "stats").toArrow()

    @property
    def _added(self) -> DataFrame:
        return self.newest.where("action = 'add'").select(*FILE.names)


@dataclass(frozen=True, slots=True)
class Reading:
    """The slices of a checkpoint, one for each task. Sent to the workers."""

    reader: LogReader
    slices: Sequence[InputPartition]
    touched: pa.Table
    function: OfBatches

    @classmethod
    def of(cls, table: TableStorage, segment: LogSegment, touched: pa.Table, function: OfBatches) -> "Reading":
        reader = LogReader(options(table, segment, "checkpoint"))
        return cls(reader, reader.partitions(), touched, function)

    def mapped(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            yield from self.function(without(self.reader.read(self.slices[number]), self.touched))


def without(batches: Iterable[pa.RecordBatch], touched: pa.Table) -> Iterator[pa.RecordBatch]:
    """`touched`: the columns of `touched_by`."""
    paths = touched.column("touched").cast(FILE.field("path").type).combine_chunks()
    keys = set(zip(*(column.to_pylist() for column in touched.columns), strict=True))
    for batch in batches:
        is_path = pc.is_in(batch.column("path"), value_set=paths)
        if is_path.true_count:
            identities = zip(batch.column("path").to_pylist(), vector_ids(batch.column("deletionVector")), strict=True)
            yield batch.filter([identity not in keys for identity in identities])
        else:
            yield batch


@contextlib.contextmanager
def replayed(spark: SparkSession, table: TableStorage, version: int | None = None) -> Iterator[Replayed]:
    """A version of a table, by default the latest.

    Workers read the commits once and keep them until the block ends. They read the checkpoint each time its files are
    used. If a worker refuses the table inside the block, the block raises the error that `core.delta` raises.
    """
    with refusals():
        opened = table.open()
        segment = segment_of(opened, version)
        newest = newest_actions(commit_actions(spark, table, segment)).persist()
        try:
            of_table = newest.where("path IS NULL").select("action", "content").collect()
            info = snapshot_info(opened, segment, {row.action: row.content for row in of_table})
            yield Replayed(spark, table, info, newest)
        finally:
            newest.unpersist()


def newest_actions(commits: DataFrame) -> DataFrame:
    """The newest action on each file, and the newest `protocol` and `metaData`."""
    same = Window.partitionBy(expr("if(path IS NULL, action, NULL)"), "path", VECTOR_ID.name)
    last_first = same.orderBy(col("version").desc(), col("line").desc())
    return commits.withColumn("age", row_number().over(last_first)).where("age = 1").drop("age")


def untouched(checkpoint: DataFrame, newest: DataFrame) -> DataFrame:
    """Spark broadcasts the touched files if they are few, and shuffles both sides otherwise."""
    same_file = (col("path") == col("touched")) & col(VECTOR_ID.name).eqNullSafe(col("touched_vector"))
    return checkpoint.join(touched_by(newest), same_file, "left_anti")


def touched_by(newest: DataFrame) -> DataFrame:
    """The identities of the files that commits name."""
    return newest.where("path IS NOT NULL").selectExpr("path AS touched", f"{VECTOR_ID.name} AS touched_vector")
