"""Loads snapshots of one table and caches them.

The latest version comes from the log or from an index, which replaces the checkpoint of the log (`core.delta.source`).
A process may hold both. Older versions come from the log.
"""

from core.delta.cache.log import CachedLog
from core.delta.cache.tables import CachedTable
from core.delta.history import check_version
from core.delta.index import INDEX, Indexes, TableIndex, UnusableIndexError
from core.delta.log.replay import CheckpointFiles
from core.delta.log.segment import Log, LogSegment, checkpoint_version
from core.delta.snapshot import LoadedSnapshot, Snapshot, SnapshotSummary
from core.delta.source import (
    ALL_FILES,
    BYTES_PER_FILE,
    NO_FILES,
    Demand,
    LogState,
    Source,
    Way,
    choose,
    without_index,
)
from core.errors import AnswerTooLargeError, ChangedLogError, DamagedLogError, LongLogError, TableFilesError
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


class SnapshotLoader:
    """Use it only while the cached table's lock is held."""

    def __init__(
        self,
        cached: CachedTable,
        storage: StorageSession,
        log: CachedLog,
        index: Indexes | None,
        max_log_bytes: float | None = None,
        way: Way | None = None,
    ) -> None:
        """With `max_log_bytes`, reading a longer log raises `LongLogError`. `way` replaces the estimate."""
        self._cached = cached
        self._storage = storage
        self._log = log
        self._index = index
        self._max_log_bytes = max_log_bytes
        self._forced = way

    def latest(self, log: Log, demand: Demand = ALL_FILES) -> LoadedSnapshot:
        """Loads the latest version: from the log, or from an index if that is faster for `demand`."""
        base = self._cached.latest
        if base and not _leads_to(base, log, log.version):
            base = None
        source, indexed = self._choose(log, base, demand)
        if source and source.way is Way.INDEX and indexed:
            self._cached.indexed = loaded = self._from_index(log, indexed).chosen_as(source)
            return loaded
        try:
            if base is None and not log.reaches(log.version):
                log = self._log.newest()
            self._cached.latest = loaded = self._advance(base, log, log.version).chosen_as(source)
        except (TableFilesError, DamagedLogError, AnswerTooLargeError, LongLogError):
            indexed = indexed or self._usable_index(log, base)
            if indexed is None:
                raise
            source = Source(Way.INDEX, "the log cannot be read")
            self._cached.indexed = loaded = self._from_index(log, indexed).chosen_as(source)
        return loaded

    def at(self, version: int, demand: Demand = ALL_FILES) -> LoadedSnapshot:
        log = self._log.back_to(version)
        check_version(log, version)
        cached, latest = self._cached, self._cached.latest
        if version == log.version:
            return self.latest(log, demand)
        if latest and _is_at(latest, log, version):
            return latest
        cached.older = loaded = self._advance(cached.older, log, version)
        return loaded

    def summary_at(self, version: int) -> SnapshotSummary:
        log = self._log.back_to(version)
        check_version(log, version)
        summaries, tip = self._cached.summaries, log.tip(version)
        read_at, summary = summaries.pop(version, ("", None))
        if summary is None or read_at != tip:
            summary = self.at(version, NO_FILES).snapshot.summary
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
        for loaded in (self._cached.latest, self._cached.indexed, self._cached.older):
            if loaded and _is_at(loaded, log, version) and loaded.snapshot.checkpoint_id == checkpoint_id:
                return loaded
        start, _, build = checkpoint_id.partition(INDEX)
        if build:
            return self._from_build(log, int(start), build, version)
        try:
            segment = log.segment_from_checkpoint(checkpoint_id, version)
        except ChangedLogError:  # the checkpoint may be of an old version and newer than the cached listing
            segment = self._log.whole().segment_from_checkpoint(checkpoint_id, version)
        self._cached.older = older = self._read(segment)
        return older

    def _from_build(self, log: Log, start: int, build: str, version: int) -> LoadedSnapshot:
        if self._index is None:
            raise ChangedLogError(version)
        if log.version < version or not log.reaches(version):
            log = self._log.whole()
        segment = log.segment_after(start, f"{start}{INDEX}{build}", version)
        try:
            indexed = self._index.of_build(self._storage.location.uri, build)
            self._cached.older = older = self._read(segment, checkpoint=indexed)
        except UnusableIndexError as problem:
            raise ChangedLogError(version) from problem
        return older

    def from_log(self, log: Log, version: int) -> Snapshot:
        """Loads a version from the log alone and does not cache it."""
        return self._read(log.segment(version)).snapshot

    def _choose(self, log: Log, base: LoadedSnapshot | None, demand: Demand) -> tuple[Source | None, TableIndex | None]:
        """Returns the way to read the latest version, and the index if it can be used and was looked at.

        The way is None if there is no choice: the log.
        """
        if self._forced is Way.LOG or self._index is None:
            return None, None
        if base and self._forced is None:
            predicate = demand.predicate(base.snapshot.metadata)
            source = without_index(_state_of(base, log), demand, predicate)
            if source and self._max_log_bytes != 0:
                return source, None
        indexed = self._usable_index(log, base)
        if indexed is None:
            return None, None
        if self._forced:
            return Source(self._forced, "no other way is allowed"), indexed
        if self._is_too_long(log, base, indexed):
            return Source(Way.INDEX, "the log is longer than this server reads at once"), indexed
        predicate = demand.predicate(indexed.metadata)
        state = _state_of(base, log) if base else _unread(log, indexed)
        return choose(state, indexed.num_files_left(predicate), demand, predicate), indexed

    def _is_too_long(self, log: Log, base: LoadedSnapshot | None, indexed: TableIndex) -> bool:
        limit = self._max_log_bytes
        return limit is not None and (limit == 0 or (base is None and _unread(log, indexed).unread_bytes > limit))

    def _usable_index(self, log: Log, base: LoadedSnapshot | None) -> TableIndex | None:
        """Returns the newest index if the latest version can be read from it. Raises only if `base` is None."""
        if self._index is None:
            return None
        try:
            self._cached.index = indexed = self._index.latest(self._storage.location.uri)
        except UnusableIndexError:
            if base is None:
                raise
            return None
        if indexed is None or why_index_is_unusable(indexed, log, log.version):
            return None
        return indexed

    def _from_index(self, log: Log, indexed: TableIndex) -> LoadedSnapshot:
        base, version = self._cached.indexed, log.version
        if base and index_build(base) == indexed.build and _leads_to(base, log, version):
            return self._advance(base, log, version)
        checkpoint_id = f"{indexed.version}{INDEX}{indexed.build}"
        return self._read(log.segment_after(indexed.version, checkpoint_id, version), checkpoint=indexed)

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


def _state_of(base: LoadedSnapshot, log: Log) -> LogState:
    """The log of a table whose snapshot is cached."""
    newer = range(base.snapshot.version + 1, log.version + 1)
    unread = sum(log.commits[version].size for version in newer if version in log.commits)
    return LogState(base.snapshot.num_files, unread, in_memory=True)


def _unread(log: Log, indexed: TableIndex) -> LogState:
    """The log of a table that is not cached, as far as the listing and the index know it."""
    num_files = indexed.totals.num_files
    start = log.last_checkpoint(log.version)
    listed = [*log.checkpoints.get(start, ()), *(file for version, file in log.commits.items() if version > start)]
    return LogState(num_files, max(sum(file.size for file in listed), BYTES_PER_FILE * num_files), in_memory=False)


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
