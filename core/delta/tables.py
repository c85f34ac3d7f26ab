"""The Delta tables that this process serves, with what was last read of each.

A warm request costs one listing from the last known commit on, or none within the staleness that a table
accepts. What is cached belongs to the credentials that read it, and ends with them.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from core.delta import history
from core.delta.log import Log, LogSegment, later_log, latest_log, whole_log
from core.delta.snapshot import Snapshot
from core.errors import TableFilesError
from core.storage.session import StorageSession


@dataclass(slots=True)
class _Known:
    """What is known of a table. The lock makes concurrent requests for it share one read."""

    reader: str
    """The id of the credentials that read it."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    log: Log | None = None
    looked_at: float = 0
    latest: Snapshot | None = None
    travelled: tuple[LogSegment, Snapshot] | None = None
    """The last snapshot of an older version: a query of one comes in several requests."""


class DeltaTables:
    def __init__(self, *, now: Callable[[], float] = time.time, max_tables: int = 16) -> None:
        self._now = now
        self._max_tables = max_tables
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, _Known] = OrderedDict()

    def latest_version(self, storage: StorageSession, *, staleness_seconds: float = 0) -> int:
        known = self._known(storage)
        with known.lock:
            return self._look(known, storage, staleness_seconds).version

    def snapshot(
        self,
        storage: StorageSession,
        *,
        version: int | None = None,
        timestamp_ms: int | None = None,
        staleness_seconds: float = 0,
    ) -> Snapshot:
        """The latest snapshot, or the one of a version or of a moment."""
        known = self._known(storage)
        with known.lock:
            if timestamp_ms is not None:
                log = _whole_log(storage)
                return _travel(known, storage, log, history.version_at_or_before(log, timestamp_ms))
            if version is not None:
                log = _whole_log(storage)
                history.check_version(log, version)
                return _travel(known, storage, log, version)
            log = self._look(known, storage, staleness_seconds)
            try:
                known.latest = _advance(known.latest, storage, log)
            except TableFilesError:  # what was listed is gone, if the log was cleaned up since: look anew, once
                known.log = known.latest = None
                known.latest = _advance(None, storage, self._look(known, storage, 0))
            return known.latest

    def version_at_or_after(self, storage: StorageSession, timestamp_ms: int) -> int:
        return history.version_at_or_after(_whole_log(storage), timestamp_ms)

    def _known(self, storage: StorageSession) -> _Known:
        key, reader = storage.location.uri, storage.credentials.access_key_id
        with self._lock:
            known = self._tables.get(key)
            if known is None or known.reader != reader:
                known = self._tables[key] = _Known(reader)
            self._tables.move_to_end(key)
            if len(self._tables) > self._max_tables:
                self._tables.popitem(last=False)
            return known

    def _look(self, known: _Known, storage: StorageSession, staleness_seconds: float) -> Log:
        now = self._now()
        if known.log and now - known.looked_at < staleness_seconds:
            return known.log
        objects, location = storage.objects(), storage.location
        log = later_log(known.log, objects, location) if known.log else None
        if log is None:
            known.log, known.latest = None, None
            log = latest_log(objects, location)
        log.segment(log.version)  # a version is named only if it can be read
        known.log, known.looked_at = log, now
        return log


def _whole_log(storage: StorageSession) -> Log:
    return whole_log(storage.objects(), storage.location)


def _advance(latest: Snapshot | None, storage: StorageSession, log: Log) -> Snapshot:
    if latest and latest.version == log.version:
        return latest
    if latest and all(version in log.commits for version in range(latest.version + 1, log.version + 1)):
        return _read(storage, log.segment(log.version, base_version=latest.version), latest)
    return _read(storage, log.segment(log.version))


def _travel(known: _Known, storage: StorageSession, log: Log, version: int) -> Snapshot:
    segment = log.segment(version)
    latest = known.latest
    if latest and known.log and latest.version == version and log.file(version) == known.log.file(version):
        return replace(latest, timestamp=segment.timestamp)
    if known.travelled is None or known.travelled[0] != segment:
        known.travelled = (segment, _read(storage, segment))
    return known.travelled[1]


def _read(storage: StorageSession, segment: LogSegment, base: Snapshot | None = None) -> Snapshot:
    # It brings deltalake: 110 ms that the version route need not pay.
    from core.delta.reader import read_snapshot

    return read_snapshot(storage, segment, base)
