"""The cache of tables that a process keeps between requests, and its limits.

An entry is served only to the credentials that read it. Memory and disk are limited in bytes; the least recently used
tables are evicted first.
"""

import shutil
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace

from core.delta.index import TableIndex
from core.delta.log.replay import CheckpointFiles
from core.delta.log.segment import Log
from core.delta.snapshot import LoadedSnapshot, SnapshotSummary
from core.storage.session import StorageSession

MAX_TABLES = 64
# Approximate memory of one commit in a listing.
COMMIT_BYTES = 500


@dataclass(frozen=True, slots=True)
class CacheLimits:
    memory_bytes: int = 128 * 1024 * 1024
    disk_bytes: int = 1024 * 1024 * 1024

    @classmethod
    def of(cls, memory_mb: float) -> "CacheLimits":
        """Uses half of the free disk. The other half is for files that are being read."""
        disk_bytes = shutil.disk_usage(tempfile.gettempdir()).free // 2
        return cls(int(memory_mb * 1024 * 1024), disk_bytes)

    def without(self, memory_bytes: int) -> "CacheLimits":
        return replace(self, memory_bytes=self.memory_bytes - memory_bytes)


@dataclass(slots=True)
class CachedTable:
    """The cached state of one table. Use it only while holding `lock`, so that concurrent requests share one read."""

    access_key_id: str
    """Identifies the credentials that read the table."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    log: Log | None = None
    listed_at: float = 0
    index: TableIndex | None = None
    """The table's index that was read last, whether or not a snapshot uses it."""
    latest: LoadedSnapshot | None = None
    """The latest version, read from the log."""
    indexed: LoadedSnapshot | None = None
    """The latest version, read from the index."""
    older: LoadedSnapshot | None = None
    """The older version that was requested last, because a query may take several requests."""
    summaries: dict[int, tuple[str, SnapshotSummary]] = field(default_factory=dict)
    """By version, each with its log tip. The most recently used is last."""

    @property
    def listed_bytes(self) -> int:
        # Eviction reads this without the lock while requests continue, so copy first.
        log, summaries = self.log, list(self.summaries.values())
        metadata = sum(summary.metadata.memory_bytes for _, summary in summaries)
        return metadata + (COMMIT_BYTES * len(log.commits) if log else 0)

    def clear(self) -> None:
        self.log = self.index = self.latest = self.indexed = self.older = None
        self.summaries = {}


class TableCache:
    def __init__(self, limits: CacheLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, CachedTable] = OrderedDict()

    def table(self, storage: StorageSession) -> CachedTable:
        """Returns the table's entry, or a new one if other credentials read the existing one."""
        key, access_key_id = storage.location.uri, storage.credentials.access_key_id
        with self._lock:
            cached = self._tables.get(key)
            if cached is None or cached.access_key_id != access_key_id:
                cached = self._tables[key] = CachedTable(access_key_id)
            self._tables.move_to_end(key)
            if len(self._tables) > MAX_TABLES:
                self._tables.popitem(last=False)
            return cached

    def evict(self) -> None:
        """Drops the least recently used tables until the rest fit the limits."""
        with self._lock:
            left = _Left(self._limits.memory_bytes, self._limits.disk_bytes)
            for cached in reversed(self._tables.values()):
                if not left.take(cached.listed_bytes):
                    cached.clear()
                    continue
                if not left.take(0, cached.index):
                    cached.index = None
                for name in ("latest", "indexed", "older"):
                    loaded: LoadedSnapshot | None = getattr(cached, name)
                    if loaded and not left.take(loaded.state.memory_bytes, loaded.state.checkpoint):
                        setattr(cached, name, None)


@dataclass(slots=True)
class _Left:
    """The memory and the disk that are left while entries are counted. A shared checkpoint counts once."""

    memory_bytes: int
    disk_bytes: int
    counted: set[int] = field(default_factory=set)
    """The ids of the checkpoints that were counted."""

    def take(self, memory_bytes: int, checkpoint: CheckpointFiles | None = None) -> bool:
        """Counts an entry and its checkpoint, or returns False if they do not fit."""
        disk_bytes = 0
        if checkpoint and id(checkpoint) not in self.counted:
            memory_bytes, disk_bytes = memory_bytes + checkpoint.memory_bytes, checkpoint.disk_bytes
        if memory_bytes > self.memory_bytes or disk_bytes > self.disk_bytes:
            return False
        self.memory_bytes -= memory_bytes
        self.disk_bytes -= disk_bytes
        self.counted.add(id(checkpoint))
        return True
