"""Builds an index without Spark: incrementally after a few commits, or in full for a small table."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from core.delta.index import UnusableIndexError
from core.delta.log.listing import latest_log, list_log
from core.delta.model import Add, Metadata, Totals
from core.delta.reader import read_snapshot
from core.delta.snapshot import LoadedSnapshot
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.layout.root import Root
from core.index.read.store import IndexStore
from core.index.read.table_index import StoredIndex
from core.index.write.build import Build, IndexedVersion
from core.index.write.full_build import build_full
from core.index.write.incremental_build import TooManyChangesError, build_incremental
from core.index.write.packing import indexed_fields
from core.index.write.writer import IndexWriter
from core.pruning.schema import Field
from pipeline.storage import TableObjects, TableStorage

# Maximum size of the log that a build without Spark reads: about 50,000 files.
SMALL_LOG_BYTES = 16 * 1024 * 1024
MAX_COMMITS = 1000
MAX_FOOTERS = 10_000


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
        or sum(commit.size if commit else SMALL_LOG_BYTES for commit in commits) > SMALL_LOG_BYTES
    ):
        return None
    segment = log.segment_after(older.version, f"{older.version}:index-{older.build}", log.version)
    try:
        replayed = read_snapshot(*opened, segment, checkpoint=older)
        build = Build(indexes.writer, older.table).begin()
        return build_incremental(build, older, indexed(replayed), replayed.state.files, columns=columns)
    except (TooManyChangesError, UnusableIndexError):
        return None


def build_locally(
    indexes: IndexTable,
    opened: TableObjects,
    expected: str | None,
    footer_storage: TableStorage | None = None,
    *,
    columns: int = INDEXED_COLUMNS,
) -> Head | None:
    """Builds the whole index. Returns None if the table is too large for this process.

    With `footer_storage`, statistics that the log lacks are read from Parquet footers.
    """
    log = latest_log(opened.objects, opened.location)
    segment = log.segment(log.version)
    if sum(file.size for file in (*segment.checkpoint, *segment.commits)) > SMALL_LOG_BYTES:
        return None
    replayed = read_snapshot(*opened, segment)
    adds = list(replayed.snapshot.adds())
    metadata = replayed.snapshot.metadata
    fields = indexed_fields(metadata, columns)
    pruning_stats = _footer_stats(footer_storage, metadata, fields, adds) if footer_storage else {}
    build = Build(indexes.writer, table_of(opened.location.uri)).begin()
    files = [(add, pruning_stats.get(number)) for number, add in enumerate(adds)]
    return build_full(build, indexed(replayed), files, expected, columns=columns)


def indexed(replayed: LoadedSnapshot) -> IndexedVersion:
    snapshot = replayed.snapshot
    totals = Totals(snapshot.num_files, snapshot.size, snapshot.num_deletion_vectors)
    return IndexedVersion(snapshot.version, replayed.state.segment.tip, snapshot.protocol, snapshot.metadata, totals)


def _footer_stats(
    table: TableStorage, metadata: Metadata, fields: Sequence[Field], adds: Sequence[Add]
) -> dict[int, str | None]:
    """Maps the position in `adds` of each file without statistics to those of its footer."""
    missing = [number for number, add in enumerate(adds) if '"numRecords"' not in (add.stats or "")][:MAX_FOOTERS]
    if not missing:
        return {}
    from pipeline.footers import PARALLEL_READS, Footers  # imported here: loads pyarrow

    footers = Footers.of(table, metadata, fields, MAX_FOOTERS)
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        found = footers.read(pool, *zip(*((adds[number].path, adds[number].size) for number in missing), strict=True))
        return dict(zip(missing, found, strict=True))
