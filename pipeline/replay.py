"""Log replay in Spark: the files of a table at a version, as a DataFrame that never stands in one place.

A checkpoint is reconciled in itself, so its files stay in the tasks that read them: those that a later commit speaks of
are left out by an anti join. Only the commits, few beside it, are brought together to find the newest action on each
file.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import col, expr, row_number

from pipeline.log.rows import FILE
from pipeline.log.source import SAMPLE_FILES, checkpoint_files, checkpoint_sample, commit_actions
from pipeline.log.top import Top, segment_of, top_of
from pipeline.refusals import refusals
from pipeline.storage import TableStorage

# A file is known by its path and its deletion vector, or by having none: `key_of` of core.delta.
VECTOR = """deletionVector.storageType || deletionVector.pathOrInlineDv ||
    coalesce('@' || deletionVector.offset, '')"""


@dataclass(frozen=True, slots=True)
class Replayed:
    top: Top
    newest: DataFrame
    """The last actions of the commits."""
    checkpoint: DataFrame | None
    of_checkpoint: DataFrame | None
    """A sample."""

    @property
    def files(self) -> DataFrame:
        """The columns of `FILE`."""
        added = self.newest.where("action = 'add'").select(*FILE.names)
        return added if self.checkpoint is None else added.union(untouched(self.checkpoint, self.newest))

    def sample(self) -> pa.Table:
        """Partition values and statistics of some files, perhaps of some that are gone."""
        added = self.newest.where("action = 'add'").limit(SAMPLE_FILES).select(*FILE.names)
        some = added if self.of_checkpoint is None else added.union(self.of_checkpoint)
        return some.select("partitionValues", "stats").toArrow()


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
            if segment.checkpoint:
                of_checkpoint = [read(spark, table, segment) for read in (checkpoint_files, checkpoint_sample)]
                yield Replayed(top, newest, *of_checkpoint)
            else:
                yield Replayed(top, newest, None, None)
        finally:
            newest.unpersist()


def newest_actions(commits: DataFrame) -> DataFrame:
    """The last action on each file, and the last of each kind on the table."""
    same = Window.partitionBy(expr("if(path IS NULL, action, NULL)"), "path", expr(VECTOR))
    last_first = same.orderBy(col("version").desc(), col("line").desc())
    return commits.withColumn("age", row_number().over(last_first)).where("age = 1").drop("age")


def untouched(checkpoint: DataFrame, newest: DataFrame) -> DataFrame:
    """Spark broadcasts what the commits touch while that is small, and shuffles both sides otherwise."""
    touched = newest.where("path IS NOT NULL").selectExpr("path AS touched", f"{VECTOR} AS touched_vector")
    same_file = (col("path") == col("touched")) & expr(VECTOR).eqNullSafe(col("touched_vector"))
    return checkpoint.join(touched, same_file, "left_anti")
