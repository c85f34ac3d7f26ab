"""Builds the whole index of a table whose files fit in memory, without Spark."""

from collections.abc import Iterator, Sequence
from itertools import count

from core.index.layout.buckets import buckets_for, sealed, split
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import Place
from core.index.layout.rows import FileWithStats, rows_of
from core.index.write.build import Build, IndexedVersion
from core.index.write.order import Order
from core.index.write.packing import PackedChunk, chunk_bytes, indexed_fields, pack_chunks
from core.pruning.columns import FileColumns
from core.pruning.schema import Field

ROWS_PER_BATCH = 4096


def build_full(
    build: Build,
    indexed: IndexedVersion,
    files: Sequence[FileWithStats],
    expected: str | None,
    *,
    columns: int = INDEXED_COLUMNS,
) -> Head:
    fields = indexed_fields(indexed.metadata, columns)
    chunks, entries = [], []
    target_bytes = chunk_bytes(0, fields)  # the minimum: these tables are small
    for chunk, packed in build.write_chunks(sort_and_pack(files, fields, target_bytes), count()):
        chunks.append(chunk)
        entries.append(packed.entries(chunk.info.place.number))
    buckets = range(buckets_for(len(files)))
    build.write_buckets(zip(buckets, map(sealed, split(b"".join(entries), buckets, len(buckets))), strict=True))
    return build.finish(indexed, fields, chunks, [Place(build.name, bucket) for bucket in buckets], expected)


def sort_and_pack(files: Sequence[FileWithStats], fields: Sequence[Field], target_bytes: int) -> Iterator[PackedChunk]:
    if not files:
        return iter(())
    stats = [pruning_stats or add.stats for add, pruning_stats in files]
    columns = FileColumns([add.partition_values for add, _ in files], stats)
    keys = Order.of(fields, columns).keys(columns)
    positions = sorted(range(len(files)), key=keys.__getitem__)
    batches = (
        rows_of([files[position] for position in positions[begin : begin + ROWS_PER_BATCH]])
        for begin in range(0, len(positions), ROWS_PER_BATCH)
    )
    return pack_chunks(batches, fields, target_bytes)
