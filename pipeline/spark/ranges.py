"""Brings files into the order in which they are packed: each task that packs gets a range of it.

A sample of the files tells the ranges, and the place of a file is its place among the sample's: where that misleads, a
task gets more files than another, and some chunks are wider. No answer depends on it. Files go from task to task as
*runs*, some thousand in a piece of Arrow: Spark moves them without looking into them. They are compressed at once,
since they are copied many times on their way.
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
# A task goes through so much before it parts it, since short runs take longer.
BYTES_AT_ONCE = 64 * 1024 * 1024
PLACE = "place"
# Among so many numbers for each range there is one that Spark gives to its task.
NUMBERS_PER_RANGE = 64
# By which the columns are chosen.
COMPARED_FILES = 4096
COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
JSON_SCALAR = r'(?P<value>"(?:[^"\\]|\\.)*"|[-+.\w]+)'


def runs_in_ranges(spark: "SparkSession", log: Replayed, fields: Sequence[Field], tasks: int) -> "DataFrame":
    """One range for each of so many tasks."""
    ranges = ranges_of(fields, log.sample(), _numbers(spark, tasks))
    return log.mapped(ranges.runs, RUN).repartition(tasks, "range")


def ranges_of(fields: Sequence[Field], sample: pa.Table, numbers: Sequence[int]) -> "Ranges":
    stats = sample.column("stats").to_pylist()[:: sample.num_rows // COMPARED_FILES + 1]
    order = Order.of(fields, FileColumns([{}] * len(stats), stats))
    keys = sorted(order.keys(ArrowColumns(sample)))
    same = {bisect_left(keys, key): number for key, number in Counter(keys).items() if number > 1}
    return Ranges(order, keys, same, numbers)


def files_of_range(runs: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In order."""
    parts = [pa.ipc.open_stream(run.as_buffer()).read_all() for batch in runs for run in batch.column("files")]
    if parts:
        files = pa.concat_tables(parts).combine_chunks()
        yield from files.take(pc.sort_indices(files.column(PLACE))).drop_columns([PLACE]).to_batches()


@dataclass(frozen=True, slots=True)
class Ranges:
    """It goes to the workers."""

    order: Order
    keys: Sequence[tuple[Any, ...]]
    """Of the sample, as they rise."""
    same: Mapping[int, int]
    """How many are the same, by the place of the first of them."""
    numbers: Sequence[int]
    """Of each range."""

    def runs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for files in _gathered(batches):
            places = pa.array(self.places(ArrowColumns(files)), pa.int64())
            ordered = files.append_column(PLACE, places).take(pc.sort_indices(places))
            yield from self._parted(ordered)

    def places(self, files: "ArrowColumns") -> list[int]:
        """Files of which the sample has many with the same key are spread over all of their places."""
        places = [bisect_left(self.keys, key) for key in self.order.keys(files)]
        if not self.same:
            return places
        return [place + self.same.get(place, 1) * turn // len(places) for turn, place in enumerate(places)]

    def _parted(self, ordered: pa.Table) -> Iterator[pa.RecordBatch]:
        places, begin = _values(ordered.column(PLACE)), 0
        for at, number in enumerate(self.numbers, 1):
            end = bisect_left(places, -(-at * (len(self.keys) + 1) // len(self.numbers)), begin)
            if end > begin:
                yield pa.RecordBatch.from_arrays([[number], _packed(ordered.slice(begin, end - begin))], schema=RUN)
            begin = end


class ArrowColumns(FileColumns):
    """What tells a file's place. Minima are found by their names: to parse all of the JSON takes several times as long,
    and a file that is mistaken is only in another place.
    """

    def __init__(self, files: pa.Table) -> None:
        super().__init__([{}] * files.num_rows, [])
        self._files = files

    def __len__(self) -> int:
        return int(self._files.num_rows)

    def partition(self, name: str) -> list[Any]:
        """One that is absent is as good as null here."""
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
    """Three times as fast as arrow's own `to_pylist`."""
    return list(column.to_numpy(zero_copy_only=False).tolist())


def _packed(files: pa.Table) -> pa.Array:
    """A run, as the one value of a column."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema, options=COMPRESSED) as stream:
        stream.write_table(files)
    run = sink.getvalue()
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.array([0, run.size], pa.int32()).buffers()[1], run])


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    some, size = [], 0
    for batch in batches:
        some.append(batch)
        size += batch.nbytes
        if size >= BYTES_AT_ONCE:
            yield pa.Table.from_batches(some)
            some, size = [], 0
    if some:
        yield pa.Table.from_batches(some)


def _numbers(spark: "SparkSession", ranges: int) -> list[int]:
    """By which `repartition` gives each of so many ranges to another task."""
    candidates = spark.range(NUMBERS_PER_RANGE * ranges).select("id", pmod(hash_of("id"), lit(ranges)).alias("range"))
    found = {row.range: row.id for row in candidates.collect()}
    return [found[number] for number in range(ranges)]
