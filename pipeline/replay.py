"""Log replay in Spark: the files of a table at a version, as a DataFrame that never stands in one place.

A checkpoint is reconciled in itself, so its files stay in the tasks that read them: those that a later commit speaks of
are left out by an anti join. Only the commits, few beside it, are brought together to find the newest action on each
file.

Spark's own joins take rows, and what is Arrow before and after becomes rows for them, which costs more than to read it.
Where commits touch few files, as they mostly do, the tasks that read the checkpoint leave those out themselves.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.datasource import InputPartition
from pyspark.sql.functions import col, expr, row_number
from pyspark.sql.pandas.types import from_arrow_schema

from core.delta.log.files import LogSegment
from pipeline.log.rows import FILE
from pipeline.log.source import (
    SAMPLE_FILES,
    LogReader,
    checkpoint_files,
    checkpoint_sample,
    commit_actions,
    options,
)
from pipeline.log.top import Top, segment_of, top_of
from pipeline.refusals import refusals
from pipeline.storage import TableStorage

# A file is known by its path and its deletion vector, or by having none: `key_of` of core.delta.
VECTOR = """deletionVector.storageType || deletionVector.pathOrInlineDv ||
    coalesce('@' || deletionVector.offset, '')"""
# So many files are left out without a join.
MAX_TOUCHED = 100_000

OfBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Replayed:
    spark: SparkSession
    table: TableStorage
    top: Top
    newest: DataFrame
    """The last actions of the commits."""

    @property
    def files(self) -> DataFrame:
        """The columns of `FILE`."""
        if not self.top.segment.checkpoint:
            return self._added
        checkpoint = checkpoint_files(self.spark, self.table, self.top.segment)
        return self._added.union(untouched(checkpoint, self.newest))

    def mapped(self, function: OfBatches, schema: pa.Schema) -> DataFrame:
        """What `mapInArrow` makes of the files, in less time where the commits touch few."""
        columns = from_arrow_schema(schema)
        some = touched_by(self.newest).limit(MAX_TOUCHED + 1).toArrow()
        if some.num_rows > MAX_TOUCHED or not self.top.segment.checkpoint:
            return self.files.mapInArrow(function, columns)
        reading = Reading.of(self.table, self.top.segment, some, function)
        numbers = self.spark.range(0, len(reading.slices), 1, max(len(reading.slices), 1))
        return self._added.mapInArrow(function, columns).union(numbers.mapInArrow(reading.mapped, columns))

    def sample(self) -> pa.Table:
        """Partition values and statistics of some files, perhaps of some that are gone."""
        some = self._added.limit(SAMPLE_FILES)
        if self.top.segment.checkpoint:
            some = some.union(checkpoint_sample(self.spark, self.table, self.top.segment))
        return some.select("partitionValues", "stats").toArrow()

    @property
    def _added(self) -> DataFrame:
        return self.newest.where("action = 'add'").select(*FILE.names)


@dataclass(frozen=True, slots=True)
class Reading:
    """Of a checkpoint, a slice for each task; it goes to the workers."""

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
            vectors = batch.column("deletionVector").to_pylist()
            found = zip(is_path.to_pylist(), batch.column("path").to_pylist(), vectors, strict=True)
            yield batch.filter([not (here and (path, vector_text(vector)) in keys) for here, path, vector in found])
        else:
            yield batch


@contextlib.contextmanager
def replayed(spark: SparkSession, table: TableStorage, version: int | None = None) -> Iterator[Replayed]:
    """A version of a table, by default the latest.

    Commits are read at once, by the workers, and kept until the block's end; the checkpoint whenever its files are
    asked for. What a worker refuses inside of the block, is refused with the words of `core.delta`.
    """
    with refusals():
        opened = table.open()
        segment = segment_of(opened, version)
        newest = newest_actions(commit_actions(spark, table, segment)).persist()
        try:
            of_table = newest.where("path IS NULL").select("action", "content").collect()
            top = top_of(opened, segment, {row.action: row.content for row in of_table})
            yield Replayed(spark, table, top, newest)
        finally:
            newest.unpersist()


def newest_actions(commits: DataFrame) -> DataFrame:
    """The last action on each file, and the last of each kind on the table."""
    same = Window.partitionBy(expr("if(path IS NULL, action, NULL)"), "path", expr(VECTOR))
    last_first = same.orderBy(col("version").desc(), col("line").desc())
    return commits.withColumn("age", row_number().over(last_first)).where("age = 1").drop("age")


def untouched(checkpoint: DataFrame, newest: DataFrame) -> DataFrame:
    """Spark broadcasts what the commits touch while that is small, and shuffles both sides otherwise."""
    same_file = (col("path") == col("touched")) & expr(VECTOR).eqNullSafe(col("touched_vector"))
    return checkpoint.join(touched_by(newest), same_file, "left_anti")


def touched_by(newest: DataFrame) -> DataFrame:
    """The files that commits speak of: their paths, and what tells their deletion vectors."""
    return newest.where("path IS NOT NULL").selectExpr("path AS touched", f"{VECTOR} AS touched_vector")


def vector_text(vector: Mapping[str, Any] | None) -> str | None:
    """As `VECTOR` has it."""
    if vector is None:
        return None
    offset = "" if vector["offset"] is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"
