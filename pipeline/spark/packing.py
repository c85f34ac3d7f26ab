"""The workers' part of a build: packs sorted files into chunks, collects their keys in buckets, and writes both.

The job gets back one row for each chunk. Each worker process creates its own DynamoDB client from the environment.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from arro3.core import RecordBatch
from pyspark import TaskContext

from core.index.layout.buckets import sealed, split
from core.index.layout.root import pack_zones
from core.index.layout.rows import FIELDS, PRUNING_STATS
from core.index.write.build import Build
from core.index.write.packing import pack_chunks
from core.index.write.writer import IndexWriter
from core.pruning.schema import Field
from pipeline.connection import dynamodb
from pipeline.footers import FOOTER_STATS, Footers
from pipeline.spark.ranges import files_of_range

# A chunk's number is the task's number times this, plus the chunk's number within the task.
CHUNKS_PER_TASK = 2**16
CHUNK = pa.schema(
    {
        "number": pa.int64(),
        "files": pa.int64(),
        "size": pa.int64(),
        "checksum": pa.int64(),
        "zones": pa.binary(),
        "file_bytes": pa.decimal128(38),
        "vectors": pa.int64(),
        "groups": pa.list_(pa.binary()),
        "units": pa.int64(),
    }
)


@dataclass(frozen=True, slots=True)
class Packing:
    """The parameters of a build. Sent to the workers."""

    index_table: str
    table: str
    build: str
    fields: tuple[Field, ...]
    footers: Footers | None
    chunk_bytes: int
    groups: int
    """Number of groups of buckets. One task writes all buckets of a group."""
    units_per_second: float | None
    """The limit for each task."""

    def chunks(self, runs: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Packs and writes the files of a task's range. Yields a `CHUNK` row for each chunk, and one for all keys."""
        task = TaskContext.get()
        first = (task.partitionId() if task else 0) * CHUNKS_PER_TASK
        build = self._build()
        files = files_of_range(runs)
        completed = self.footers.complete(files) if self.footers else files
        packed = pack_chunks(map(rows_from, completed), self.fields, self.chunk_bytes)
        numbers = range(first, first + CHUNKS_PER_TASK)
        units_before = 0
        entries = []
        for chunk, content in build.write_chunks(packed, numbers):
            entries.append(content.entries(chunk.info.place.number))
            row = {
                "number": chunk.info.place.number,
                "files": chunk.info.files,
                "size": chunk.info.size,
                "checksum": chunk.info.checksum,
                "zones": pack_zones(chunk.zones),
                "file_bytes": sum(content.sizes),
                "vectors": sum(content.has_vector),
                "units": build.writer.units - units_before,
            }
            units_before = build.writer.units
            yield pa.RecordBatch.from_pylist([row], CHUNK)
        groups = list(split(b"".join(entries), range(self.groups), self.groups))
        yield pa.RecordBatch.from_pylist([{"groups": groups}], CHUNK)

    def buckets(self, batches: Iterable[pa.RecordBatch], per_group: int) -> Iterator[pa.RecordBatch]:
        """Writes the buckets of a task's groups. Yields one row with the write units used."""
        by_group: dict[int, list[bytes]] = {}
        for batch in batches:
            for group, entries in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                by_group.setdefault(group, []).append(entries)
        build = self._build()
        for group, parts in by_group.items():
            buckets = range(group * per_group, (group + 1) * per_group)
            contents = split(b"".join(parts), buckets, self.groups * per_group)
            build.write_buckets(zip(buckets, map(sealed, contents), strict=True))
        yield pa.RecordBatch.from_pylist([{"units": build.writer.units}], pa.schema({"units": pa.int64()}))

    def _build(self) -> Build:
        writer = IndexWriter(dynamodb(), self.index_table, units_per_second=self.units_per_second)
        return Build(writer, self.table, name=self.build)


def rows_from(batch: pa.RecordBatch) -> RecordBatch:
    """Converts a batch of `pipeline.log.rows.FILE`, with or without footer statistics, for `pack_chunks`."""
    files = RecordBatch.from_arrow(batch)
    columns: dict[str, Any] = {name: files[name] for name in FIELDS if name in files.schema.names}
    if FOOTER_STATS in files.schema.names:
        columns[PRUNING_STATS] = files[FOOTER_STATS]
    return RecordBatch.from_arrays(list(columns.values()), names=list(columns))
