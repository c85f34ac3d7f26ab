"""The items of an index in DynamoDB.

    pk                       sk        item
    <table>                  HEAD      the head: names the live build
    <table>                  B<build>  the marker of a build, deleted after the build's other items
    <table>#<build>#ROOT     <part>    a part of the build's root
    <table>#<build>#C<shard> <number>  a chunk
    <table>#<build>#K<shard> <number>  a bucket

`<table>` is a hash of the table's location, so all shares of a table use the same index. All items of a build are
written before the head names it, and never change: a reader sees the old index or the new one. Chunks and buckets are
spread over 64 partition keys, because DynamoDB writes at most 1 MB per second to one. A root may name chunks and
buckets of earlier builds.
"""

import hashlib
from typing import Any, NamedTuple

# A DynamoDB item has at most 400 KB, including its keys.
CONTENT_BYTES = 390_000
SHARDS = 64

HEAD = "HEAD"
MARKER = "B"
CONTENT = "content"


class ItemKey(NamedTuple):
    pk: str
    sk: str


class Place(NamedTuple):
    """Identifies a chunk or a bucket: the build that wrote it, and its number in that build."""

    build: str
    number: int


def attributes(key: ItemKey) -> dict[str, Any]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def table_of(location_uri: str) -> str:
    return hashlib.sha256(location_uri.encode()).hexdigest()[:32]


def head_key(table: str) -> ItemKey:
    return ItemKey(table, HEAD)


def marker_key(table: str, build: str) -> ItemKey:
    return ItemKey(table, f"{MARKER}{build}")


def root_pk(table: str, build: str) -> str:
    return f"{table}#{build}#ROOT"


def root_key(table: str, build: str, part: int) -> ItemKey:
    return ItemKey(root_pk(table, build), f"{part:04d}")


def chunk_key(table: str, place: Place) -> ItemKey:
    return ItemKey(_sharded(table, place, "C"), f"{place.number:010d}")


def bucket_key(table: str, place: Place) -> ItemKey:
    return ItemKey(_sharded(table, place, "K"), f"{place.number:010d}")


def shard_pks(table: str, build: str) -> list[str]:
    """The partition keys of all chunks and buckets of a build."""
    return [f"{table}#{build}#{prefix}{shard:02d}" for prefix in "CK" for shard in range(SHARDS)]


def _sharded(table: str, place: Place, prefix: str) -> str:
    return f"{table}#{place.build}#{prefix}{place.number % SHARDS:02d}"
