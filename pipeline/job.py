"""The index job: `spark-submit pipeline/job.py --table SHARE.SCHEMA.TABLE | --all`.

The DynamoDB tables of the catalog and the index come from the same environment variables as for the functions. A Spark
session starts only for a large table.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from core.catalog.admin import CatalogAdmin
from core.catalog.model import Table
from core.index.layout.columns import MAX_INDEXED_COLUMNS
from core.index.read.store import IndexStore
from core.index.write.version_build import IndexTable
from core.index.write.writer import IndexWriter
from core.settings import Settings
from pipeline.build_options import (
    ALL_HELP,
    COLUMNS_HELP,
    FULL_HELP,
    MIN_WRITE_RATE,
    NO_FOOTERS_HELP,
    WRITE_RATE_HELP,
    BuildOptions,
)
from pipeline.connection import dynamodb
from pipeline.failures import FAILURES
from pipeline.indexing import Indexer, Outcome
from pipeline.report import progress_lines, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    settings = Settings.from_environment()
    if settings.index_table is None:
        print("SLUICE_INDEX_TABLE is not set. Set it to the output IndexTable of the deployed stack.", file=sys.stderr)
        return 2
    client = dynamodb()
    tables = tables_to_index(CatalogAdmin(client, settings.catalog_table), set(parsed.table), all_tables=parsed.all)
    indexes = IndexTable(
        IndexStore(client, settings.index_table),
        IndexWriter(client, settings.index_table, units_per_second=parsed.write_rate),
    )
    options = BuildOptions(parsed.full, not parsed.no_footers, parsed.write_rate, parsed.columns)
    failed = False
    for table in tables:
        try:
            print(summary(_index(indexes, table, options)), flush=True)
        except FAILURES as error:
            failed = True
            print(f"{table.full_name} failed: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _index(indexes: IndexTable, table: Table, options: BuildOptions) -> Outcome:
    with progress_lines(table.full_name, sys.stdout) as progress:
        indexer = Indexer(indexes, spark=_spark, columns=options.columns, footers=options.footers, progress=progress)
        return indexer.index(table, full=options.full)


def tables_to_index(catalog: CatalogAdmin, names: set[str], *, all_tables: bool) -> list[Table]:
    """Returns one table for each location, because tables of one location share an index."""
    found: dict[str, Table] = {}
    for share in catalog.shares():
        for table in catalog.tables(share.name):
            if all_tables or table.full_name in names:
                found.setdefault(table.location.rstrip("/"), table)
                names.discard(table.full_name)
    if names and not all_tables:
        raise SystemExit(f"The catalog does not contain these tables: {', '.join(sorted(names))}")
    return list(found.values())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pipeline/job.py", description="Build the indexes of shared tables.")
    selection = parser.add_mutually_exclusive_group(required=True)
    selection.add_argument("--table", action="append", default=[], metavar="SHARE.SCHEMA.TABLE")
    selection.add_argument("--all", action="store_true", help=ALL_HELP)
    parser.add_argument("--full", action="store_true", help=FULL_HELP)
    parser.add_argument(
        "--columns", type=_number_of_columns, default=BuildOptions().columns, metavar="N", help=COLUMNS_HELP
    )
    parser.add_argument("--no-footers", action="store_true", help=NO_FOOTERS_HELP)
    parser.add_argument("--write-rate", type=_write_rate, metavar="UNITS", help=WRITE_RATE_HELP)
    return parser


def _number_of_columns(text: str) -> int:
    with suppress(ValueError):
        if 0 <= (number := int(text)) <= MAX_INDEXED_COLUMNS:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {MAX_INDEXED_COLUMNS}")


def _write_rate(text: str) -> float:
    with suppress(ValueError):
        if (rate := float(text)) >= MIN_WRITE_RATE:
            return rate
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of {MIN_WRITE_RATE} or more")


def _spark() -> "SparkSession":
    from pyspark.sql import SparkSession

    return SparkSession.builder.appName("sluice index").getOrCreate()


if __name__ == "__main__":
    sys.exit(main())
