"""The data source: a log's segment in slices, which workers read on their own.

Its options are names: of the table, and of the segment that the job has chosen. The segment is listed anew wherever a
plan is made, so nothing that grows with the log goes through a plan; and if it is another log by then, that is told.
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

from core.delta.log.files import LOOK_BACK, LogSegment, digest_of, list_log, origin_version
from core.delta.reader import sidecar_key
from core.delta.snapshot import ChangedLogError
from core.storage.objects import ObjectInfo
from pipeline.log.checkpoint import Piece, file_rows, joined, pieces, read_top, sample_rows
from pipeline.log.commits import ACTION, action_rows
from pipeline.log.rows import FILE
from pipeline.storage import TableObjects, TableStorage

T = TypeVar("T")

# A task of a Python worker costs Spark 4.0 some 0.16 s whatever it does (it reads the list of pyspark.zip's files 16
# times), as much as decoding 20 MB.
SLICE_BYTES = 16 * 1024 * 1024
# What a commit counts for at least: a slice has 2,048 small ones, for which S3 takes some two seconds.
COMMIT_BYTES = 16 * 1024
REGISTERED = "spark.sluice.log.registered"
# Of a checkpoint, spread over all of it.
SAMPLE_FILES = 50_000


@dataclass
class CheckpointSlice(InputPartition):
    pieces: Sequence[Piece]


@dataclass
class SampleSlice(InputPartition):
    pieces: Sequence[Piece]
    files: int
    """About so many of them."""


@dataclass
class CommitsSlice(InputPartition):
    commits: Sequence[ObjectInfo]


def checkpoint_files(spark: SparkSession, table: TableStorage, segment: LogSegment) -> DataFrame:
    """The files of the segment's checkpoint: the columns of `FILE`."""
    return _load(spark, table, segment, "checkpoint")


def checkpoint_sample(spark: SparkSession, table: TableStorage, segment: LogSegment) -> DataFrame:
    """Some of the same."""
    return _load(spark, table, segment, "sample")


def commit_actions(spark: SparkSession, table: TableStorage, segment: LogSegment) -> DataFrame:
    """The actions of its commits: the columns of `ACTION`."""
    return _load(spark, table, segment, "commits")


def _load(spark: SparkSession, table: TableStorage, segment: LogSegment, rows: str) -> DataFrame:
    if spark.conf.get(REGISTERED, None) is None:  # Spark warns of a second time
        spark.dataSource.register(LogSource)
        spark.conf.set(REGISTERED, "true")
    return spark.read.format(LogSource.name()).options(**options(table, segment, rows)).load()


def options(table: TableStorage, segment: LogSegment, rows: str) -> dict[str, str]:
    """`rows`: of its `checkpoint`, a `sample` of those, or of its `commits`."""
    of_segment = {"version": str(segment.version), "origin": segment.origin, "tip": digest_of([segment.tip])}
    return {"rows": rows, **of_segment, **table.options}


class LogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "delta-log"

    def schema(self) -> StructType:
        return from_arrow_schema(ACTION if self.options["rows"] == "commits" else FILE)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return LogReader(self.options)


class LogReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._table = TableStorage.of(options)
        self._rows, self._origin, self._tip = options["rows"], options["origin"], options["tip"]
        self._version = int(options["version"])

    def partitions(self) -> Sequence[InputPartition]:
        table = self._table.open()
        segment = self._segment(table)
        if self._rows == "commits":
            sized = ((commit, max(commit.size, COMMIT_BYTES)) for commit in segment.commits)
            return [CommitsSlice(commits) for commits in _slices(sized)]
        slices = [[*joined(some)] for some in _slices(_checkpoint_pieces(table, segment.checkpoint))]
        if self._rows == "sample":
            return [SampleSlice(some, SAMPLE_FILES // len(slices)) for some in slices]
        return [*map(CheckpointSlice, slices)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        objects = self._table.open().objects
        if isinstance(partition, CommitsSlice):
            return action_rows(objects, partition.commits)
        if isinstance(partition, CheckpointSlice):
            return chain.from_iterable(map(partial(file_rows, objects), partition.pieces))
        if isinstance(partition, SampleSlice):
            return sample_rows(objects, partition.pieces, partition.files)
        return iter(())  # Spark asks for one partition where there is none

    def _segment(self, table: TableObjects) -> LogSegment:
        first = max(origin_version(self._origin) - LOOK_BACK, 0)
        log = list_log(table.objects, table.location, from_version=first)
        segment = log.segment_from(self._origin, self._version)
        if digest_of([segment.tip]) != self._tip:
            raise ChangedLogError(self._version)
        return segment


def _checkpoint_pieces(table: TableObjects, checkpoint: Sequence[ObjectInfo]) -> Iterator[tuple[Piece, int]]:
    sidecars = [
        ObjectInfo(sidecar_key(table.location, path), size, 0)
        for path, size in read_top(table.objects, checkpoint).sidecars
    ]
    return pieces(table.objects, (*checkpoint, *sidecars), SLICE_BYTES)


def _slices(sized: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """In order, of `SLICE_BYTES` or a little more each."""
    some: list[T] = []
    total = 0
    for item, size in sized:
        some.append(item)
        total += size
        if total >= SLICE_BYTES:
            yield some
            some, total = [], 0
    if some:
        yield some
