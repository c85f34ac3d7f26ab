"""Deletes the items of builds that are no longer live."""

from collections.abc import Callable
from dataclasses import dataclass

from core.index.layout.items import ItemKey, bucket_key, chunk_key, marker_key, root_pk, shard_pks
from core.index.layout.root import Root
from core.index.write.writer import IndexWriter

# A build that has not finished this long after it began is dead.
UNFINISHED_SECONDS = 3600
# A finished build can be read by its name this long after it was replaced. Page tokens name builds, and the last token
# of a chain expires a day after the first page (`core.api.table_tokens.CHAIN_SECONDS`).
REPLACED_SECONDS = 25 * 3600
# Cleanup reads the roots of all builds in use. It waits until a build has been unused this long, so that builds that
# follow every commit do not read them each time.
PATIENCE_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Cleanup:
    writer: IndexWriter
    table: str
    now: Callable[[], float]

    def delete_unused(self, new_build: str, new_root: Root) -> None:
        """Deletes the items that no root in use names.

        The root of the new build is in use, and so are that of the live build and those that are kept for readers.
        """
        head, now = self.writer.head(self.table), self.now()
        builds = {build: keep_until for build, keep_until in self.writer.builds(self.table) if build != new_build}
        live = head.build if head else None
        unused = [build for build, keep_until in builds.items() if build != live and now >= keep_until]
        if not any(now >= builds[build] + PATIENCE_SECONDS for build in unused):
            return
        contents = (self.writer.root(self.table, build) for build in builds.keys() - set(unused))
        roots = [new_root, *(Root.unpack(content) for content in contents if content)]
        in_use = {chunk_key(self.table, chunk.place) for root in roots for chunk in root.chunks}
        in_use |= {bucket_key(self.table, place) for root in roots for place in root.buckets}
        for build in unused:
            self._delete_build(build, in_use)

    def _delete_build(self, build: str, in_use: set[ItemKey]) -> None:
        """Keeps the marker while a later root still names some of the build's items."""
        some_in_use = False
        for pk in shard_pks(self.table, build):
            keys = list(self.writer.keys(pk))
            unused = [key for key in keys if key not in in_use]
            some_in_use = some_in_use or len(unused) < len(keys)
            self.writer.delete(unused)
        self.writer.delete(self.writer.keys(root_pk(self.table, build)))
        if not some_in_use:
            self.writer.delete([marker_key(self.table, build)])
