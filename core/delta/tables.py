"""The Delta tables that this process serves, with what was last read of each.

A warm request costs one listing from the last known commit on, or none within the staleness that a table accepts, and
the commits made since. What is kept is bounded in bytes, in memory and on disk; it belongs to the credentials that read
it, and ends with them. A large table may have an index, which then stands in the place of the log's checkpoint.
"""

import logging
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from core.delta.history import History, check_commits, check_version
from core.delta.index import Index, Indexed, UnusableIndexError
from core.delta.log.actions import keys_of
from core.delta.log.files import (
    LOOK_BACK,
    Log,
    LogSegment,
    later_log,
    latest_log,
    list_log,
    origin_version,
    whole_log,
)
from core.delta.snapshot import ChangedLogError, Commit, FileBatch, Head, Snapshot
from core.errors import TableFilesError
from core.storage.session import StorageSession

if TYPE_CHECKING:
    from core.delta.log.replay import CheckpointFiles, Replayed
    from core.pruning.predicate import Predicate
    from core.storage.location import S3Location
    from core.storage.objects import ObjectReader

T = TypeVar("T")
logger = logging.getLogger(__name__)

MAX_TABLES = 64
# Of each table: the pages of a range begin with the same two or three, beside the one that they go on from.
MAX_HEADS = 8
# What is kept of a commit that a listing shows.
LISTED_BYTES = 300
# A newer checkpoint is read instead of going on commit by commit, if it is so many commits ahead, or if the commits
# since the last one have said so much.
MANY_COMMITS = 100
MANY_FILES = 10_000
# What is laid over an index, at most; beyond that the log is read.
MAX_COMMITS_OVER_INDEX = 100
MAX_BYTES_OVER_INDEX = 16 * 1024 * 1024
# So many files are read from an index, even if the log was read before.
LARGE_TABLE = 50_000


@dataclass(frozen=True, slots=True)
class CacheLimits:
    memory_bytes: int = 128 * 1024 * 1024
    disk_bytes: int = 1024 * 1024 * 1024

    @classmethod
    def of(cls, memory_mb: float) -> "CacheLimits":
        """Of the free disk, half: the other half is for what is being read."""
        disk_bytes = shutil.disk_usage(tempfile.gettempdir()).free // 2
        return cls(int(memory_mb * 1024 * 1024), disk_bytes)


@dataclass(slots=True)
class _Known:
    """What is known of a table. The lock makes concurrent requests for it share one read."""

    reader: str
    """The id of the credentials that read it."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    log: Log | None = None
    looked_at: float = 0
    latest: "Replayed | None" = None
    travelled: "Replayed | None" = None
    """The last older version that was asked for: a query of one comes in several requests."""
    heads: dict[int, tuple[str, Head]] = field(default_factory=dict)
    """By version, each with the tip that it was read of; the last that was asked for at the end."""

    @property
    def listed_bytes(self) -> int:
        log, heads = self.log, list(self.heads.values())  # at once: requests go on meanwhile
        schemas = sum(len(head.metadata.schema_string) for _, head in heads)
        return schemas + (LISTED_BYTES * len(log.commits) if log else 0)

    def forget(self) -> None:
        self.log = self.latest = self.travelled = None
        self.heads = {}


class DeltaTables:
    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        limits: CacheLimits | None = None,
        index: Index | None = None,
    ) -> None:
        self._now = now
        self._limits = limits or CacheLimits()
        self._index = index
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, _Known] = OrderedDict()

    def latest_version(self, storage: StorageSession, *, staleness_seconds: float = 0) -> int:
        known = self._known(storage)
        since = self._arrival(storage) - staleness_seconds
        with known.lock:
            return self._look(known, storage, since).version

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
        since = self._arrival(storage) - staleness_seconds

        def read() -> Snapshot:
            if timestamp_ms is not None:
                at = self._history(known, storage).at_or_before(timestamp_ms)
                return self._guarded(known, storage, self._travel(known, storage, at))
            if version is not None:
                return self._guarded(known, storage, self._travel(known, storage, version))
            log = self._look(known, storage, since, index=self._index)
            latest = known.latest = self._advance(known, storage, log)
            return self._guarded(known, storage, latest)

        return self._twice(known, storage, read)

    def head(self, storage: StorageSession, version: int) -> Head:
        """A version without its files: so small that several are kept."""
        known = self._known(storage)

        def read() -> Head:
            log = self._log_back_to(known, storage, version)
            check_version(log, version)
            heads, tip = known.heads, log.tip(version)
            of_tip, head = heads.pop(version, ("", None))
            if head is None or of_tip != tip:
                head = self._travel(known, storage, version).snapshot.head
            heads[version] = tip, head
            if len(heads) > MAX_HEADS:
                del heads[next(iter(heads))]
            return head

        return self._twice(known, storage, read)

    def tip(self, storage: StorageSession, version: int) -> str:
        """By which a version's log can be recognised."""
        known = self._known(storage)
        with known.lock:
            return self._log_back_to(known, storage, version).tip(version)

    def check_tip(self, storage: StorageSession, version: int, tip: str) -> None:
        """Refuses a log that is another one than the one in which the version had this tip."""
        known = self._known(storage)
        with known.lock:
            self._log_back_to(known, storage, version).check_tip(version, tip)

    def snapshot_to_page(self, storage: StorageSession, snapshot: Snapshot) -> Snapshot:
        """The same version, read from its newest checkpoint: what it was read from may be cleaned up by now."""
        known, version = self._known(storage), snapshot.version

        def read() -> Snapshot:
            segment = self._log_back_to(known, storage, version).segment(version)
            if segment.origin == snapshot.origin:
                return snapshot
            replayed = _read(storage, segment)
            if known.latest and known.latest.segment.version == version:
                known.latest = replayed
            else:
                known.travelled = replayed
            return replayed.snapshot

        return self._twice(known, storage, read)

    def snapshot_from(self, storage: StorageSession, origin: str, version: int) -> Snapshot:
        """A version with its files in the order that they had when it was read from `origin`."""
        known = self._known(storage)

        def read() -> Snapshot:
            log = self._log_back_to(known, storage, origin_version(origin))
            for kept in (known.latest, known.travelled):
                if kept and _is_at(kept, log, version) and kept.segment.origin == origin:
                    return self._guarded(known, storage, kept)
            try:
                segment = log.segment_from(origin, version)
            except ChangedLogError:  # or a checkpoint of a version long past was made since, which no later look shows
                log = known.log = whole_log(storage.objects(), storage.location)
                segment = log.segment_from(origin, version)
            travelled = known.travelled = _read(storage, segment)
            return travelled.snapshot

        return self._twice(known, storage, read)

    def version_at_or_before(self, storage: StorageSession, timestamp_ms: int) -> int:
        known = self._known(storage)
        return self._twice(known, storage, lambda: self._history(known, storage).at_or_before(timestamp_ms))

    def version_at_or_after(self, storage: StorageSession, timestamp_ms: int) -> int:
        known = self._known(storage)
        return self._twice(known, storage, lambda: self._history(known, storage).at_or_after(timestamp_ms))

    def commits(self, storage: StorageSession, start: int, end: int) -> Iterator[Commit]:
        """The commits of a range that was asked for, in order, read as they are taken."""
        from core.delta.log.commits import read_commits

        known = self._known(storage)
        with known.lock:
            log = self._log_back_to(known, storage, start)
        check_commits(log, start)
        return self._still_there(known, storage, start, read_commits(storage.objects().get, log, start, end))

    def _still_there(
        self, known: _Known, storage: StorageSession, start: int, commits: Iterator[Commit]
    ) -> Iterator[Commit]:
        try:
            yield from commits
        except TableFilesError:
            with known.lock:
                known.forget()
                log = self._log_back_to(known, storage, start)
            check_commits(log, start)  # if the log was cleaned up since it was listed, that is what is told
            raise

    def _twice(self, known: _Known, storage: StorageSession, read: Callable[[], T]) -> T:
        """What was listed is gone, if the log was cleaned up since: then it is looked at anew, once."""
        with known.lock:
            try:
                found = read()
            except UnusableIndexError as problem:
                self._distrust(known, storage, problem)
                found = read()
            except TableFilesError:
                if known.log is None:
                    raise
                known.forget()
                found = read()
        self._make_room()
        return found

    def _known(self, storage: StorageSession) -> _Known:
        key, reader = storage.location.uri, storage.credentials.access_key_id
        with self._lock:
            known = self._tables.get(key)
            if known is None or known.reader != reader:
                known = self._tables[key] = _Known(reader)
            self._tables.move_to_end(key)
            if len(self._tables) > MAX_TABLES:
                self._tables.popitem(last=False)
            return known

    def _make_room(self) -> None:
        """Forgets the snapshots that were asked for longest ago, until the rest fits."""
        with self._lock:
            memory, disk = self._limits.memory_bytes, self._limits.disk_bytes
            for known in reversed(self._tables.values()):
                listed = known.listed_bytes
                if listed > memory:
                    known.forget()
                    continue
                memory -= listed
                for name in ("latest", "travelled"):
                    kept: Replayed | None = getattr(known, name)
                    if kept is None:
                        continue
                    if kept.memory_bytes > memory or kept.disk_bytes > disk:
                        setattr(known, name, None)
                    else:
                        memory, disk = memory - kept.memory_bytes, disk - kept.disk_bytes

    def _arrival(self, storage: StorageSession) -> float:
        return min(self._now(), storage.opened_at)

    def _look(self, known: _Known, storage: StorageSession, since: float, *, index: Index | None = None) -> Log:
        """The log as it was at `since` or later: requests that meet share a look, and so do the steps of one."""
        listed = known.log  # once: whoever makes room may take it away
        if listed and known.looked_at > since:
            return listed
        now = self._now()
        objects, location = storage.objects(), storage.location
        log = later_log(listed, objects, location) if listed else None
        since_version = -1
        if log is None:
            known.forget()
            indexed = index.latest(location.uri) if index else None
            if indexed:
                log, since_version = _log_since(indexed, objects, location), indexed.version
            log = log or latest_log(objects, location)
        elif known.latest:
            since_version = known.latest.segment.version
        if log is not listed:
            log.check_complete(since_version)
        known.log, known.looked_at = log, now
        return log

    def _advance(self, known: _Known, storage: StorageSession, log: Log) -> "Replayed":
        """The state of the latest version: from what is known, from an index, or from the log alone."""
        base, version = known.latest, log.version
        if base and not _leads_to(base, log, version):
            base = None
        indexed = self._latest_index(storage, base)
        if indexed and _is_nearer(indexed, base) and _reaches(indexed, log, version):
            origin = f"{indexed.version}:index-{indexed.build}"
            return _read(storage, log.segment_after(indexed.version, origin, version), known=indexed)
        if base is None and not log.reaches(version):
            log = known.log = latest_log(storage.objects(), storage.location)
        return _advance(base, storage, log, log.version)

    def _latest_index(self, storage: StorageSession, base: "Replayed | None") -> Indexed | None:
        """What is in memory of a small table is nearer than any index."""
        if self._index is None or (base and not _build_of(base) and base.snapshot.num_files < LARGE_TABLE):
            return None
        try:
            return self._index.latest(storage.location.uri)
        except UnusableIndexError:
            if base is None:
                raise
            return None

    def _distrust(self, known: _Known, storage: StorageSession, problem: UnusableIndexError) -> None:
        logger.warning("An index cannot be used, the log is read instead: %s", problem)
        if self._index:
            self._index.distrust(storage.location.uri)
        known.forget()

    def _guarded(self, known: _Known, storage: StorageSession, replayed: "Replayed") -> Snapshot:
        """A snapshot that goes on from the log if an index fails in the middle of it."""
        if _build_of(replayed) is None:
            return replayed.snapshot
        return replace(replayed.snapshot, batches=partial(self._batches, known, storage, replayed))

    def _batches(
        self, known: _Known, storage: StorageSession, replayed: "Replayed", predicate: "Predicate | None"
    ) -> Iterator[FileBatch]:
        try:
            yield from replayed.snapshot.batches(predicate)
        except UnusableIndexError as problem:
            version = replayed.segment.version
            with known.lock:
                self._distrust(known, storage, problem)
                log = self._log_back_to(known, storage, version)
                log.check_tip(version, replayed.snapshot.tip)
                snapshot = _read(storage, log.segment(version)).snapshot
            told = {key for key, add in replayed.files.items() if add is not None}.union(problem.told())
            for batch in snapshot.batches(predicate):
                yield batch.only(key not in told for key in keys_of(batch.paths, batch.deletion_vectors))

    def _log_back_to(self, known: _Known, storage: StorageSession, version: int) -> Log:
        """A fresh look at the log that goes back to a version; at all of it, if the version cannot be read."""
        log = self._look(known, storage, self._arrival(storage))
        if not log.reaches(version):
            log = known.log = whole_log(storage.objects(), storage.location)
        return log

    def _history(self, known: _Known, storage: StorageSession) -> History:
        from core.delta.log.commits import in_commit_timestamp

        log, get = self._log_back_to(known, storage, -1), storage.objects().get

        def stated_time(version: int) -> int | None:
            commit = log.commits.get(version)
            return in_commit_timestamp(get(commit.key)) if commit else None

        return History(log, stated_time)

    def _travel(self, known: _Known, storage: StorageSession, version: int) -> "Replayed":
        log = self._log_back_to(known, storage, version)
        check_version(log, version)
        latest = known.latest
        if version == log.version or (latest and _is_at(latest, log, version)):
            latest = known.latest = _advance(latest, storage, log, version)
            return latest
        travelled = known.travelled = _advance(known.travelled, storage, log, version)
        return travelled


def _is_at(replayed: "Replayed", log: Log, version: int) -> bool:
    return replayed.segment.version == version and replayed.segment.tip == log.file(version)


def _advance(base: "Replayed | None", storage: StorageSession, log: Log, version: int) -> "Replayed":
    """A version's state, from an older one where that is shorter than from the last checkpoint."""
    if base is None or not _leads_to(base, log, version):
        return _read(storage, log.segment(version))
    if base.segment.version == version:
        return base
    return _read(storage, log.segment(version, base=base.segment), base)


def _log_since(indexed: Indexed, objects: "ObjectReader", location: "S3Location") -> Log | None:
    """The log from an index's version on, by one look; None if the index is of another log."""
    log = list_log(objects, location, from_version=max(indexed.version - LOOK_BACK, 0))
    return log if log.file(indexed.version) == indexed.tip else None


def _build_of(replayed: "Replayed") -> str | None:
    """Of the index that a version was read from; None if it was the log."""
    return getattr(replayed.checkpoint, "build", None)


def _is_nearer(indexed: Indexed, base: "Replayed | None") -> bool:
    return base is None or (_build_of(base) != indexed.build and indexed.version >= origin_version(base.segment.origin))


def _reaches(indexed: Indexed, log: Log, version: int) -> bool:
    """Whether a version is to be read from an index: it is of this log, and not too much has changed since."""
    commits = [log.commits.get(commit) for commit in range(indexed.version + 1, version + 1)]
    return (
        version >= indexed.version
        and log.file(indexed.version) == indexed.tip
        and len(commits) <= MAX_COMMITS_OVER_INDEX
        and sum(commit.size if commit else MAX_BYTES_OVER_INDEX + 1 for commit in commits) <= MAX_BYTES_OVER_INDEX
    )


def _leads_to(base: "Replayed", log: Log, version: int) -> bool:
    at = base.segment.version
    if at > version or base.segment.tip != log.file(at):
        return False
    checkpoint = log.last_checkpoint(version)
    if checkpoint > at and (checkpoint - at > MANY_COMMITS or len(base.files) > MANY_FILES):
        return False
    return all(commit in log.commits for commit in range(at + 1, version + 1))


def _read(
    storage: StorageSession, segment: LogSegment, base: "Replayed | None" = None, known: "CheckpointFiles | None" = None
) -> "Replayed":
    # It brings the Parquet reader, which the version route need not pay for.
    from core.delta.reader import read_snapshot

    return read_snapshot(storage.objects(), storage.location, segment, base, known)
