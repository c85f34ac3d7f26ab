"""A table's log for one request: never older than the request, and listed no more often than needed.

A cached table needs one listing from the last known version on, or none within the staleness that the table accepts.
"""

from collections.abc import Callable

from core.delta.cache.tables import CachedTable
from core.delta.history import History
from core.delta.index import Indexes, TableIndex
from core.delta.log.listing import LOOK_BACK, later_log, latest_log, list_log, whole_log
from core.delta.log.segment import Log, commit_file
from core.storage.location import S3Location
from core.storage.objects import ObjectReader
from core.storage.session import StorageSession


class CachedLog:
    """Use it only while the cached table's lock is held."""

    def __init__(self, cached: CachedTable, storage: StorageSession, now: Callable[[], float]) -> None:
        self._cached = cached
        self._storage = storage
        self._now = now

    @property
    def request_start(self) -> float:
        """Seconds since 1970."""
        return min(self._now(), self._storage.opened_at)

    def since(self, time: float, *, index: Indexes | None = None) -> Log:
        """Returns the log as listed after `time`. Concurrent requests and the steps of a request share it."""
        cached = self._cached
        listed = cached.log  # read once: eviction may clear it at any time
        known = [loaded.snapshot.version for loaded in (cached.latest, cached.indexed) if loaded]
        if listed and cached.listed_at > time:
            return listed
        now = self._now()
        objects, location = self._storage.objects(), self._storage.location
        log = later_log(listed, objects, location) if listed else None
        readable_from = -1
        if log is None:
            cached.clear()
            indexed = cached.index = index.latest(location.uri) if index else None
            if indexed:
                log, readable_from = _log_from_index(indexed, objects, location), indexed.version
            log = log or latest_log(objects, location)
        elif known:
            readable_from = max(known)
        if log is not listed:
            log.check_complete(readable_from)
        cached.log, cached.listed_at = log, now
        return log

    def back_to(self, version: int) -> Log:
        """Returns a fresh log that goes back to a version: the whole log if the cached listing does not."""
        log = self.since(self.request_start)
        return log if log.reaches(version) else self.whole()

    def newest(self) -> Log:
        """Lists the log again from the last checkpoint on."""
        log = self._cached.log = latest_log(self._storage.objects(), self._storage.location)
        return log

    def whole(self) -> Log:
        """Lists the whole log again."""
        log = self._cached.log = whole_log(self._storage.objects(), self._storage.location)
        return log

    def history(self) -> History:
        from core.delta.log.commits import in_commit_timestamp

        log, get = self.back_to(-1), self._storage.objects().get

        def timestamp(version: int) -> int | None:
            commit = log.commits.get(version)
            return in_commit_timestamp(get(commit.key), commit_file(version)) if commit else None

        return History(log, timestamp)


def _log_from_index(indexed: TableIndex, objects: ObjectReader, location: S3Location) -> Log | None:
    """Lists the log from the index's version on. Returns None if the index was built from another log."""
    log = list_log(objects, location, from_version=max(indexed.version - LOOK_BACK, 0))
    return log if log.file(indexed.version) == indexed.tip else None
