"""Packs sorted files into the chunks of an index.

The compressed size of files is known only after packing, so each chunk gives the estimate for the next one.
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

# Assumed size of a file in a chunk.
FILE_BYTES = 256
# The smaller the chunks, the less a selective query reads. But the root has a zone map per chunk and column, and is
# read whole. So large indexes have larger chunks, up to the size of a DynamoDB item.
MIN_CHUNK_BYTES = 64 * 1024
MAX_ZONES = 16_000
# How full a chunk should be, because the next files may be larger than the last, and how full is enough.
TARGET_FILL = 0.95
MIN_FILL = 0.85


class TooLargeFileError(NotIndexableError):
    def __init__(self) -> None:
        super().__init__("The log entry of one file is larger than a DynamoDB item (400 KB).")


class PackedChunk(NamedTuple):
    content: bytes
    files: int
    checksum: int
    zones: list[ZoneMap]
    """One per indexed column."""
    hashes: list[int]
    """One per file key."""
    sizes: list[int]
    has_vector: list[bool]

    def entries(self, chunk: int) -> bytes:
        """The packed bucket entries of all files, unsorted."""
        return pack_entries(self.hashes, self.sizes, self.has_vector, repeat(chunk))


def indexed_fields(metadata: Metadata, max_others: int = INDEXED_COLUMNS) -> list[Field]:
    """All partition columns, then the first `max_others` other columns.

    If the table names columns in `delta.dataSkippingStatsColumns`, only these count as other columns.
    """
    leaves = _leaves(metadata, mapped=column_mapping_mode(metadata) != "none")
    others = _statistics_columns(metadata, leaves) or [field for field in leaves if not field.in_partitions]
    return [*(field for field in leaves if field.in_partitions), *others[:max_others]]


def _leaves(metadata: Metadata, *, mapped: bool) -> list[Field]:
    return Schema(metadata.schema_string, metadata.partition_columns, column_mapping=mapped).leaves()


def _statistics_columns(metadata: Metadata, leaves: Sequence[Field]) -> list[Field]:
    """The columns that the table property names, without partition columns and names that are not in the schema."""
    names = column_names(metadata.configuration.get(STATISTICS_COLUMNS, ""))
    if not names:
        return []
    by_name: dict[tuple[str, ...], list[Field]] = {}
    for logical, field in zip(_leaves(metadata, mapped=False), leaves, strict=True):
        for end in range(1, len(logical.path) + 1):  # the name of a struct selects all its fields
            by_name.setdefault(_lower(logical.path[:end]), []).append(field)
    found = dict.fromkeys(field for name in names for field in by_name.get(_lower(name), ()))
    return [field for field in found if not field.in_partitions]


def _lower(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(str.lower, path))


def chunk_bytes(index_bytes: int, fields: Sequence[Field]) -> int:
    """The target size of a chunk, if all chunks together have about `index_bytes`."""
    return min(max(index_bytes * len(fields) // MAX_ZONES, MIN_CHUNK_BYTES), CONTENT_BYTES)


def pack_chunks(batches: Iterable[RecordBatch], fields: Sequence[Field], target_bytes: int) -> Iterator[PackedChunk]:
    """`batches` has rows with the fields of `core.index.layout.rows`."""
    remaining = iter(batches)
    waiting: Table | None = None
    number, too_many = max(target_bytes // FILE_BYTES, 1), sys.maxsize
    while True:
        waiting = _with_rows(waiting, remaining, number)
        if waiting is None:
            return
        rows = waiting.slice(0, min(number, waiting.num_rows)).combine_chunks().to_batches()[0]
        packed = pack_rows(rows, fields)
        size = len(packed.content)
        too_many = packed.files if size > CONTENT_BYTES else too_many
        number = max(min(int(packed.files * target_bytes * TARGET_FILL / size), too_many - 1), 1)
        if too_many == 1:
            raise TooLargeFileError
        is_full = size >= target_bytes * MIN_FILL or packed.files == waiting.num_rows or number <= packed.files
        if size <= CONTENT_BYTES and is_full:
            left = waiting.num_rows - packed.files
            waiting = waiting.slice(packed.files, left) if left else None
            too_many = sys.maxsize
            yield packed
        # Otherwise packs again, with the new number of files.


def _with_rows(waiting: Table | None, remaining: Iterator[RecordBatch], number: int) -> Table | None:
    """Adds batches to `waiting` until it has at least `number` rows, or no batch remains."""
    batches = waiting.to_batches() if waiting else []
    rows = waiting.num_rows if waiting else 0
    while rows < number and (batch := next(remaining, None)) is not None:
        if batch.num_rows:
            batches.append(batch)
            rows += batch.num_rows
    return Table.from_batches(batches) if batches else None


def pack_rows(rows: RecordBatch, fields: Sequence[Field]) -> PackedChunk:
    files = files_in(rows)
    names = list(dict.fromkeys(field.path[0] for field in fields if not field.in_partitions))
    from_log = for_pruning = EagerFileColumns(files.partition_values, files.stats, names)
    if PRUNING_STATS in files.fields:
        footer_stats = files.fields[PRUNING_STATS].to_pylist()
        stats = [log if footer is None else footer for log, footer in zip(files.stats, footer_stats, strict=True)]
        for_pruning = EagerFileColumns(files.partition_values, stats, names)
    content = pack_chunk(files, for_pruning, from_log.num_records(), fields)
    vectors = files.deletion_vectors
    return PackedChunk(
        content,
        files.num_files,
        zlib.crc32(content),
        [zone_map_of(field, for_pruning) for field in fields],
        list(map(hash_of, file_keys(files.paths, vectors))),
        files.sizes,
        list(map(bool, vectors)),
    )
