"""Loads snapshots of one table and caches them.

A snapshot comes from the source that needs the fewest reads: a cached snapshot, an index, or the log alone. A large
table may have an index, which replaces the checkpoint of the log.
"""

from core.delta.cache.log import CachedLog
from core.delta.cache.tables import CachedTable
from core.delta.history import check_version
from core.delta.index import Indexes, TableIndex, UnusableIndexError
from core.delta.log.replay import CheckpointFiles
from core.delta.log.segment import Log, LogSegment, checkpoint_version
from core.delta.snapshot import LoadedSnapshot, Snapshot, SnapshotSummary
from core.errors import ChangedLogError
from core.storage.session import StorageSession

# Per table. The pages of a range need the same two or three summaries, and that of the version they continue from.
MAX_SUMMARIES = 8
# A newer checkpoint replaces the cached snapshot as the base of replay if it is more than this many commits ahead, or
# if the commits since the last checkpoint name more than this many files.
MANY_COMMITS = 100
MANY_FILES = 10_000
# Limits on the commits that are replayed on an index. Beyond either, the log is read instead.
MAX_COMMITS_OVER_INDEX = 100
MAX_BYTES_OVER_INDEX = 16 * 1024 * 1024
# Tables of at least this many files are read from an index even if a snapshot is cached.
LARGE_TABLE = 50_000


class SnapshotLoader:
    """Use it only while the cached table's lock is held."""

    def __init__(
        self,
        cached: CachedTable,
        storage: StorageSession,
        log: CachedLog,
        index: Indexes | None,
        max_log_bytes: float | None = None,
    ) -> None:
        """With `max_log_bytes`, reading a longer log raises `LongLogError`."""
        self._cached = cached
        self._storage = storage
        self._log = log
        self._index = index
        self._max_log_bytes = max_log_bytes

    def latest(self, log: Log) -> LoadedSnapshot:
        """Loads the latest version from the cached snapshot, an index, or the log alone."""
        self._cached.latest = latest = self._load_latest(log)
        return latest

    def at(self, version: int) -> LoadedSnapshot:
        log = self._log.back_to(version)
        check_version(log, version)
        cached, latest = self._cached, self._cached.latest
        if version == log.version or (latest and _is_at(latest, log, version)):
            loaded = cached.latest = self._advance(latest, log, version)
        else:
            loaded = cached.older = self._advance(cached.older, log, version)
        return loaded

    def summary_at(self, version: int) -> SnapshotSummary:
        log = self._log.back_to(version)
        check_version(log, version)
        summaries, tip = self._cached.summaries, log.tip(version)
        read_at, summary = summaries.pop(version, ("", None))
        if summary is None or read_at != tip:
            summary = self.at(version).snapshot.summary
        summaries[version] = tip, summary
        if len(summaries) > MAX_SUMMARIES:
            del summaries[next(iter(summaries))]
        return summary

    def from_newest_checkpoint(self, snapshot: Snapshot) -> Snapshot:
        """Returns the same version, read from its newest checkpoint, which is cleaned up last."""
        cached, version = self._cached, snapshot.version
        segment = self._log.back_to(version).segment(version)
        if segment.checkpoint_id == snapshot.checkpoint_id:
            return snapshot
        loaded = self._read(segment)
        latest = cached.latest
        if latest and latest.snapshot.version == version:
            cached.latest = loaded
        else:
            cached.older = loaded
        return loaded.snapshot

    def from_checkpoint(self, checkpoint_id: str, version: int) -> LoadedSnapshot:
        """Loads a version with its files in the same order as an earlier read from `checkpoint_id`."""
        log = self._log.back_to(checkpoint_version(checkpoint_id))
        for loaded in (self._cached.latest, self._cached.older):
            if loaded and _is_at(loaded, log, version) and loaded.snapshot.checkpoint_id == checkpoint_id:
                return loaded
        start, _, build = checkpoint_id.partition(":index-")
        if build:
            return self._from_build(log, int(start), build, version)
        try:
            segment = log.segment_from_checkpoint(checkpoint_id, version)
        except ChangedLogError:  # the checkpoint may be of an old version and newer than the cached listing
            segment = self._log.whole().segment_from_checkpoint(checkpoint_id, version)
        self._cached.older = older = self._read(segment)
        return older

    def _from_build(self, log: Log, start: int, build: str, version: int) -> LoadedSnapshot:
        try:
            indexed = self._index.of_build(self._storage.location.uri, build) if self._index else None
        except UnusableIndexError:
            indexed = None
        if indexed is None:
            raise ChangedLogError(version)
        checkpoint_id = f"{start}:index-{build}"
        if log.version < version or not log.reaches(version):
            log = self._log.whole()
        self._cached.older = older = self._read(log.segment_after(start, checkpoint_id, version), checkpoint=indexed)
        return older

    def from_log(self, log: Log, version: int) -> Snapshot:
        """Loads a version from the log alone and does not cache it."""
        return self._read(log.segment(version)).snapshot

    def _load_latest(self, log: Log) -> LoadedSnapshot:
        base, version = self._cached.latest, log.version
        if base and not _leads_to(base, log, version):
            base = None
        indexed = self._latest_index(base)
        if indexed and _is_nearer(indexed, base) and why_index_is_unusable(indexed, log, version) is None:
            checkpoint_id = f"{indexed.version}:index-{indexed.build}"
            return self._read(log.segment_after(indexed.version, checkpoint_id, version), checkpoint=indexed)
        if base is None and not log.reaches(version):
            log = self._log.newest()
        return self._advance(base, log, log.version)

    def _latest_index(self, base: LoadedSnapshot | None) -> TableIndex | None:
        """Returns the newest index, unless a small table is already in memory and may be answered from there."""
        is_small = base and not index_build(base) and base.snapshot.num_files < LARGE_TABLE
        if self._index is None or (is_small and self._max_log_bytes != 0):
            return None
        try:
            self._cached.index = self._index.latest(self._storage.location.uri)
        except UnusableIndexError:
            if base is None:
                raise
            return None
        return self._cached.index

    def _advance(self, base: LoadedSnapshot | None, log: Log, version: int) -> LoadedSnapshot:
        """Loads a version from `base`, unless reading from the last checkpoint is shorter."""
        if base is None or not _leads_to(base, log, version):
            return self._read(log.segment(version))
        if base.snapshot.version == version:
            return base
        return self._read(log.segment(version, base=base.state.segment), base)

    def _read(
        self, segment: LogSegment, base: LoadedSnapshot | None = None, checkpoint: CheckpointFiles | None = None
    ) -> LoadedSnapshot:
        # Imports the Parquet reader, which the version route does not need.
        from core.delta.reader import read_snapshot

        storage = self._storage
        from_log = base is None and checkpoint is None
        return read_snapshot(
            storage.objects(),
            storage.location,
            segment,
            base.state if base else None,
            checkpoint,
            max_log_bytes=self._max_log_bytes if from_log else None,
        )


def index_build(loaded: LoadedSnapshot) -> str | None:
    """Returns the build of the index that a snapshot was read from, or None if it was read from the log."""
    return getattr(loaded.state.checkpoint, "build", None)


def _is_at(loaded: LoadedSnapshot, log: Log, version: int) -> bool:
    segment = loaded.state.segment
    return segment.version == version and segment.tip == log.file(version)


def _is_nearer(indexed: TableIndex, base: LoadedSnapshot | None) -> bool:
    return base is None or (
        index_build(base) != indexed.build and indexed.version >= checkpoint_version(base.snapshot.checkpoint_id)
    )


def why_index_is_unusable(indexed: TableIndex, log: Log, version: int) -> str | None:
    """Returns why a version cannot be read from the index and the commits after it, or None if it can."""
    tip = log.file(indexed.version)
    if tip is None or version < indexed.version:
        return "the log no longer has the version that it was built from"
    if tip != indexed.tip:
        return "it was built from another log, which has been replaced"
    commits = [log.commits.get(commit) for commit in range(indexed.version + 1, version + 1)]
    if len(commits) > MAX_COMMITS_OVER_INDEX:
        return f"{len(commits):,} commits follow it, more than {MAX_COMMITS_OVER_INDEX}"
    if sum(commit.size if commit else MAX_BYTES_OVER_INDEX + 1 for commit in commits) > MAX_BYTES_OVER_INDEX:
        return f"the commits after it are incomplete or larger than {MAX_BYTES_OVER_INDEX // 1024**2} MB"
    return None


def _leads_to(base: LoadedSnapshot, log: Log, version: int) -> bool:
    """Whether the version can be replayed from `base`, and that is shorter than from a newer checkpoint."""
    at = base.state.segment.version
    if at > version or base.state.segment.tip != log.file(at):
        return False
    checkpoint = log.last_checkpoint(version)
    if checkpoint > at and (checkpoint - at > MANY_COMMITS or len(base.state.files) > MANY_FILES):
        return False
    return all(commit in log.commits for commit in range(at + 1, version + 1))
