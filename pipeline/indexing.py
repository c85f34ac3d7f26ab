"""Indexes a table: incrementally from its existing index if possible, otherwise in this process or with Spark."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.catalog.model import Table
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.write.build import Build, LostRaceError
from pipeline.local_build import IndexTable, build_later, build_small, older_index
from pipeline.storage import TableStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str, int, int | None], None]
"""Called with the current stage, the amount done and the total, if known."""


@dataclass(frozen=True, slots=True)
class Outcome:
    table: str
    what: str
    """`up to date`, `later` (incremental build), `built` (full build) or `lost` (another job finished first)."""
    head: Head
    units: int
    """DynamoDB write units."""
    seconds: float


def _silent(stage: str, done: int, total: int | None) -> None:
    pass


class Indexer:
    def __init__(
        self,
        indexes: IndexTable,
        *,
        spark: "Callable[[], SparkSession]",
        columns: int = INDEXED_COLUMNS,
        footers: bool = True,
        progress: Progress = _silent,
    ) -> None:
        self._indexes = indexes
        self._spark = spark
        self._columns = columns
        self._footers = footers
        self._progress = progress

    def index(self, table: Table, *, full: bool = False) -> Outcome:
        storage = TableStorage(table.location, table.role_arn, table.external_id, table.region)
        began, units = time.monotonic(), self._indexes.writer.units
        live = self._indexes.live(self._key(storage))
        try:
            what, head, by_workers = self._build(storage, live, full=full)
        except LostRaceError as lost:
            what, head, by_workers = "lost", lost.winner, 0
        used = self._indexes.writer.units - units + by_workers
        return Outcome(table.full_name, what, head, used, round(time.monotonic() - began, 3))

    def _build(self, storage: TableStorage, live: Head | None, *, full: bool) -> tuple[str, Head, int]:
        opened = storage.open()
        older = older_index(self._indexes, opened, live) if live and not full else None
        if older is not None:
            self._progress("reading the commits since", 0, None)
            later = build_later(self._indexes, opened, older, columns=self._columns)
            if later is not None:
                return ("up to date" if later.build == older.build else "later"), later, 0
        expected = live.build if live else None
        self._progress("reading the log", 0, None)
        footers_of = storage if self._footers else None
        small = build_small(self._indexes, opened, expected, footers_of, columns=self._columns)
        if small is not None:
            return "built", small, 0
        from pipeline.spark.build import build_with_spark  # imported late: small tables do not need Spark

        build = Build(self._indexes.writer, table_of(opened.location.uri)).begin()
        head, units = build_with_spark(
            self._spark(),
            build,
            self._indexes.writer.table_name,
            storage,
            expected,
            columns=self._columns,
            footers=self._footers,
            units_per_second=self._indexes.writer.units_per_second,
            progress=self._progress,
        )
        return "built", head, units

    def _key(self, storage: TableStorage) -> str:
        return table_of(storage.open().location.uri)
