"""The Delta tables that this process serves: their versions, snapshots and commits, cached between requests."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from core.delta.cache.failover import IndexFailover
from core.delta.cache.log import CachedLog
from core.delta.cache.snapshots import SnapshotLoader, index_build
from core.delta.cache.tables import CachedTable, CacheLimits, TableCache
from core.delta.history import check_commits
from core.delta.index import Indexes, UnusableIndexError, is_index
from core.delta.model import Commit
from core.delta.snapshot import Snapshot, SnapshotSummary
from core.delta.source import ALL_FILES, Demand, Way
from core.errors import ChangedLogError, LongLogError, TableFilesError
from core.storage.session import StorageSession

T = TypeVar("T")


class DeltaTables:
    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        limits: CacheLimits | None = None,
        index: Indexes | None = None,
        way: Way | None = None,
    ) -> None:
        """`way` makes all snapshots of latest versions come from the log, or from an index if it can be used."""
        self._now = now
        self._index = index
        self._way = way
        self._cache = TableCache(limits or CacheLimits())

    def latest_version(self, storage: StorageSession, *, staleness_seconds: float = 0) -> int:
        table = self._open(storage)
        since = table.log.request_start - staleness_seconds
        with table.lock:
            return table.log.since(since).version

    def snapshot(
        self,
        storage: StorageSession,
        *,
        version: int | None = None,
        timestamp_ms: int | None = None,
        since_version: int = 0,
        staleness_seconds: float = 0,
        max_log_bytes: float | None = None,
        demand: Demand = ALL_FILES,
    ) -> Snapshot:
        """Returns the latest snapshot, or that of a version or of a timestamp.

        Raises `BeforeHistoryError` if the timestamp is before the commit of `since_version`, and `LongLogError` if more
        than `max_log_bytes` of the log would have to be read. 0 also refuses snapshots of the log that are in memory.
        """
        table = self._open(storage, max_log_bytes)
        since = table.log.request_start - staleness_seconds

        def read() -> Snapshot:
            if timestamp_ms is not None:
                loaded = table.snapshots.at(table.log.history().at_or_before(timestamp_ms, since_version), demand)
            elif version is not None:
                loaded = table.snapshots.at(version, demand)
            else:
                loaded = table.snapshots.latest(table.log.since(since, index=self._index), demand)
            if max_log_bytes == 0 and index_build(loaded) is None:
                raise LongLogError(loaded.snapshot.version, loaded.snapshot.tip)
            return table.failover.protected(loaded)

        return self._read(table, read)

    def summary(self, storage: StorageSession, version: int) -> SnapshotSummary:
        """Returns a version without its files. Several are cached, because they are small."""
        table = self._open(storage)
        return self._read(table, lambda: table.snapshots.summary_at(version))

    def tip(self, storage: StorageSession, version: int) -> str:
        """Returns the digest of the log tip at a version, for `check_tip`."""
        table = self._open(storage)
        with table.lock:
            return table.log.back_to(version).tip(version)

    def check_tip(self, storage: StorageSession, version: int, tip: str) -> None:
        """Raises if another log has replaced the one in which the version had this tip."""
        table = self._open(storage)
        with table.lock:
            table.log.back_to(version).check_tip(version, tip)

    def snapshot_for_paging(self, storage: StorageSession, snapshot: Snapshot, demand: Demand = ALL_FILES) -> Snapshot:
        """Returns the same version in an order that any process can repeat for a day.

        From the log, that is the order of its newest checkpoint: others may be cleaned up before the next page. From an
        index, the first files are read to see that it works: after the first page, the log cannot replace it.
        """
        table = self._open(storage)

        def read() -> Snapshot:
            if is_index(snapshot.checkpoint_id):
                with contextlib.suppress(ChangedLogError):
                    loaded = table.snapshots.from_checkpoint(snapshot.checkpoint_id, snapshot.version)
                    if table.failover.is_readable(loaded, demand):
                        return table.failover.in_order(loaded)
            return table.snapshots.from_newest_checkpoint(snapshot)

        return self._read(table, read)

    def snapshot_from_checkpoint(
        self, storage: StorageSession, checkpoint_id: str, version: int, *, must_keep_order: bool = True
    ) -> Snapshot:
        """Returns a version with its files in the same order as an earlier read from `checkpoint_id`.

        If that is an index and it fails while it is read, `ChangedLogError` is raised, or the remaining files come from
        the log if the order is not a must.
        """
        table = self._open(storage)
        guarded = table.failover.in_order if must_keep_order else table.failover.protected
        return self._read(table, lambda: guarded(table.snapshots.from_checkpoint(checkpoint_id, version)))

    def version_at_or_before(self, storage: StorageSession, timestamp_ms: int, since: int = 0) -> int:
        """Returns the version that was current at a timestamp. Raises `BeforeHistoryError` if it is before `since`."""
        table = self._open(storage)
        return self._read(table, lambda: table.log.history().at_or_before(timestamp_ms, since))

    def version_at_or_after(self, storage: StorageSession, timestamp_ms: int, since: int = 0) -> int:
        """Returns the first version at or after a timestamp. Raises `BeforeHistoryError` if it is before `since`."""
        table = self._open(storage)
        return self._read(table, lambda: table.log.history().at_or_after(timestamp_ms, since))

    def commits(self, storage: StorageSession, start: int, end: int) -> Iterator[Commit]:
        """Yields the commits of a range in order, read lazily. Raises immediately if one is missing."""
        from core.delta.log.commits import read_commits

        table = self._open(storage)
        with table.lock:
            log = table.log.back_to(start)
        check_commits(log, start)
        return _commits(table, start, read_commits(storage.objects().get, log, start, end))

    def _read(self, table: "_OpenTable", read: Callable[[], T]) -> T:
        """Runs `read` under the table's lock, then evicts.

        Retries once without the index if that failed, and once with a fresh listing if the log was cleaned up between
        listing and reading.
        """
        with table.lock:
            try:
                result = read()
            except UnusableIndexError as problem:
                table.failover.distrust(problem)
                result = read()
            except TableFilesError:
                if table.cached.log is None:
                    raise
                table.cached.clear()
                result = read()
        self._cache.evict()
        return result

    def _open(self, storage: StorageSession, max_log_bytes: float | None = None) -> "_OpenTable":
        cached = self._cache.table(storage)
        log = CachedLog(cached, storage, self._now)
        snapshots = SnapshotLoader(cached, storage, log, self._index, max_log_bytes, self._way)
        failover = IndexFailover(cached, storage.location.uri, log, snapshots, self._index)
        return _OpenTable(cached, log, snapshots, failover)


class _OpenTable(NamedTuple):
    """One table, for one request."""

    cached: CachedTable
    log: CachedLog
    snapshots: SnapshotLoader
    failover: IndexFailover

    @property
    def lock(self) -> threading.Lock:
        return self.cached.lock


def _commits(table: _OpenTable, start: int, commits: Iterator[Commit]) -> Iterator[Commit]:
    try:
        yield from commits
    except TableFilesError:
        with table.lock:
            table.cached.clear()
            log = table.log.back_to(start)
        check_commits(log, start)  # names the cause if the log was cleaned up since it was listed
        raise
