"""The job that builds indexes: `spark-submit pipeline/job.py --table SHARE.SCHEMA.TABLE | --all`.

Catalog and index are the DynamoDB tables that the environment names, as for the functions. Spark is started only if a
table is so large that it takes it.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from core.catalog.admin import CatalogAdmin
from core.catalog.model import Table
from core.errors import SharingError
from core.index.columns import INDEXED_COLUMNS, MAX_INDEXED_COLUMNS
from core.index.rows import NotIndexableError
from core.index.store import IndexStore
from core.index.writer import IndexWriter, WriteFailedError
from core.settings import Settings
from core.storage.location import InvalidLocationError
from core.storage.roles import NoStorageRoleError
from pipeline.connection import dynamodb
from pipeline.costs import build_cost, query_costs
from pipeline.indexing import Indexer, Outcome
from pipeline.small import IndexTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINE_SECONDS = 5
# What is wrong with one table does not keep the others from theirs.
FAILURES = (
    *(SharingError, InvalidLocationError, NoStorageRoleError),
    *(WriteFailedError, NotIndexableError, ClientError, BotoCoreError),
)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    settings = Settings.from_environment()
    if settings.index_table is None:
        print("SLUICE_INDEX_TABLE does not say where the index is.", file=sys.stderr)
        return 2
    client = dynamodb()
    tables = tables_to_index(CatalogAdmin(client, settings.catalog_table), set(asked.table), every=asked.all)
    indexes = IndexTable(
        IndexStore(client, settings.index_table),
        IndexWriter(client, settings.index_table, units_per_second=asked.write_rate),
    )
    indexer = Indexer(indexes, spark=_spark, columns=asked.columns, footers=not asked.no_footers, progress=_lines())
    failed = False
    for table in tables:
        print(f"{table.full_name}: ...", flush=True)
        try:
            print(summary(indexer.index(table, full=asked.full)), flush=True)
        except FAILURES as problem:
            failed = True
            print(f"{table.full_name}: failed: {problem}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def tables_to_index(catalog: CatalogAdmin, names: set[str], *, every: bool) -> list[Table]:
    """One for each location: shares of one table have one index."""
    found: dict[str, Table] = {}
    for share in catalog.shares():
        for table in catalog.tables(share.name):
            if every or table.full_name in names:
                found.setdefault(table.location.rstrip("/"), table)
                names.discard(table.full_name)
    if names and not every:
        raise SystemExit(f"There is no such table: {', '.join(sorted(names))}")
    return list(found.values())


def summary(outcome: Outcome) -> str:
    head = outcome.head
    if outcome.what in ("up to date", "lost"):
        why = "is up to date" if outcome.what == "up to date" else "was indexed by another job meanwhile"
        return f"{outcome.table}: {why} at version {head.version}"
    full, selective = query_costs(head)
    return (
        f"{outcome.table}: version {head.version}, {head.files:,} files in {head.chunks:,} chunks, "
        f"{head.content_bytes / 1e6:,.1f} MB, {outcome.seconds:.1f} s; "
        f"about ${build_cost(outcome.units):.4f} to build, ${full:.6f} for a full query, ${selective:.8f} for a "
        "selective one"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pipeline/job.py", description="Build the indexes of shared tables.")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--table", action="append", default=[], metavar="SHARE.SCHEMA.TABLE")
    chosen.add_argument("--all", action="store_true", help="all tables of the catalog")
    parser.add_argument("--full", action="store_true", help="build anew instead of going on from the last index")
    parser.add_argument(
        "--columns",
        type=_number_of_columns,
        default=INDEXED_COLUMNS,
        metavar="N",
        help=f"how many columns to index beside the partition columns (default: {INDEXED_COLUMNS})",
    )
    parser.add_argument("--no-footers", action="store_true", help="do not read Parquet footers for missing statistics")
    parser.add_argument("--write-rate", type=float, metavar="UNITS", help="DynamoDB write units a second, at most")
    return parser


def _number_of_columns(text: str) -> int:
    with suppress(ValueError):
        if 0 <= (number := int(text)) <= MAX_INDEXED_COLUMNS:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {MAX_INDEXED_COLUMNS}")


def _spark() -> "SparkSession":
    from pyspark.sql import SparkSession

    return SparkSession.builder.appName("sluice index").getOrCreate()


def _lines(now: Callable[[], float] = time.monotonic) -> Callable[[str, int, int | None], None]:
    """Progress as a line every few seconds."""
    told_at = now()

    def tell(stage: str, done: int, total: int | None) -> None:
        nonlocal told_at
        if now() - told_at >= LINE_SECONDS:
            told_at = now()
            print(f"  {stage}{f': {done:,} of {total:,}' if total else ''}", flush=True)

    return tell


if __name__ == "__main__":
    sys.exit(main())
