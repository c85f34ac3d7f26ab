"""Buckets: a hash table from file keys to the size and chunk of each indexed file.

A reader that replays newer commits over an index must know which of their files count in the index's totals. An
incremental build must know their chunks. A bucket has about 4 KB, the size of one DynamoDB read unit. Entries are
sorted by hash, which is also the order of their bytes.
"""

import hashlib
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from core.delta.index import UnusableIndexError
from core.delta.model import FileKey, Totals

# Hash, size, chunk. The size is inverted bitwise if the file has a deletion vector.
ENTRY = struct.Struct(">QqI")
SEAL_BYTES = 4
KEYS_PER_BUCKET = 190
# Replaces the chunk number of files in the tail, which every incremental build packs again.
IN_TAIL = 2**32 - 1


class Entry(NamedTuple):
    hash: int
    size: int
    has_vector: bool
    chunk: int


def hash_of(key: FileKey) -> int:
    """Stable across processes, unlike `hash`. With a million files, one key in 10^13 collides."""
    text = key if isinstance(key, str) else "\0".join(key)
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())


def bucket_of(hashed: int, num_buckets: int) -> int:
    return hashed * num_buckets >> 64


def buckets_for(num_files: int) -> int:
    return max(num_files // KEYS_PER_BUCKET, 1)


def pack_entries(
    hashes: Iterable[int], sizes: Iterable[int], have_vectors: Iterable[bool], chunks: Iterable[int]
) -> bytes:
    signed = (~size if has_vector else size for size, has_vector in zip(sizes, have_vectors, strict=True))
    return b"".join(map(ENTRY.pack, hashes, signed, chunks))


def pack_bucket(entries: Sequence[Entry]) -> bytes:
    return sealed(pack_entries(*zip(*sorted(entries), strict=True)) if entries else b"")


def sealed(entries: bytes) -> bytes:
    """A bucket: sorted entries followed by a checksum."""
    return entries + zlib.crc32(entries).to_bytes(SEAL_BYTES)


def split(packed: bytes, buckets: range, num_buckets: int) -> Iterator[bytes]:
    """Splits packed entries, in any order, into the given buckets out of `num_buckets` in total."""
    ordered = sorted(packed[begin : begin + ENTRY.size] for begin in range(0, len(packed), ENTRY.size))
    begin = 0
    for bucket in buckets:
        first_of_next = -(-(bucket + 1 << 64) // num_buckets)
        end = len(ordered) if first_of_next >> 64 else bisect_left(ordered, first_of_next.to_bytes(8))
        yield b"".join(ordered[begin:end])
        begin = end


def unpack_bucket(bucket: bytes) -> list[Entry]:
    entries = bucket[:-SEAL_BYTES]
    if sealed(entries) != bucket:
        raise UnusableIndexError("a bucket is damaged")
    return [
        Entry(hashed, ~size if size < 0 else size, size < 0, chunk)
        for hashed, size, chunk in ENTRY.iter_unpack(entries)
    ]


def entries_in(bucket: bytes, hashes: Iterable[int]) -> list[Entry]:
    """The entries with these hashes. Skips hashes that are not in the bucket."""
    entries = unpack_bucket(bucket)
    found = []
    for hashed in hashes:
        position = bisect_left(entries, (hashed,))
        if position < len(entries) and entries[position].hash == hashed:
            found.append(entries[position])
    return found


def totals_of(entries: Iterable[Entry]) -> Totals:
    found = list(entries)
    return Totals(len(found), sum(entry.size for entry in found), sum(entry.has_vector for entry in found))
