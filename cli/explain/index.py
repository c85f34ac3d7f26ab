"""Measures what a query reads of an index and how long each step takes, with the code that answers queries.

Starts with empty caches, like a function after a cold start.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cli.common.index_use import why_unusable
from core.delta.index import UnusableIndexError
from core.delta.model import FileKey
from core.delta.snapshot import Snapshot
from core.index.layout.buckets import Entry
from core.index.layout.root import ChunkInfo
from core.index.read.indexes import StoredIndexes
from core.index.read.store import IndexStore
from core.index.read.table_index import StoredIndex
from core.pruning.predicate import Predicate
from core.sharing.call import Observed
from core.sharing.selection import Selection
from core.storage.session import StorageSession


class Stage(StrEnum):
    """The steps of a query, in their order."""

    ROOT = "head and root"
    LOG = "newer commits"
    """Lists the log and replays the commits after the index."""
    ZONES = "zones"
    CHUNKS = "chunks fetched"
    FILES = "files pruned"


@dataclass(frozen=True, slots=True)
class IndexUse:
    version: int
    chunks: int
    chunks_read: int
    files: int
    """In all chunks, without the files of newer commits."""
    files_read: int
    requests: int
    items: int
    content_bytes: int
    seconds: Mapping[Stage, float]


@dataclass(frozen=True, slots=True)
class UnusedIndex:
    """An index that the query does not use."""

    version: int | None
    """None if the index cannot be opened."""
    reason: str


@dataclass(slots=True)
class Stopwatch:
    """Measures the time of each stage, without the stages nested in it. Records the chunks that were read."""

    now: Callable[[], float] = time.perf_counter
    seconds: dict[Stage, float] = field(default_factory=lambda: dict.fromkeys(Stage, 0.0))
    chunks_read: list[ChunkInfo] = field(default_factory=list)
    _stage: Stage | None = None
    _since: float = 0.0

    @contextlib.contextmanager
    def on(self, stage: Stage) -> Iterator[None]:
        outer = self._switch(stage)
        try:
            yield
        finally:
            self._switch(outer)

    def _switch(self, stage: Stage | None) -> Stage | None:
        now, before = self.now(), self._stage
        if before is not None:
            self.seconds[before] += now - self._since
        self._stage, self._since = stage, now
        return before


@dataclass(frozen=True)
class TimedIndex(StoredIndex):
    watch: Stopwatch
    problems: list[str]

    def entries(self, keys: Collection[FileKey]) -> list[Entry]:
        with _recorded(self.problems):
            return super().entries(keys)

    def chunks(self, predicate: Predicate | None = None) -> list[ChunkInfo]:
        with self.watch.on(Stage.ZONES):
            return super().chunks(predicate)

    def read(self, chunks: Collection[ChunkInfo]) -> Iterator[bytes]:
        contents = super().read(chunks)
        for chunk in chunks:
            with self.watch.on(Stage.CHUNKS), _recorded(self.problems):
                content = next(contents)
            self.watch.chunks_read.append(chunk)
            yield content


class TimedIndexes:
    """Replaces the `StoredIndexes` of the server, and times them."""

    def __init__(self, store: IndexStore, watch: Stopwatch) -> None:
        self._store = store
        self._indexes = StoredIndexes(store)
        self._watch = watch
        self._stored: StoredIndex | None = None  # keeps the root for the next call
        self._found: TimedIndex | None = None
        self._problems: list[str] = []
        self._failed = False

    def latest(self, location_uri: str) -> TimedIndex | None:
        with self._watch.on(Stage.ROOT), _recorded(self._problems):
            found = self._stored = self._indexes.latest(location_uri)
        if found is None:
            return None
        self._found = TimedIndex(found.store, found.table, found.build, found.root, self._watch, self._problems)
        return self._found

    def of_build(self, location_uri: str, build: str) -> StoredIndex:
        return self._indexes.of_build(location_uri, build)

    def distrust(self, location_uri: str) -> None:
        self._indexes.distrust(location_uri)
        self._failed = True

    def unused(self, storage: StorageSession, version: int) -> UnusedIndex | None:
        """Returns the existing index and why a query of the version, for which `use` returned None, does not use it."""
        index, problem = self._found, next(iter(self._problems), None)
        if index is None:
            return UnusedIndex(None, problem) if problem else None
        reason = problem or why_unusable(index, storage, version) or "the log changed while it was read"
        return UnusedIndex(index.version, reason)

    def use(self, snapshot: Snapshot, selection: Selection) -> IndexUse | None:
        """Runs the query without writing its lines. Returns None if the query does not use the index."""
        index, traffic = self._found, self._store.traffic
        if index is None or index.build not in snapshot.checkpoint_id:
            return None
        with self._watch.on(Stage.FILES):
            deque(selection.kept(snapshot.batches_after(selection.predicate, 0), Observed()), maxlen=0)
        if self._failed:
            return None
        read = self._watch.chunks_read
        return IndexUse(
            version=index.version,
            chunks=len(index.root.chunks),
            chunks_read=len(read),
            files=index.totals.num_files,
            files_read=sum(chunk.files for chunk in read),
            requests=traffic.requests,
            items=traffic.items,
            content_bytes=traffic.content_bytes,
            seconds=dict(self._watch.seconds),
        )


@contextlib.contextmanager
def _recorded(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except UnusableIndexError as problem:
        problems.append(str(problem))
        raise
