"""A Spark data source that reads a log segment in slices, which workers read independently.

Its options identify the table and the segment that the job chose. Planning lists the segment again, so Spark plans do
not grow with the log. It raises `ChangedLogError` if the log was replaced in between.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from core.delta.log.listing import LOOK_BACK, list_log
from core.delta.log.segment import Compacted, LogSegment, checkpoint_version, digest_of
from core.errors import ChangedLogError
from core.storage.objects import ObjectInfo, TableObjects
from pipeline.log.checkpoint import Piece, file_rows, joined, pieces, sample_rows, table_actions
from pipeline.log.commits import ACTION, action_rows
from pipeline.log.rows import FILE, IDENTIFIED_FILE, with_vector_ids
from pipeline.spark.worker_errors import carried_errors
from pipeline.storage import TableStorage

T = TypeVar("T")

# A Python task costs Spark 4.0 about 0.16 s of overhead (it lists pyspark.zip 16 times), as much as decoding 20 MB.
SLICE_BYTES = 16 * 1024 * 1024
# The minimum size that a commit counts for. A slice holds at most 1,024 commits, which S3 serves in about one second.
COMMIT_BYTES = 16 * 1024
SCHEMAS = {"checkpoint": FILE, "identified": IDENTIFIED_FILE, "sample": FILE, "commits": ACTION}
REGISTERED = "spark.sluice.log.registered"
# Approximate number of files in a sample, spread over the whole checkpoint.
SAMPLE_FILES = 50_000


@dataclass
class CheckpointSlice(InputPartition):
    pieces: Sequence[Piece]


@dataclass
class SampleSlice(InputPartition):
    pieces: Sequence[Piece]
    files: int
    """Approximate number of files to sample."""


@dataclass
class CommitsSlice(InputPartition):
    commits: Sequence[ObjectInfo]
    compacted: Compacted
    """The commits that the compacted log files among `commits` replace."""


def checkpoint_files(spark: SparkSession, table: TableStorage, segment: LogSegment) -> DataFrame:
    """Returns the files of the checkpoint, with the columns of `IDENTIFIED_FILE`."""
    return _load(spark, table, segment, "identified")


def checkpoint_sample(spark: SparkSession, table: TableStorage, segment: LogSegment) -> DataFrame:
    """Returns a sample of the files of the checkpoint, with the columns of `FILE`."""
    return _load(spark, table, segment, "sample")


def commit_actions(spark: SparkSession, table: TableStorage, segment: LogSegment) -> DataFrame:
    """Returns the actions of the commits, with the columns of `ACTION`."""
    return _load(spark, table, segment, "commits")


def _load(spark: SparkSession, table: TableStorage, segment: LogSegment, rows: str) -> DataFrame:
    if spark.conf.get(REGISTERED, None) is None:  # Spark warns if a source is registered twice
        spark.dataSource.register(LogSource)
        spark.conf.set(REGISTERED, "true")
    return spark.read.format(LogSource.name()).options(**options(table, segment, rows)).load()


def options(table: TableStorage, segment: LogSegment, rows: str) -> dict[str, str]:
    """`rows`: `checkpoint`, `identified` (checkpoint with vector ids), `sample` (of the checkpoint) or `commits`."""
    segment_options = {
        "version": str(segment.version),
        "checkpoint_id": segment.checkpoint_id,
        "tip": digest_of([segment.tip]),
    }
    return {"rows": rows, **segment_options, **table.options}


class LogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "delta-log"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMAS[self.options["rows"]])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return WorkerLogReader(self.options)


class LogReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._table = TableStorage.of(options)
        self._rows, self._checkpoint_id, self._tip = options["rows"], options["checkpoint_id"], options["tip"]
        self._version = int(options["version"])

    def partitions(self) -> Sequence[InputPartition]:
        table = self._table.open()
        segment = self._segment(table)
        if self._rows == "commits":
            sized = ((commit, max(commit.size, COMMIT_BYTES)) for commit in segment.commits)
            return [CommitsSlice(commits, _compacted(segment, commits)) for commits in _slices(sized)]
        slices = [[*joined(pieces)] for pieces in _slices(_checkpoint_pieces(table, segment.checkpoint))]
        if self._rows == "sample":
            return [SampleSlice(pieces, SAMPLE_FILES // len(slices)) for pieces in slices]
        return [*map(CheckpointSlice, slices)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        objects = self._table.open().objects
        if isinstance(partition, CommitsSlice):
            return action_rows(objects, partition.commits, partition.compacted)
        if isinstance(partition, CheckpointSlice):
            files = chain.from_iterable(map(partial(file_rows, objects), partition.pieces))
            return map(with_vector_ids, files) if self._rows == "identified" else files
        if isinstance(partition, SampleSlice):
            return sample_rows(objects, partition.pieces, partition.files)
        return iter(())  # Spark reads one empty partition if there are none

    def _segment(self, table: TableObjects) -> LogSegment:
        first = max(checkpoint_version(self._checkpoint_id) - LOOK_BACK, 0)
        log = list_log(table.objects, table.location, from_version=first)
        segment = log.segment_from_checkpoint(self._checkpoint_id, self._version)
        if digest_of([segment.tip]) != self._tip:
            raise ChangedLogError(self._version)
        return segment


class WorkerLogReader(LogReader):
    """Runs in Spark's workers, which also plan the slices."""

    def partitions(self) -> Sequence[InputPartition]:
        with carried_errors():
            return super().partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with carried_errors():
            yield from super().read(partition)


def _compacted(segment: LogSegment, commits: Sequence[ObjectInfo]) -> Compacted:
    return {commit.key: segment.compacted[commit.key] for commit in commits if commit.key in segment.compacted}


def _checkpoint_pieces(table: TableObjects, checkpoint: Sequence[ObjectInfo]) -> Iterator[tuple[Piece, int]]:
    sidecars = table_actions(table.objects, checkpoint).sidecar_files(table.location)
    return pieces(table.objects, (*checkpoint, *sidecars), SLICE_BYTES)


def _slices(sized: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """Groups consecutive items into slices of `SLICE_BYTES` or slightly more."""
    items: list[T] = []
    total = 0
    for item, size in sized:
        items.append(item)
        total += size
        if total >= SLICE_BYTES:
            yield items
            items, total = [], 0
    if items:
        yield items
