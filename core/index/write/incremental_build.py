"""Builds an index from an older one and the commits after it, without Spark.

An incremental build rewrites the chunks that lost files, and packs added files into separate chunks, the *tail*. The
next incremental build packs the whole tail again. When the tail is too large, a full build is needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from core.delta.model import Add, FileKey, file_key, file_keys
from core.index.layout.buckets import (
    IN_TAIL,
    Entry,
    bucket_of,
    hash_of,
    pack_bucket,
    unpack_bucket,
)
from core.index.layout.chunk import Chunk
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import Place
from core.index.layout.root import ChunkInfo
from core.index.layout.rows import PRUNING_STATS, FileWithStats, rows_of
from core.index.read.table_index import StoredIndex
from core.index.write.build import Build, IndexedVersion, WrittenChunk
from core.index.write.full_build import sort_and_pack
from core.index.write.packing import chunk_bytes, indexed_fields, pack_rows
from core.pruning.schema import Field

# Chunks of the tail are numbered from here, above all other chunks.
FIRST_TAIL_NUMBER = 2**31
# Beyond either limit, a full build is needed. The tail may also have up to a tenth of the table's files.
MAX_TAIL_FILES = 20_000
MAX_REWRITTEN_BYTES = 24 * 1024 * 1024


class TooManyChangesError(Exception):
    """Too much has changed since the older index, or other columns are indexed. A full build is needed."""


def build_incremental(
    build: Build,
    older: StoredIndex,
    indexed: IndexedVersion,
    changes: Mapping[FileKey, Add | None],
    *,
    columns: int = INDEXED_COLUMNS,
) -> Head:
    """`changes` has the files that commits touched since the older index. None means that a file was removed."""
    fields = indexed_fields(indexed.metadata, columns)
    if fields != list(older.root.zones):
        raise TooManyChangesError
    replaced = older.entries(changes.keys())  # indexed files that commits removed or added again
    chunks_to_rewrite = {entry.chunk for entry in replaced if entry.chunk != IN_TAIL}
    rewritten_bytes = sum(chunk.size for chunk in older.root.chunks if chunk.place.number in chunks_to_rewrite)
    tail_files = sum(chunk.files for chunk in older.root.chunks if chunk.in_tail)
    added = [add for add in changes.values() if add is not None]
    max_tail_files = max(MAX_TAIL_FILES, older.totals.num_files // 10)
    if rewritten_bytes > MAX_REWRITTEN_BYTES or tail_files + len(added) > max_tail_files:
        raise TooManyChangesError
    replaced_hashes = {entry.hash for entry in replaced}

    main = list(_main_chunks(build, older, fields, chunks_to_rewrite, replaced_hashes))
    tail = _remaining_files(older, [chunk for chunk in older.root.chunks if chunk.in_tail], replaced_hashes)
    tail += [(add, None) for add in added]
    target_bytes = chunk_bytes(sum(chunk.size for chunk in older.root.chunks), fields)
    written = build.write_chunks(sort_and_pack(tail, fields, target_bytes), count(FIRST_TAIL_NUMBER), in_tail=True)
    new_tail = [chunk for chunk, _ in written]

    buckets = _write_changed_buckets(build, older, replaced_hashes, added)
    return build.finish(indexed, fields, [*main, *new_tail], buckets, older.build)


def _main_chunks(
    build: Build, older: StoredIndex, fields: Sequence[Field], chunks_to_rewrite: set[int], replaced_hashes: set[int]
) -> Iterator[WrittenChunk]:
    """The chunks outside the tail, rewritten without replaced files where necessary."""
    columns = list(older.root.zones.values())
    for position, info in enumerate(older.root.chunks):
        if info.in_tail:
            continue
        if info.place.number not in chunks_to_rewrite:
            yield WrittenChunk(info, [zones[position] for zones in columns])
        elif files := _remaining_files(older, [info], replaced_hashes):
            for chunk, _ in build.write_chunks([pack_rows(rows_of(files), fields)], [info.place.number]):
                yield chunk


def _remaining_files(older: StoredIndex, chunks: Sequence[ChunkInfo], replaced_hashes: set[int]) -> list[FileWithStats]:
    """The files of the chunks, without the replaced ones."""
    remaining: list[FileWithStats] = []
    for content in older.read(chunks):
        rows = Chunk(content).files
        has_stats = PRUNING_STATS in rows.fields
        pruning_stats = rows.fields[PRUNING_STATS].to_pylist() if has_stats else [None] * rows.num_files
        keys = file_keys(rows.paths, rows.deletion_vectors)
        remaining += [
            (add, stats)
            for add, stats, key in zip(rows.adds(), pruning_stats, keys, strict=True)
            if hash_of(key) not in replaced_hashes
        ]
    return remaining


def _write_changed_buckets(
    build: Build, older: StoredIndex, replaced_hashes: set[int], added: Sequence[Add]
) -> list[Place]:
    """Returns the places of all buckets, changed or not."""
    places = list(older.root.buckets)
    changed: dict[int, list[Entry]] = {}
    for add in added:
        hashed = hash_of(file_key(add))
        entry = Entry(hashed, add.size, add.deletion_vector is not None, IN_TAIL)
        changed.setdefault(bucket_of(hashed, len(places)), []).append(entry)
    for hashed in replaced_hashes:
        changed.setdefault(bucket_of(hashed, len(places)), [])
    contents = older.store.buckets(older.table, [places[number] for number in changed])
    for (number, entries), content in zip(changed.items(), contents, strict=True):
        entries += [entry for entry in unpack_bucket(content) if entry.hash not in replaced_hashes]
        places[number] = Place(build.name, number)
    build.write_buckets((number, pack_bucket(entries)) for number, entries in changed.items())
    return places
