"""Indexes a table: with an incremental build if possible, otherwise with a full build in this process or in Spark."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.catalog.model import Table
from core.index.layout.columns import INDEXED_COLUMNS
from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.write.build import Build, LostRaceError
from core.index.write.version_build import IndexTable, build_incrementally, live_index
from pipeline.local_build import build_locally
from pipeline.storage import TableStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str, int, int | None], None]
"""Called with the current step, the amount done, and the total if it is known."""


@dataclass(frozen=True, slots=True)
class Outcome:
    table: str
    what: str
    """`up to date`, `later` (incremental build), `built` (full build) or `lost` (another job finished first)."""
    head: Head
    units: int
    """DynamoDB write units used."""
    seconds: float


def _silent(step: str, done: int, total: int | None) -> None:
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
        started_at, units_before = time.monotonic(), self._indexes.writer.units
        live = self._indexes.live(table_of(storage.open().location.uri))
        try:
            what, head, worker_units = self._build(storage, live, full=full)
        except LostRaceError as lost:
            what, head, worker_units = "lost", lost.winner, 0
        units = self._indexes.writer.units - units_before + worker_units
        return Outcome(table.full_name, what, head, units, round(time.monotonic() - started_at, 3))

    def _build(self, storage: TableStorage, live: Head | None, *, full: bool) -> tuple[str, Head, int]:
        """Returns the outcome, the live head, and the write units that Spark workers used."""
        opened = storage.open()
        older = live_index(self._indexes, opened, live) if live and not full else None
        if older is not None:
            self._progress("reading new commits", 0, None)
            later = build_incrementally(self._indexes, opened, older, columns=self._columns)
            if later is not None:
                return ("up to date" if later.build == older.build else "later"), later, 0
        expected = live.build if live else None
        self._progress("reading the log", 0, None)
        footer_storage = storage if self._footers else None
        small = build_locally(self._indexes, opened, expected, footer_storage, columns=self._columns)
        if small is not None:
            return "built", small, 0
        from pipeline.spark.build import build_with_spark  # imported here: small tables do not need Spark

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
