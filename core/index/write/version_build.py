"""Indexes a version of a table without Spark: incrementally after a few commits, or in full."""

from contextlib import suppress
from dataclasses import dataclass

from core.delta.cache.snapshots import why_index_is_unusable
from core.delta.index import UnusableIndexError
from core.delta.log.listing import latest_log, list_log, whole_log
from core.delta.log.segment import Log
from core.delta.model import Totals
from core.delta.reader import read_snapshot
from core.delta.snapshot import LoadedSnapshot
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.layout.root import Root
from core.index.read.store import IndexStore
from core.index.read.table_index import StoredIndex
from core.index.write.build import Build, IndexedVersion, LostRaceError
from core.index.write.full_build import build_in_ranges
from core.index.write.incremental_build import TooManyChangesError, build_incremental
from core.index.write.packing import indexed_fields
from core.index.write.writer import IndexWriter
from core.storage.objects import TableObjects

# Limits on the commits of an incremental build.
MAX_COMMITS = 1000
MAX_COMMIT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class IndexTable:
    """The DynamoDB table with all indexes."""

    store: IndexStore
    writer: IndexWriter

    def live(self, table: str) -> Head | None:
        return self.writer.head(table)


def live_index(indexes: IndexTable, opened: TableObjects, head: Head) -> StoredIndex | None:
    """Returns the live index, or None if an incremental build cannot start from it."""
    table = table_of(opened.location.uri)
    try:
        return StoredIndex(indexes.store, table, head.build, Root.unpack(indexes.store.root(table, head.build)))
    except UnusableIndexError:
        return None


def index_of_version(indexes: IndexTable, opened: TableObjects, version: int, tip: str, *, max_log_bytes: float) -> str:
    """Makes sure that a version can be read from an index. Returns the id that its snapshot then has as a checkpoint.

    Raises `ChangedLogError` if the version had another log tip, and `LongLogError` if its log is too long. A build of
    an older version is not made live: only the returned id names it.
    """
    log = _log_with(opened, version)
    log.check_tip(version, tip)
    head = indexes.live(table_of(opened.location.uri))
    live = live_index(indexes, opened, head) if head else None
    is_same_log = live is not None and log.file(live.version) == live.tip
    if live and is_same_log and why_index_is_unusable(live, log, version) is None:
        return f"{live.version}:index-{live.build}"
    is_newest = version == log.version and not (live and is_same_log and live.version >= version)
    if live and is_same_log and is_newest:
        later = build_incrementally(indexes, opened, live)
        if later is not None and later.version == version:
            return f"{version}:index-{later.build}"
    replayed = read_snapshot(*opened, log.segment(version), max_log_bytes=max_log_bytes)
    build = Build(indexes.writer, table_of(opened.location.uri), listed=is_newest).begin()
    expected = head.build if head else None
    with suppress(LostRaceError):  # the build is complete, and its id is enough to read it
        build_in_ranges(build, indexed(replayed), replayed.snapshot, expected)
    return f"{version}:index-{build.name}"


def build_incrementally(
    indexes: IndexTable, opened: TableObjects, older: StoredIndex, *, columns: int = INDEXED_COLUMNS
) -> Head | None:
    """Updates an older index to the latest version. Returns None if a full build is needed."""
    log = list_log(opened.objects, opened.location, from_version=older.version)
    if log.file(older.version) != older.tip:
        return None
    if log.version == older.version:
        same_fields = indexed_fields(older.metadata, columns) == list(older.root.zones)
        return indexes.live(older.table) if same_fields else None
    commits = [log.commits.get(version) for version in range(older.version + 1, log.version + 1)]
    if (
        len(commits) > MAX_COMMITS
        or sum(commit.size if commit else MAX_COMMIT_BYTES for commit in commits) > MAX_COMMIT_BYTES
    ):
        return None
    segment = log.segment_after(older.version, f"{older.version}:index-{older.build}", log.version)
    try:
        replayed = read_snapshot(*opened, segment, checkpoint=older)
        build = Build(indexes.writer, older.table).begin()
        return build_incremental(build, older, indexed(replayed), replayed.state.files, columns=columns)
    except (TooManyChangesError, UnusableIndexError):
        return None


def indexed(replayed: LoadedSnapshot) -> IndexedVersion:
    snapshot = replayed.snapshot
    totals = Totals(snapshot.num_files, snapshot.size, snapshot.num_deletion_vectors)
    return IndexedVersion(snapshot.version, replayed.state.segment.tip, snapshot.protocol, snapshot.metadata, totals)


def _log_with(opened: TableObjects, version: int) -> Log:
    log = latest_log(*opened)
    return log if log.reaches(version) else whole_log(*opened)
