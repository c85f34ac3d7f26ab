"""What Spark's workers do of a build: they pack sorted files into chunks, gather keys in buckets, and write both.

What goes back to the job is a row for each chunk. Each worker process has its own connection to DynamoDB, made from the
environment.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import orjson
import pyarrow as pa
from arro3.core import Array, RecordBatch, Schema
from arro3.core import Field as ArrowField
from arro3.io import read_json
from pyspark import TaskContext

from core.index.build import pack_chunks
from core.index.builds import Build
from core.index.items import Place, bucket_key
from core.index.keys import ENTRY, bucket_of, pack_entries, split
from core.index.root import pack_zones
from core.index.rows import FIELDS, PRUNING_STATS, checked
from core.index.writer import IndexWriter
from core.pruning.schema import Field
from pipeline.connection import dynamodb
from pipeline.footers import COLUMN as FOOTER_STATS
from pipeline.footers import Footers

# A chunk's number: that of the task, and that of the chunk among the task's own.
CHUNKS_PER_TASK = 2**16
# Buckets are written by the task that has their group.
BUCKETS_PER_GROUP = 256

CHUNK = pa.schema(
    {
        "number": pa.int64(),
        "files": pa.int64(),
        "size": pa.int64(),
        "checksum": pa.int64(),
        "zones": pa.binary(),
        "file_bytes": pa.decimal128(38),
        "vectors": pa.int64(),
        "entries": pa.binary(),
        "units": pa.int64(),
    }
)
GROUP = pa.schema({"group": pa.int64(), "entries": pa.binary()})
MORE = Schema(
    [
        ArrowField(name, FIELDS[name], nullable=True)
        for name in ("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider")
    ]
)


@dataclass(frozen=True, slots=True)
class Packing:
    """How a build is written; it goes to the workers."""

    index_table: str
    table: str
    build: str
    fields: tuple[Field, ...]
    footers: Footers | None
    units_per_second: float | None
    """For each task."""

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Packs and writes a task's files. A row of `CHUNK` for each chunk."""
        task = TaskContext.get()
        first = (task.partitionId() if task else 0) * CHUNKS_PER_TASK
        build = Build(self._writer(), self.table, name=self.build)
        completed = self.footers.complete(batches) if self.footers else batches
        packed = pack_chunks(map(rows_from, completed), self.fields)
        numbers = range(first, first + CHUNKS_PER_TASK)
        units = 0
        for chunk, content in build.write_chunks(packed, numbers):
            entries = pack_entries(content.entries(chunk.info.place.number))
            row = {
                "number": chunk.info.place.number,
                "files": chunk.info.files,
                "size": chunk.info.size,
                "checksum": chunk.info.checksum,
                "zones": pack_zones(chunk.zones),
                "file_bytes": sum(content.sizes),
                "vectors": sum(content.has_vector),
                "entries": entries,
                "units": build.writer.units - units,
            }
            units = build.writer.units
            yield pa.RecordBatch.from_pylist([row], CHUNK)

    def groups(self, batches: Iterable[pa.RecordBatch], buckets: int) -> Iterator[pa.RecordBatch]:
        """The keys of chunks, by the group of buckets that they go to: the rows of `GROUP`."""
        for batch in batches:
            for entries in batch.column("entries").to_pylist():
                found: dict[int, list[bytes]] = {}
                for begin in range(0, len(entries), ENTRY.size):
                    entry = entries[begin : begin + ENTRY.size]
                    group = bucket_of(int.from_bytes(entry[:8]), buckets) // BUCKETS_PER_GROUP
                    found.setdefault(group, []).append(entry)
                rows = [{"group": group, "entries": b"".join(each)} for group, each in found.items()]
                yield pa.RecordBatch.from_pylist(rows, GROUP)

    def buckets(self, batches: Iterable[pa.RecordBatch], buckets: int) -> Iterator[pa.RecordBatch]:
        """Writes the buckets of a task's groups. It tells how many units that took."""
        found: dict[int, list[bytes]] = {}
        for batch in batches:
            for group, entries in zip(*(batch.column(name).to_pylist() for name in GROUP.names), strict=True):
                found.setdefault(group, []).append(entries)
        writer = self._writer()
        for group, parts in found.items():
            of_group = range(group * BUCKETS_PER_GROUP, min((group + 1) * BUCKETS_PER_GROUP, buckets))
            written = split(b"".join(parts), of_group, buckets)
            writer.put((bucket_key(self.table, Place(self.build, number)), part) for number, part in written.items())
        yield pa.RecordBatch.from_pylist([{"units": writer.units}], pa.schema({"units": pa.int64()}))

    def _writer(self) -> IndexWriter:
        return IndexWriter(dynamodb(), self.index_table, units_per_second=self.units_per_second)


def rows_from(batch: pa.RecordBatch) -> RecordBatch:
    """A batch of `pipeline.log.rows.FILE`, perhaps with statistics from footers, in the form in which it is packed."""
    arrived = RecordBatch.from_arrow(batch)
    columns: dict[str, Any] = {name: arrived[name] for name in FIELDS if name in arrived.schema.names}
    columns |= _more(batch.column("more"))
    if FOOTER_STATS in arrived.schema.names:
        columns[PRUNING_STATS] = arrived[FOOTER_STATS]
    return RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _more(texts: pa.Array) -> dict[str, Array]:
    for text in texts.drop_null().to_pylist():
        checked(orjson.loads(text))
    lines = "\n".join(text or "{}" for text in texts.to_pylist()).encode()
    rows = read_json(BytesIO(lines), MORE, batch_size=max(len(texts), 1)).read_all().combine_chunks().to_batches()
    return {name: rows[0][name] for name in MORE.names} if rows else {}
