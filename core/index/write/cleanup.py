"""Deletes the items of builds that are no longer live."""

from collections.abc import Callable
from dataclasses import dataclass

from core.index.layout.items import ItemKey, bucket_key, chunk_key, root_pk, shard_pks
from core.index.layout.root import Root
from core.index.write.writer import IndexWriter

# A replaced build stays this long for readers that still use it. A build without a heartbeat for this long is dead.
GRACE_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Cleanup:
    writer: IndexWriter
    table: str
    now: Callable[[], float]

    def delete_unused(self, new_build: str, new_root: Root) -> None:
        """Deletes the items that no root in use names.

        The root of the new build is in use, and so are that of the live build and those within their grace period.
        """
        roots, dead = [new_root], []
        head = self.writer.head(self.table)
        for marker in self.writer.keys(self.table):
            build = marker.sk.removeprefix("B")
            if marker.sk == build or build == new_build:
                continue
            if head is not None and build == head.build:
                roots.append(Root.unpack(self.writer.root(self.table, build)))
                continue
            if self.now() - self.writer.seen_at(marker) >= GRACE_SECONDS:
                dead.append((marker, build))
            elif content := self.writer.root(self.table, build):
                roots.append(Root.unpack(content))
        in_use = {chunk_key(self.table, chunk.place) for root in roots for chunk in root.chunks}
        in_use |= {bucket_key(self.table, place) for root in roots for place in root.buckets}
        for marker, build in dead:
            self._delete_build(marker, build, in_use)

    def _delete_build(self, marker: ItemKey, build: str, in_use: set[ItemKey]) -> None:
        """Keeps the marker while a later root still names some of the build's items."""
        some_in_use = False
        for pk in shard_pks(self.table, build):
            keys = list(self.writer.keys(pk))
            unused = [key for key in keys if key not in in_use]
            some_in_use = some_in_use or len(unused) < len(keys)
            self.writer.delete(unused)
        self.writer.delete(self.writer.keys(root_pk(self.table, build)))
        if not some_in_use:
            self.writer.delete([marker])
