"""Builds the whole index of a small table, without Spark."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from core.delta.log.listing import latest_log
from core.delta.model import Add, Metadata
from core.delta.reader import read_snapshot
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.write.build import Build
from core.index.write.full_build import build_full
from core.index.write.packing import indexed_fields
from core.index.write.version_build import IndexTable, indexed
from core.pruning.schema import Field
from core.storage.objects import TableObjects
from pipeline.storage import TableStorage

# Maximum size of the log that a build without Spark reads: about 50,000 files.
SMALL_LOG_BYTES = 16 * 1024 * 1024
MAX_FOOTERS = 10_000


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
