"""Sorts files into packing order across tasks: each packing task gets one range of the order.

The position of a file is that of its key among the keys of a sample. An unrepresentative sample gives some tasks more
files and makes some chunks wider, but never changes an answer. Files move between tasks as *runs*: a few thousand files
in one binary value, which Spark shuffles without decoding it. A run is an Arrow stream, compressed early because Spark
copies it many times.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import hash as hash_of
from pyspark.sql.functions import lit, pmod

from core.api.json import dumps
from core.index.write.order import Order
from core.pruning.columns import FileColumns
from core.pruning.schema import Field
from pipeline.spark.replay import Replayed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN = pa.schema({"range": pa.int64(), "files": pa.binary()})
# A task collects this much before it splits files into runs, because short runs are slower.
COLLECTED_BYTES = 64 * 1024 * 1024
POSITION = "position"
# Number of candidate ids per range: enough that Spark's hash assigns at least one of them to each task.
CANDIDATES_PER_RANGE = 64
# Number of sampled files from which the columns of the order are chosen.
COMPARED_FILES = 4096
COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
JSON_SCALAR = r'(?P<value>"(?:[^"\\]|\\.)*"|[-+.\w]+)'


def runs_in_ranges(spark: "SparkSession", log: Replayed, fields: Sequence[Field], tasks: int) -> "DataFrame":
    """Returns the runs of all files, partitioned into one range per task."""
    ranges = ranges_of(fields, log.sample(), _range_ids(spark, tasks))
    return log.mapped(ranges.runs, RUN).repartition(tasks, "range")


def ranges_of(fields: Sequence[Field], sample: pa.Table, range_ids: Sequence[int]) -> "Ranges":
    stats = sample.column("stats").to_pylist()[:: sample.num_rows // COMPARED_FILES + 1]
    order = Order.of(fields, FileColumns([{}] * len(stats), stats))
    keys = sorted(order.keys(ArrowColumns(sample)))
    duplicates = {bisect_left(keys, key): number for key, number in Counter(keys).items() if number > 1}
    return Ranges(order, keys, duplicates, range_ids)


def files_of_range(runs: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the files of a range in packing order."""
    parts = [pa.ipc.open_stream(run.as_buffer()).read_all() for batch in runs for run in batch.column("files")]
    if parts:
        files = pa.concat_tables(parts).combine_chunks()
        yield from files.take(pc.sort_indices(files.column(POSITION))).drop_columns([POSITION]).to_batches()


@dataclass(frozen=True, slots=True)
class Ranges:
    """Splits files into runs. Sent to the workers."""

    order: Order
    keys: Sequence[tuple[Any, ...]]
    """The keys of the sample, sorted."""
    duplicates: Mapping[int, int]
    """For keys that occur more than once: the number of occurrences, by the position of the first."""
    range_ids: Sequence[int]

    def runs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for files in _collected(batches):
            positions = pa.array(self.positions(ArrowColumns(files)), pa.int64())
            ordered = files.append_column(POSITION, positions).take(pc.sort_indices(positions))
            yield from self._split(ordered)

    def positions(self, files: "ArrowColumns") -> list[int]:
        """Spreads files with a frequent key over all positions of that key in the sample."""
        positions = [bisect_left(self.keys, key) for key in self.order.keys(files)]
        if not self.duplicates:
            return positions
        return [
            position + self.duplicates.get(position, 1) * number // len(positions)
            for number, position in enumerate(positions)
        ]

    def _split(self, ordered: pa.Table) -> Iterator[pa.RecordBatch]:
        positions, begin = _values(ordered.column(POSITION)), 0
        for number, range_id in enumerate(self.range_ids, 1):
            end = bisect_left(positions, -(-number * (len(self.keys) + 1) // len(self.range_ids)), begin)
            if end > begin:
                run = _serialized(ordered.slice(begin, end - begin))
                yield pa.RecordBatch.from_arrays([[range_id], run], schema=RUN)
            begin = end


class ArrowColumns(FileColumns):
    """The columns that determine a file's position.

    A regular expression finds minima by name, because parsing all of the JSON takes several times as long. A wrong
    match only moves the file to another position.
    """

    def __init__(self, files: pa.Table) -> None:
        super().__init__([{}] * files.num_rows, [])
        self._files = files

    def __len__(self) -> int:
        return int(self._files.num_rows)

    def partition(self, name: str) -> list[Any]:
        """Returns null for an absent value, which sorts the same."""
        found = pc.map_lookup(self._files.column("partitionValues"), pa.scalar(name), "first")
        return _values(found)

    def minimum(self, path: tuple[str, ...]) -> list[Any]:
        names = "".join(rf".*?{re.escape(dumps(name).decode())}\s*:\s*" for name in path)
        found = pc.extract_regex(self._files.column("stats"), f'"minValues"{names}{JSON_SCALAR}')
        texts = _values(pc.struct_field(found, "value"))
        try:
            return list(orjson.loads(f"[{','.join([text or 'null' for text in texts])}]"))
        except orjson.JSONDecodeError:
            return [None] * len(texts)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Three times as fast as `to_pylist`."""
    return list(column.to_numpy(zero_copy_only=False).tolist())


def _serialized(files: pa.Table) -> pa.Array:
    """Returns a run as the only value of a column."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema, options=COMPRESSED) as stream:
        stream.write_table(files)
    run = sink.getvalue()
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.array([0, run.size], pa.int32()).buffers()[1], run])


def _collected(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    collected, size = [], 0
    for batch in batches:
        collected.append(batch)
        size += batch.nbytes
        if size >= COLLECTED_BYTES:
            yield pa.Table.from_batches(collected)
            collected, size = [], 0
    if collected:
        yield pa.Table.from_batches(collected)


def _range_ids(spark: "SparkSession", ranges: int) -> list[int]:
    """Returns one id per task: `repartition` assigns a range to the task given by the hash of its id."""
    candidates = spark.range(CANDIDATES_PER_RANGE * ranges).select("id", pmod(hash_of("id"), lit(ranges)).alias("task"))
    by_task = {row.task: row.id for row in candidates.collect()}
    return [by_task[number] for number in range(ranges)]
