"""Builds the whole index of a table without Spark: of one whose files fit in memory, or of a larger one in ranges.

A larger table is read twice. A sample of its files gives the packing order and its quantiles. Then each file is saved
to a temporary file, in the *range* of the order between two quantiles. Each range is sorted and packed in memory.
"""

import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import IO, Any

from arro3.core import Array, DataType, RecordBatch
from isal import isal_zlib

from core.delta.model import Add
from core.delta.snapshot import Snapshot
from core.index.layout.buckets import buckets_for, sealed, split
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import Place
from core.index.layout.rows import FileWithStats, files_in, lines_of, rows_from, rows_of
from core.index.write.build import Build, IndexedVersion
from core.index.write.order import Order
from core.index.write.packing import FILE_BYTES, PackedChunk, chunk_bytes, indexed_fields, pack_chunks
from core.pruning.columns import FileColumns
from core.pruning.schema import Field

ROWS_PER_BATCH = 4096
# A range takes about 100 MB while it is sorted. So do the files that wait to be saved.
RANGE_FILES = 50_000
MAX_WAITING_FILES = 40_000
# Files that give the quantiles of the order, and those of them from which its columns are chosen.
SAMPLED_FILES = 20_000
COMPARED_FILES = 4096
FASTEST = 0


def build_full(
    build: Build,
    indexed: IndexedVersion,
    files: Sequence[FileWithStats],
    expected: str | None,
    *,
    columns: int = INDEXED_COLUMNS,
) -> Head:
    fields = indexed_fields(indexed.metadata, columns)
    target_bytes = chunk_bytes(0, fields)  # the minimum: these tables are small
    return _write(build, indexed, fields, sort_and_pack(files, fields, target_bytes), expected)


def build_in_ranges(
    build: Build,
    indexed: IndexedVersion,
    snapshot: Snapshot,
    expected: str | None,
    *,
    columns: int = INDEXED_COLUMNS,
) -> Head:
    fields = indexed_fields(indexed.metadata, columns)
    order, cuts = _order_and_cuts(snapshot, fields)
    with tempfile.TemporaryFile(prefix="sluice-ranges-") as file:
        ranges = _Ranges(file, len(cuts) + 1)
        number = 0
        for batch in snapshot.batches(None):
            for key, add in zip(order.keys(batch.columns), batch.adds(), strict=True):
                # Files with the same key may fill several ranges.
                first, last = bisect_left(cuts, key), bisect_right(cuts, key)
                ranges.add(first + number % (last - first + 1), add)
                number += 1
        ranges.save()
        rows = (_sorted(rows, order) for rows in ranges.rows())
        packed = pack_chunks(rows, fields, chunk_bytes(snapshot.num_files * FILE_BYTES, fields))
        return _write(build, indexed, fields, packed, expected)


def _order_and_cuts(snapshot: Snapshot, fields: Sequence[Field]) -> tuple[Order, list[tuple[Any, ...]]]:
    """Returns the packing order, and the keys at which new ranges begin."""
    step = snapshot.num_files // SAMPLED_FILES + 1
    partition_values: list[Mapping[str, str | None]] = []
    stats: list[str | None] = []
    first = 0
    for batch in snapshot.batches(None):
        chosen = batch.only(number % step == 0 for number in range(first, first + batch.num_files))
        partition_values += chosen.partition_values
        stats += chosen.stats
        first += batch.num_files
    sample = FileColumns(partition_values, stats)
    compared = len(stats) // COMPARED_FILES + 1
    order = Order.of(fields, FileColumns(partition_values[::compared], stats[::compared]))
    keys = sorted(order.keys(sample))
    ranges = snapshot.num_files // RANGE_FILES + 1
    return order, [keys[len(keys) * number // ranges] for number in range(1, ranges)]


class _Ranges:
    """Files by range: the last ones in memory, the others compressed in a file."""

    def __init__(self, file: IO[bytes], number: int) -> None:
        self._file = file
        self._waiting: list[list[Add]] = [[] for _ in range(number)]
        self._saved: list[list[int]] = [[] for _ in range(number)]
        self._num_waiting = 0

    def add(self, number: int, add: Add) -> None:
        self._waiting[number].append(add)
        self._num_waiting += 1
        if self._num_waiting >= MAX_WAITING_FILES:
            self.save()

    def save(self) -> None:
        for waiting, saved in zip(self._waiting, self._saved, strict=True):
            if waiting:
                content = isal_zlib.compress(lines_of((add, None) for add in waiting), FASTEST)
                saved += [self._file.tell(), len(content)]
                self._file.write(content)
                waiting.clear()
        self._num_waiting = 0

    def rows(self) -> Iterator[RecordBatch]:
        """Yields the rows of each range that has any."""
        for saved in self._saved:
            parts = []
            for offset, length in zip(saved[::2], saved[1::2], strict=True):
                self._file.seek(offset)
                parts.append(isal_zlib.decompress(self._file.read(length)))
            if parts:
                yield rows_from(b"".join(parts))


def _sorted(rows: RecordBatch, order: Order) -> RecordBatch:
    files = files_in(rows)
    keys = order.keys(FileColumns(files.partition_values, files.stats))
    positions = sorted(range(len(keys)), key=keys.__getitem__)
    return rows.take(Array(positions, type=DataType.uint32()))


def _write(
    build: Build, indexed: IndexedVersion, fields: Sequence[Field], chunks: Iterable[PackedChunk], expected: str | None
) -> Head:
    written, entries = [], []
    for chunk, packed in build.write_chunks(chunks, count()):
        written.append(chunk)
        entries.append(packed.entries(chunk.info.place.number))
    buckets = range(buckets_for(indexed.totals.num_files))
    build.write_buckets(zip(buckets, map(sealed, split(b"".join(entries), buckets, len(buckets))), strict=True))
    return build.finish(indexed, fields, written, [Place(build.name, bucket) for bucket in buckets], expected)


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
