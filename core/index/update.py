"""Builds an index without Spark: of a table that is small, or of a few commits after the version of another index.

A build that goes on from an older one rewrites the chunks that have lost files, and packs what was added into chunks of
their own, the *tail*. Each such build packs the tail anew; when it has grown too large, it is time for a new build of
all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from core.delta.log.actions import Key, key_of, keys_of
from core.delta.snapshot import Add
from core.index.build import PackedChunk, chunk_bytes, indexed_fields, pack_chunks, pack_rows
from core.index.builds import Build, Indexed, WrittenChunk
from core.index.checkpoint import IndexedCheckpoint
from core.index.chunk import Chunk
from core.index.columns import INDEXED_COLUMNS
from core.index.items import Place
from core.index.keys import IN_TAIL, Entry, bucket_of, buckets_for, hash_of, pack_bucket, sealed, split, unpack_bucket
from core.index.order import Order
from core.index.root import ChunkInfo
from core.index.rows import PRUNING_STATS, rows_of
from core.index.store import Head
from core.pruning.columns import FileColumns
from core.pruning.schema import Field

ROWS_AT_ONCE = 4096
# The tail's chunks have numbers beyond those of all others.
TAIL_NUMBERS = 2**31
# Beyond either, all is built anew.
MAX_TAIL_FILES = 20_000
MAX_REWRITTEN_BYTES = 24 * 1024 * 1024

Known = tuple[Add, str | None]
"""A file, and the statistics that only pruning knows."""


class TooManyChangesError(Exception):
    """So much has changed since the older index that a new one is to be built of all files."""


def build_all(
    build: Build, indexed: Indexed, files: Sequence[Known], expected: str | None, *, columns: int = INDEXED_COLUMNS
) -> Head:
    fields = indexed_fields(indexed.metadata, columns)
    number = buckets_for(len(files))
    chunks, entries = [], []
    wanted_bytes = chunk_bytes(0, fields)  # such tables are small
    for chunk, packed in build.write_chunks(_packed(files, fields, wanted_bytes), count()):
        chunks.append(chunk)
        entries.append(packed.entries(chunk.info.place.number))
    buckets = range(number)
    build.write_buckets(zip(buckets, map(sealed, split(b"".join(entries), buckets, number)), strict=True))
    return build.finish(indexed, fields, chunks, [Place(build.name, bucket) for bucket in buckets], expected)


def build_on(
    build: Build,
    older: IndexedCheckpoint,
    indexed: Indexed,
    changes: Mapping[Key, Add | None],
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
    written = build.write_chunks(_packed(tail, fields, wanted_bytes), count(TAIL_NUMBERS), in_tail=True)
    new_tail = [chunk for chunk, _ in written]

    buckets = _rebuilt_buckets(build, older, hashes, added)
    return build.finish(indexed, fields, [*main, *new_tail], buckets, older.build)


def _by_chunk(entries: Iterable[Entry]) -> set[int]:
    return {entry.chunk for entry in entries if entry.chunk != IN_TAIL}


def _main_chunks(
    build: Build, older: IndexedCheckpoint, fields: Sequence[Field], lost: set[int], gone: set[int]
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


def _without(older: IndexedCheckpoint, chunks: Sequence[ChunkInfo], hashes: set[int]) -> list[Known]:
    """The files of some chunks, but for those that are gone."""
    files: list[Known] = []
    for content in older.read(chunks):
        rows = Chunk(content).files
        also = rows.fields[PRUNING_STATS].to_pylist() if PRUNING_STATS in rows.fields else [None] * rows.num_files
        keys = keys_of(rows.paths, rows.deletion_vectors)
        files += [
            known
            for known, key in zip(zip(rows.adds(), also, strict=True), keys, strict=True)
            if hash_of(key) not in hashes
        ]
    return files


def _packed(files: Sequence[Known], fields: Sequence[Field], wanted_bytes: int) -> Iterator[PackedChunk]:
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


def _rebuilt_buckets(build: Build, older: IndexedCheckpoint, gone: set[int], added: Sequence[Add]) -> list[Place]:
    places = list(older.root.buckets)
    new: dict[int, list[Entry]] = {}
    for add in added:
        hashed = hash_of(key_of(add))
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
