"""Runs a full build with Spark in its own process, even if the table is small."""

import sys

from core.catalog.model import Table
from core.index.read.store import IndexStore
from core.index.write.version_build import IndexTable
from core.index.write.writer import IndexWriter
from pipeline import local_build
from pipeline.connection import dynamodb
from pipeline.indexing import Indexer
from pipeline.spark.session import local_session


def main(location: str, region: str, index_table: str) -> None:
    local_build.SMALL_LOG_BYTES = 0
    indexes = IndexTable(IndexStore(dynamodb(), index_table), IndexWriter(dynamodb(), index_table))
    table = Table("t", "s", "share", "1", "2", location, region=region)
    sys.stdout.write(Indexer(indexes, spark=local_session).index(table, full=True).what)


if __name__ == "__main__":
    main(*sys.argv[1:])
