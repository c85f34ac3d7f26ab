"""Packs files into the chunks of an index, in the order in which they come.

How many files make a chunk of the wanted size is known only when they are packed, so each chunk tells the number for
the next one.
"""

import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from arro3.core import RecordBatch, Table

from core.delta.features import column_mapping_mode
from core.delta.model import Metadata, file_keys
from core.index.layout.buckets import hash_of, pack_entries
from core.index.layout.chunk import pack_chunk
from core.index.layout.columns import INDEXED_COLUMNS, STATISTICS_COLUMNS, column_names
from core.index.layout.items import CONTENT_BYTES
from core.index.layout.rows import PRUNING_STATS, NotIndexableError, files_in
from core.pruning.columns import EagerFileColumns
from core.pruning.schema import Field, Schema
from core.pruning.zone_maps import ZoneMap, zone_map_of

# What a file is taken to need, before any is packed.
FILE_BYTES = 256
# Of a chunk. The smaller they are, the less a selective query reads; but the root has a zone of every column for each
# of them, and is read whole. So large indexes have larger ones, up to what DynamoDB takes.
LEAST_BYTES = 64 * 1024
MAX_ZONES = 16_000
# How much of a chunk is to be filled, since the next files may be larger than the last; and how much will do.
FILLED = 0.95
ENOUGH = 0.85


class TooLargeFileError(NotIndexableError):
    def __init__(self) -> None:
        super().__init__("What the log says of one file is more than an item of DynamoDB may hold.")


class PackedChunk(NamedTuple):
    content: bytes
    files: int
    checksum: int
    zones: list[ZoneMap]
    """Of each indexed column."""
    hashes: list[int]
    """Of each file's key."""
    sizes: list[int]
    has_vector: list[bool]

    def entries(self, chunk: int) -> bytes:
        """Packed, in no order."""
        return pack_entries(self.hashes, self.sizes, self.has_vector, repeat(chunk))


def indexed_fields(metadata: Metadata, first: int = INDEXED_COLUMNS) -> list[Field]:
    """All partition columns and the first of the others: of those that the table names, if it does so."""
    leaves = _leaves(metadata, mapped=column_mapping_mode(metadata) != "none")
    others = _with_statistics(metadata, leaves) or [field for field in leaves if not field.in_partitions]
    return [*(field for field in leaves if field.in_partitions), *others[:first]]


def _leaves(metadata: Metadata, *, mapped: bool) -> list[Field]:
    return Schema(metadata.schema_string, metadata.partition_columns, column_mapping=mapped).leaves()


def _with_statistics(metadata: Metadata, leaves: Sequence[Field]) -> list[Field]:
    """Of the columns that the table's properties name, those that are in its schema: of others writers have none."""
    names = column_names(metadata.configuration.get(STATISTICS_COLUMNS, ""))
    if not names:
        return []
    by_name: dict[tuple[str, ...], list[Field]] = {}
    for logical, field in zip(_leaves(metadata, mapped=False), leaves, strict=True):
        for end in range(1, len(logical.path) + 1):  # the name of a struct means all that is inside of it
            by_name.setdefault(_any_case(logical.path[:end]), []).append(field)
    found = dict.fromkeys(field for name in names for field in by_name.get(_any_case(name), ()))
    return [field for field in found if not field.in_partitions]


def _any_case(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(str.lower, path))


def chunk_bytes(index_bytes: int, fields: Sequence[Field]) -> int:
    """How large its chunks are to be, if all of them together have about so many bytes."""
    return min(max(index_bytes * len(fields) // MAX_ZONES, LEAST_BYTES), CONTENT_BYTES)


def pack_chunks(batches: Iterable[RecordBatch], fields: Sequence[Field], wanted_bytes: int) -> Iterator[PackedChunk]:
    """`batches`: rows in the form of `core.index.layout.rows`."""
    coming = iter(batches)
    waiting: Table | None = None
    number, too_many = max(wanted_bytes // FILE_BYTES, 1), sys.maxsize
    while True:
        waiting = _filled(waiting, coming, number)
        if waiting is None:
            return
        rows = waiting.slice(0, min(number, waiting.num_rows)).combine_chunks().to_batches()[0]
        packed = pack_rows(rows, fields)
        size = len(packed.content)
        too_many = packed.files if size > CONTENT_BYTES else too_many
        number = max(min(int(packed.files * wanted_bytes * FILLED / size), too_many - 1), 1)
        if too_many == 1:
            raise TooLargeFileError
        is_full = size >= wanted_bytes * ENOUGH or packed.files == waiting.num_rows or number <= packed.files
        if size <= CONTENT_BYTES and is_full:
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
    names = list(dict.fromkeys(field.path[0] for field in fields if not field.in_partitions))
    columns = known = EagerFileColumns(files.partition_values, files.stats, names)
    if PRUNING_STATS in files.fields:
        completed = files.fields[PRUNING_STATS].to_pylist()
        stats = [text if also is None else also for text, also in zip(files.stats, completed, strict=True)]
        known = EagerFileColumns(files.partition_values, stats, names)
    content = pack_chunk(files, known, columns.num_records(), fields)
    vectors = files.deletion_vectors
    return PackedChunk(
        content,
        files.num_files,
        zlib.crc32(content),
        [zone_map_of(field, known) for field in fields],
        list(map(hash_of, file_keys(files.paths, vectors))),
        files.sizes,
        list(map(bool, vectors)),
    )
