"""One build of an index, full or incremental: from its first chunk to moving the head.

Readers see no change until the head moves. If a build is killed, a later one deletes its items. If two builds run at
the same time, the first to finish wins.
"""

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from core.delta.index import UnusableIndexError
from core.delta.model import Metadata, Protocol, Totals
from core.index.layout.head import Head
from core.index.layout.items import Place, bucket_key, chunk_key
from core.index.layout.root import ChunkInfo, Root
from core.index.write.cleanup import REPLACED_SECONDS, UNFINISHED_SECONDS, Cleanup
from core.index.write.packing import PackedChunk
from core.index.write.writer import IndexWriter, WriteFailedError
from core.pruning.schema import Field
from core.pruning.zone_maps import ZoneMap
from core.storage.objects import ObjectInfo

logger = logging.getLogger(__name__)
PARALLEL_WRITES = 4
# Each of the parallel writes sends about this many bytes of chunks.
GROUP_BYTES = 1024 * 1024

T = TypeVar("T")


class LostRaceError(Exception):
    """Another build of the same index finished first."""

    def __init__(self, winner: Head) -> None:
        super().__init__("another build of the index finished first")
        self.winner = winner


@dataclass(frozen=True, slots=True)
class IndexedVersion:
    """The table version that a build indexes."""

    version: int
    tip: ObjectInfo
    protocol: Protocol
    metadata: Metadata
    totals: Totals


@dataclass(frozen=True, slots=True)
class WrittenChunk:
    info: ChunkInfo
    zones: Sequence[ZoneMap]


class Build:
    def __init__(
        self,
        writer: IndexWriter,
        table: str,
        *,
        name: str | None = None,
        listed: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        """The head never names a build that is not `listed`, such as one of an old version for a single query."""
        self.writer = writer
        self.table = table
        self.name = name or uuid.uuid4().hex[:16]
        self._listed = listed
        self._now = now
        self._began_at = now()

    def begin(self) -> "Build":
        self.writer.mark(self.table, self.name, self._now() + UNFINISHED_SECONDS)
        return self

    def write_chunks(
        self, packed: Iterable[PackedChunk], numbers: Iterable[int], *, in_tail: bool = False
    ) -> Iterator[tuple[WrittenChunk, PackedChunk]]:
        """Yields each chunk after DynamoDB has stored it. Packs the next chunks in the meantime."""
        with ThreadPoolExecutor(PARALLEL_WRITES) as pool:
            waiting: deque[tuple[Future[None], list[tuple[WrittenChunk, PackedChunk]]]] = deque()
            for group in _grouped(zip(numbers, packed, strict=False)):
                items, written = [], []
                for number, chunk in group:
                    place = Place(self.name, number)
                    info = ChunkInfo(place, chunk.files, len(chunk.content), chunk.checksum, in_tail)
                    items.append((chunk_key(self.table, place), chunk.content))
                    written.append((WrittenChunk(info, chunk.zones), chunk))
                waiting.append((pool.submit(self.writer.put, items), written))
                if len(waiting) == PARALLEL_WRITES:
                    yield from _oldest_result(waiting)
            while waiting:
                yield from _oldest_result(waiting)

    def write_buckets(self, buckets: Iterable[tuple[int, bytes]]) -> None:
        self.writer.put((bucket_key(self.table, Place(self.name, number)), content) for number, content in buckets)

    def finish(
        self,
        indexed: IndexedVersion,
        fields: Sequence[Field],
        chunks: Sequence[WrittenChunk],
        buckets: Sequence[Place],
        expected: str | None,
    ) -> Head:
        """Writes the root, moves the head if the build is listed, and deletes unused items.

        Raises `LostRaceError` if `expected` is no longer the live build. The build can then still be read by its name,
        until `REPLACED_SECONDS` have passed.
        """
        root = Root(
            indexed.version,
            indexed.tip,
            indexed.protocol,
            indexed.metadata,
            indexed.totals,
            [chunk.info for chunk in chunks],
            {field: [chunk.zones[position] for chunk in chunks] for position, field in enumerate(fields)},
            buckets,
        )
        content = root.pack()
        self.writer.put_root(self.table, self.name, content)
        head = Head(
            self.name,
            indexed.version,
            indexed.totals.num_files,
            len(chunks),
            len(content) + sum(chunk.info.size for chunk in chunks),
            self._now(),
            round(self._now() - self._began_at, 3),
        )
        if self._listed:
            winner = self.writer.move_head(self.table, head, expected)
            if winner is not None:
                self._keep(self.name)
                raise LostRaceError(winner)
            if expected is not None:
                self._keep(expected)
        else:
            self._keep(self.name)
        try:
            Cleanup(self.writer, self.table, self._now).delete_unused(self.name, root)
        except (WriteFailedError, UnusableIndexError, ClientError, BotoCoreError) as problem:
            logger.warning("Items of older builds were not deleted; the next build tries again: %s", problem)
        return head

    def _keep(self, build: str) -> None:
        """Keeps a finished build that is not live for its readers."""
        self.writer.mark(self.table, build, self._now() + REPLACED_SECONDS)


def _grouped(chunks: Iterable[tuple[int, PackedChunk]]) -> Iterator[list[tuple[int, PackedChunk]]]:
    group: list[tuple[int, PackedChunk]] = []
    size = 0
    for number, chunk in chunks:
        group.append((number, chunk))
        size += len(chunk.content)
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _oldest_result(waiting: deque[tuple[Future[None], T]]) -> T:
    write, result = waiting.popleft()
    write.result()
    return result
