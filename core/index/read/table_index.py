"""An index that takes the place of a checkpoint: log replay applies newer commits to it.

Its files are read from DynamoDB on demand, and only from chunks with a row that may match the predicate.
"""

import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, compress
from typing import TYPE_CHECKING

from core.delta.index import UnusableIndexError
from core.delta.model import FileKey, Metadata, Protocol, Totals, file_keys
from core.index.layout.buckets import Entry, bucket_of, entries_in, hash_of, totals_of
from core.index.layout.root import ChunkInfo, Root
from core.index.read.store import IndexStore
from core.storage.objects import ObjectInfo

if TYPE_CHECKING:
    from core.index.read.files import IndexedFiles
    from core.pruning.predicate import Predicate


@dataclass(frozen=True, slots=True, weakref_slot=True)
class StoredIndex:
    store: IndexStore
    table: str
    build: str
    root: Root

    disk_bytes = 0

    @property
    def version(self) -> int:
        return self.root.version

    @property
    def tip(self) -> ObjectInfo:
        return self.root.tip

    @property
    def protocol(self) -> Protocol:
        return self.root.protocol

    @property
    def metadata(self) -> Metadata:
        return self.root.metadata

    @property
    def totals(self) -> Totals:
        return self.root.totals

    @property
    def memory_bytes(self) -> int:
        return self.root.memory_bytes

    def totals_of(self, keys: Collection[FileKey]) -> Totals:
        return totals_of(self.entries(keys))

    def entries(self, keys: Collection[FileKey]) -> list[Entry]:
        """The bucket entries of those files that are in the index."""
        hashes_by_bucket: dict[int, list[int]] = {}
        for hashed in map(hash_of, keys):
            hashes_by_bucket.setdefault(bucket_of(hashed, len(self.root.buckets)), []).append(hashed)
        contents = self.store.buckets(self.table, [self.root.buckets[number] for number in hashes_by_bucket])
        found = zip(contents, hashes_by_bucket.values(), strict=True)
        return [entry for content, hashes in found for entry in entries_in(content, hashes)]

    def batches(self, predicate: "Predicate | None" = None, after: int = 0) -> "Iterator[tuple[int, IndexedFiles]]":
        from core.index.layout.chunk import Chunk
        from core.index.read.files import IndexedFiles

        numbered = self._numbered(self.chunks(predicate), after)
        chunks = [chunk for _, chunk in numbered]
        yielded = 0
        try:
            for (before, _), content in zip(numbered, self.read(chunks), strict=True):
                chunk = Chunk(content)
                yield before, IndexedFiles(chunk, range(chunk.size))
                yielded += 1
        except UnusableIndexError as problem:
            raise UnusableIndexError(str(problem), partial(self._keys, chunks[:yielded])) from problem

    def num_files_left(self, predicate: "Predicate | None") -> int:
        return sum(chunk.files for chunk in self.chunks(predicate))

    def chunks(self, predicate: "Predicate | None" = None) -> list[ChunkInfo]:
        """The chunks with a row that may match the predicate."""
        chunks = self.root.chunks
        if predicate is None:
            return list(chunks)
        return list(compress(chunks, self.root.zone_batch.may_match(predicate.root)))

    def _numbered(self, chunks: Sequence[ChunkInfo], after: int) -> list[tuple[int, ChunkInfo]]:
        """The chunks with a file after number `after`, each with the number of files before it."""
        wanted = {chunk.place for chunk in chunks}
        before = accumulate((chunk.files for chunk in self.root.chunks), initial=0)
        numbered = zip(before, self.root.chunks, strict=False)
        return [(number, chunk) for number, chunk in numbered if number + chunk.files > after and chunk.place in wanted]

    def read(self, chunks: Collection[ChunkInfo]) -> Iterator[bytes]:
        contents = self.store.chunks(self.table, {chunk.place: chunk.size for chunk in chunks})
        for info, content in zip(chunks, contents, strict=True):
            if zlib.crc32(content) != info.checksum:
                raise UnusableIndexError("a chunk is damaged")
            yield content

    def _keys(self, chunks: Collection[ChunkInfo]) -> Iterator[FileKey]:
        from core.index.layout.chunk import Chunk

        for content in self.read(chunks):
            files = Chunk(content).files
            yield from file_keys(files.paths, files.deletion_vectors)
