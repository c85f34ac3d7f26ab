"""Packs files into the chunks of an index, in the order in which they come.

A chunk is as large as an item of DynamoDB may be. How many files that takes is known only when they are packed, so each
chunk tells the number for the next one.
"""

import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from arro3.core import RecordBatch, Table

from core.delta.features import column_mapping_mode
from core.delta.log.actions import keys_of
from core.delta.snapshot import Metadata
from core.index.chunk import pack_chunk
from core.index.items import CONTENT_BYTES
from core.index.keys import Entry, hash_of
from core.index.rows import PRUNING_STATS, NotIndexableError, files_in
from core.pruning.columns import FileColumns
from core.pruning.schema import Field, Schema
from core.pruning.zones import Zone, zone_of

INDEXED_COLUMNS = 32
FIRST_FILES = 512
# How much of an item is to be filled, since the next files may be larger than the last; and how much will do.
FILLED = 0.95
ENOUGH = 0.85


class TooLargeFileError(NotIndexableError):
    def __init__(self) -> None:
        super().__init__("What the log says of one file is more than an item of DynamoDB may hold.")


class PackedChunk(NamedTuple):
    content: bytes
    files: int
    checksum: int
    zones: list[Zone]
    """Of each indexed column."""
    hashes: list[int]
    """Of each file's key."""
    sizes: list[int]
    has_vector: list[bool]

    def entries(self, chunk: int) -> Iterator[Entry]:
        for hashed, size, has_vector in zip(self.hashes, self.sizes, self.has_vector, strict=True):
            yield Entry(hashed, size, has_vector, chunk)


def indexed_fields(metadata: Metadata, first: int = INDEXED_COLUMNS) -> list[Field]:
    """All partition columns and the first of the others: writers have statistics of no more, by default."""
    mapped = column_mapping_mode(metadata) != "none"
    leaves = Schema(metadata.schema_string, metadata.partition_columns, column_mapping=mapped).leaves()
    others = [field for field in leaves if not field.in_partitions]
    return [*(field for field in leaves if field.in_partitions), *others[:first]]


def pack_chunks(batches: Iterable[RecordBatch], fields: Sequence[Field]) -> Iterator[PackedChunk]:
    """`batches`: rows in the form of `core.index.rows`."""
    coming, limit = iter(batches), CONTENT_BYTES
    waiting: Table | None = None
    number, too_many = FIRST_FILES, sys.maxsize
    while True:
        waiting = _filled(waiting, coming, number)
        if waiting is None:
            return
        rows = waiting.slice(0, min(number, waiting.num_rows)).combine_chunks().to_batches()[0]
        packed = pack_rows(rows, fields)
        size = len(packed.content)
        too_many = packed.files if size > limit else too_many
        number = max(min(int(packed.files * limit * FILLED / size), too_many - 1), 1)
        if too_many == 1:
            raise TooLargeFileError
        is_full = size >= limit * ENOUGH or packed.files == waiting.num_rows or number <= packed.files
        if size <= limit and is_full:
            left = waiting.num_rows - packed.files
            waiting = waiting.slice(packed.files, left) if left else None
            too_many = sys.maxsize
            yield packed
        # Else it is packed again, with as many files as will fill it.


def _filled(waiting: Table | None, coming: Iterator[RecordBatch], number: int) -> Table | None:
    """At least so many rows, if there are so many."""
    batches = waiting.to_batches() if waiting else []
    rows = waiting.num_rows if waiting else 0
    while rows < number and (batch := next(coming, None)) is not None:
        if batch.num_rows:
            batches.append(batch)
            rows += batch.num_rows
    return Table.from_batches(batches) if batches else None


def pack_rows(rows: RecordBatch, fields: Sequence[Field]) -> PackedChunk:
    files = files_in(rows)
    columns = known = _Columns(files.partition_values, files.stats)
    if PRUNING_STATS in files.fields:
        completed = files.fields[PRUNING_STATS].to_pylist()
        stats = [text if also is None else also for text, also in zip(files.stats, completed, strict=True)]
        known = _Columns(files.partition_values, stats)
    content = pack_chunk(files, known, columns.num_records(), fields)
    vectors = files.deletion_vectors
    return PackedChunk(
        content,
        files.num_files,
        zlib.crc32(content),
        [zone_of(field, known) for field in fields],
        list(map(hash_of, keys_of(files.paths, vectors))),
        files.sizes,
        list(map(bool, vectors)),
    )


class _Columns(FileColumns):
    """Each is asked for twice: as it is, and for its zone."""

    def __init__(self, partition_values: Sequence[Mapping[str, str | None]], stats: Sequence[str | None]) -> None:
        super().__init__(partition_values, stats)
        self.minimum = cache(super().minimum)  # type: ignore[method-assign]
        self.maximum = cache(super().maximum)  # type: ignore[method-assign]
        self.null_count = cache(super().null_count)  # type: ignore[method-assign]
