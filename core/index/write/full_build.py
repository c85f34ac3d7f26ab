"""Builds the index of a table whose files all stand in memory."""

from collections.abc import Iterator, Sequence
from itertools import count

from core.delta.model import Add
from core.index.layout.buckets import buckets_for, sealed, split
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import Place
from core.index.layout.rows import rows_of
from core.index.write.build import Build, IndexedVersion
from core.index.write.order import Order
from core.index.write.packing import PackedChunk, chunk_bytes, indexed_fields, pack_chunks
from core.pruning.columns import FileColumns
from core.pruning.schema import Field

ROWS_AT_ONCE = 4096

Known = tuple[Add, str | None]
"""A file, and the statistics that only pruning knows."""


def build_full(
    build: Build,
    indexed: IndexedVersion,
    files: Sequence[Known],
    expected: str | None,
    *,
    columns: int = INDEXED_COLUMNS,
) -> Head:
    fields = indexed_fields(indexed.metadata, columns)
    number = buckets_for(len(files))
    chunks, entries = [], []
    wanted_bytes = chunk_bytes(0, fields)  # such tables are small
    for chunk, packed in build.write_chunks(packed_in_order(files, fields, wanted_bytes), count()):
        chunks.append(chunk)
        entries.append(packed.entries(chunk.info.place.number))
    buckets = range(number)
    build.write_buckets(zip(buckets, map(sealed, split(b"".join(entries), buckets, number)), strict=True))
    return build.finish(indexed, fields, chunks, [Place(build.name, bucket) for bucket in buckets], expected)


def packed_in_order(files: Sequence[Known], fields: Sequence[Field], wanted_bytes: int) -> Iterator[PackedChunk]:
    if not files:
        return iter(())
    columns = FileColumns([add.partition_values for add, _ in files], [also or add.stats for add, also in files])
    keys = Order.of(fields, columns).keys(columns)
    places = sorted(range(len(files)), key=keys.__getitem__)
    batches = (
        rows_of([files[place] for place in places[begin : begin + ROWS_AT_ONCE]])
        for begin in range(0, len(places), ROWS_AT_ONCE)
    )
    return pack_chunks(batches, fields, wanted_bytes)
