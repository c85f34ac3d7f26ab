"""A build of an index on its way: from its first chunk to the head that makes it the live one.

Nothing that a reader sees changes before that: if a build is killed, what it wrote is removed by a later one. Of two
builds at once, the one that is done first wins.
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

from core.delta.log.replay import Totals
from core.delta.snapshot import Metadata, Protocol
from core.index.build import PackedChunk
from core.index.items import ItemKey, Place, bucket_key, chunk_key, root_pk, shard_pks
from core.index.root import ChunkInfo, Root
from core.index.store import Head
from core.index.writer import IndexWriter, WriteFailedError
from core.pruning.schema import Field
from core.pruning.zones import Zone
from core.storage.objects import ObjectInfo

logger = logging.getLogger(__name__)
# How long what is live no more stays for those who are still reading it, and after how long a silent build is dead.
GRACE_SECONDS = 3600
PARALLEL_WRITES = 4
# Of chunks, for each of the writes that go on at the same time.
BYTES_AT_ONCE = 1024 * 1024

T = TypeVar("T")


class LostRaceError(Exception):
    """Another build of the same index was done first."""

    def __init__(self, winner: Head) -> None:
        super().__init__("another build of the index was done first")
        self.winner = winner


@dataclass(frozen=True, slots=True)
class Indexed:
    """The version that is indexed."""

    version: int
    tip: ObjectInfo
    protocol: Protocol
    metadata: Metadata
    totals: Totals


@dataclass(frozen=True, slots=True)
class WrittenChunk:
    info: ChunkInfo
    zones: Sequence[Zone]


class Build:
    def __init__(
        self,
        writer: IndexWriter,
        table: str,
        *,
        name: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.writer = writer
        self.table = table
        self.name = name or uuid.uuid4().hex[:16]
        self._now = now
        self._began_at = now()

    def begin(self) -> "Build":
        self.writer.begin(self.table, self.name, self._now())
        return self

    def write_chunks(
        self, packed: Iterable[PackedChunk], numbers: Iterable[int], *, in_tail: bool = False
    ) -> Iterator[tuple[WrittenChunk, PackedChunk]]:
        """The next ones are packed while DynamoDB takes the last."""
        with ThreadPoolExecutor(PARALLEL_WRITES) as pool:
            waiting: deque[tuple[Future[None], list[tuple[WrittenChunk, PackedChunk]]]] = deque()
            for some in _gathered(zip(numbers, packed, strict=False)):
                items, told = [], []
                for number, chunk in some:
                    place = Place(self.name, number)
                    info = ChunkInfo(place, chunk.files, len(chunk.content), chunk.checksum, in_tail)
                    items.append((chunk_key(self.table, place), chunk.content))
                    told.append((WrittenChunk(info, chunk.zones), chunk))
                waiting.append((pool.submit(self.writer.put, items), told))
                if len(waiting) == PARALLEL_WRITES:
                    yield from _first_of(waiting)
            while waiting:
                yield from _first_of(waiting)

    def write_buckets(self, buckets: Iterable[tuple[int, bytes]]) -> None:
        self.writer.put((bucket_key(self.table, Place(self.name, number)), content) for number, content in buckets)

    def finish(
        self,
        indexed: Indexed,
        fields: Sequence[Field],
        chunks: Sequence[WrittenChunk],
        buckets: Sequence[Place],
        expected: str | None,
    ) -> Head:
        """Writes the root and moves the head, if that is still the one of the build `expected`."""
        root = Root(
            indexed.version,
            indexed.tip,
            indexed.protocol,
            indexed.metadata,
            indexed.totals,
            [chunk.info for chunk in chunks],
            {field: [chunk.zones[place] for chunk in chunks] for place, field in enumerate(fields)},
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
        winner = self.writer.move_head(self.table, head, expected)
        if winner is not None:
            raise LostRaceError(winner)
        if expected is not None:  # from now on its time runs out
            self.writer.begin(self.table, expected, self._now())
        try:
            self._clean_up(root)
        except (WriteFailedError, ClientError, BotoCoreError) as problem:
            logger.warning("What older builds wrote is left to the next one to remove: %s", problem)
        return head

    def _clean_up(self, live: Root) -> None:
        """Removes what no root names any more that a reader may still have."""
        roots, dead = [live], []
        for begun in self.writer.keys(self.table):
            build = begun.sk.removeprefix("B")
            if begun.sk == build or build == self.name:
                continue
            if self._now() - self.writer.seen_at(begun) >= GRACE_SECONDS:
                dead.append((begun, build))
            elif content := self.writer.root(self.table, build):
                roots.append(Root.unpack(content))
        named = {chunk_key(self.table, chunk.place) for root in roots for chunk in root.chunks}
        named |= {bucket_key(self.table, place) for root in roots for place in root.buckets}
        for begun, build in dead:
            self._remove(begun, build, named)

    def _remove(self, begun: ItemKey, build: str, named: set[ItemKey]) -> None:
        kept = False
        for pk in shard_pks(self.table, build):
            keys = list(self.writer.keys(pk))
            unnamed = [key for key in keys if key not in named]
            kept = kept or len(unnamed) < len(keys)
            self.writer.delete(unnamed)
        self.writer.delete(self.writer.keys(root_pk(self.table, build)))
        if not kept:
            self.writer.delete([begun])


def _gathered(chunks: Iterable[tuple[int, PackedChunk]]) -> Iterator[list[tuple[int, PackedChunk]]]:
    some: list[tuple[int, PackedChunk]] = []
    size = 0
    for number, chunk in chunks:
        some.append((number, chunk))
        size += len(chunk.content)
        if size >= BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _first_of(waiting: deque[tuple[Future[None], T]]) -> T:
    written, told = waiting.popleft()
    written.result()
    return told
