"""How an index lies in its DynamoDB table.

    pk                       sk        item
    <table>                  HEAD      which build is live, and what is known of it
    <table>                  B<build>  a build that has begun; it is removed with what it wrote
    <table>#<build>#ROOT     <part>    a part of the build's root
    <table>#<build>#C<shard> <number>  a chunk
    <table>#<build>#K<shard> <number>  a bucket of keys

`<table>` stands for the table's location, so that shares of one table have one index. A build's items are written
before the head names it, and never changed: a reader sees the old index or the new one. Chunks lie in many partitions,
since each takes but a megabyte a second. A root may name chunks and buckets of earlier builds.
"""

import hashlib
from typing import NamedTuple

# Limits of DynamoDB: an item has at most 400 KB with its keys.
CONTENT_BYTES = 390_000
SHARDS = 64

HEAD = "HEAD"


class ItemKey(NamedTuple):
    pk: str
    sk: str


class Place(NamedTuple):
    """Of a chunk or a bucket: the build that wrote it, and its number there."""

    build: str
    number: int


def table_of(location_uri: str) -> str:
    return hashlib.sha256(location_uri.encode()).hexdigest()[:32]


def head_key(table: str) -> ItemKey:
    return ItemKey(table, HEAD)


def begun_key(table: str, build: str) -> ItemKey:
    return ItemKey(table, f"B{build}")


def root_pk(table: str, build: str) -> str:
    return f"{table}#{build}#ROOT"


def root_key(table: str, build: str, part: int) -> ItemKey:
    return ItemKey(root_pk(table, build), f"{part:04d}")


def chunk_key(table: str, place: Place) -> ItemKey:
    return ItemKey(_sharded(table, place, "C"), f"{place.number:010d}")


def bucket_key(table: str, place: Place) -> ItemKey:
    return ItemKey(_sharded(table, place, "K"), f"{place.number:010d}")


def shard_pks(table: str, build: str, kinds: str = "CK") -> list[str]:
    """Where all chunks and buckets of a build are."""
    return [f"{table}#{build}#{kind}{shard:02d}" for kind in kinds for shard in range(SHARDS)]


def _sharded(table: str, place: Place, kind: str) -> str:
    return f"{table}#{place.build}#{kind}{place.number % SHARDS:02d}"
