"""Builds an index without Spark: of a table that is small, or of a few commits after the version of another index.

A build that goes on from an older one rewrites the chunks that have lost files, and packs what was added into chunks of
their own, the *tail*. Each such build packs the tail anew; when it has grown too large, it is time for a new build of
all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from core.index.layout.rows import PRUNING_STATS, rows_of
from core.index.read.table_index import StoredIndex
from core.index.write.build import Build, IndexedVersion, WrittenChunk
from core.index.write.full_build import Known, packed_in_order
from core.index.write.packing import chunk_bytes, indexed_fields, pack_rows
from core.pruning.schema import Field

# The tail's chunks have numbers beyond those of all others.
TAIL_NUMBERS = 2**31
# Beyond either, all is built anew.
MAX_TAIL_FILES = 20_000
MAX_REWRITTEN_BYTES = 24 * 1024 * 1024


class TooManyChangesError(Exception):
    """So much has changed since the older index that a new one is to be built of all files."""


def build_incremental(
    build: Build,
    older: StoredIndex,
    indexed: IndexedVersion,
    changes: Mapping[FileKey, Add | None],
    *,
    columns: int = INDEXED_COLUMNS,
) -> Head:
    """`changes`: what the commits since say of each file: added, or removed."""
    fields = indexed_fields(indexed.metadata, columns)
    if fields != list(older.root.zones):
        raise TooManyChangesError
    gone = older.entries(changes.keys())
    lost = _by_chunk(gone)
    rewritten_bytes = sum(chunk.size for chunk in older.root.chunks if chunk.place.number in lost)
    tail_files = sum(chunk.files for chunk in older.root.chunks if chunk.in_tail)
    added = [add for add in changes.values() if add is not None]
    most_tail_files = max(MAX_TAIL_FILES, older.totals.num_files // 10)
    if rewritten_bytes > MAX_REWRITTEN_BYTES or tail_files + len(added) > most_tail_files:
        raise TooManyChangesError
    hashes = {entry.hash for entry in gone}

    main = list(_main_chunks(build, older, fields, lost, hashes))
    tail = _without(older, [chunk for chunk in older.root.chunks if chunk.in_tail], hashes)
    tail += [(add, None) for add in added]
    wanted_bytes = chunk_bytes(sum(chunk.size for chunk in older.root.chunks), fields)
    written = build.write_chunks(packed_in_order(tail, fields, wanted_bytes), count(TAIL_NUMBERS), in_tail=True)
    new_tail = [chunk for chunk, _ in written]

    buckets = _rebuilt_buckets(build, older, hashes, added)
    return build.finish(indexed, fields, [*main, *new_tail], buckets, older.build)


def _by_chunk(entries: Iterable[Entry]) -> set[int]:
    return {entry.chunk for entry in entries if entry.chunk != IN_TAIL}


def _main_chunks(
    build: Build, older: StoredIndex, fields: Sequence[Field], lost: set[int], gone: set[int]
) -> Iterator[WrittenChunk]:
    """Those that are not of the tail, as they are or without the files that are gone."""
    for place, info in enumerate(older.root.chunks):
        if info.in_tail:
            continue
        if info.place.number not in lost:
            yield WrittenChunk(info, [zones[place] for zones in older.root.zones.values()])
        elif files := _without(older, [info], gone):
            for chunk, _ in build.write_chunks([pack_rows(rows_of(files), fields)], [info.place.number]):
                yield chunk


def _without(older: StoredIndex, chunks: Sequence[ChunkInfo], hashes: set[int]) -> list[Known]:
    """The files of some chunks, but for those that are gone."""
    files: list[Known] = []
    for content in older.read(chunks):
        rows = Chunk(content).files
        also = rows.fields[PRUNING_STATS].to_pylist() if PRUNING_STATS in rows.fields else [None] * rows.num_files
        keys = file_keys(rows.paths, rows.deletion_vectors)
        files += [
            known
            for known, key in zip(zip(rows.adds(), also, strict=True), keys, strict=True)
            if hash_of(key) not in hashes
        ]
    return files


def _rebuilt_buckets(build: Build, older: StoredIndex, gone: set[int], added: Sequence[Add]) -> list[Place]:
    places = list(older.root.buckets)
    new: dict[int, list[Entry]] = {}
    for add in added:
        hashed = hash_of(file_key(add))
        entry = Entry(hashed, add.size, add.deletion_vector is not None, IN_TAIL)
        new.setdefault(bucket_of(hashed, len(places)), []).append(entry)
    for hashed in gone:
        new.setdefault(bucket_of(hashed, len(places)), [])
    contents = older.store.buckets(older.table, [places[number] for number in new])
    for (number, entries), content in zip(new.items(), contents, strict=True):
        entries += [entry for entry in unpack_bucket(content) if entry.hash not in gone]
        places[number] = Place(build.name, number)
    build.write_buckets((number, pack_bucket(entries)) for number, entries in new.items())
    return places
