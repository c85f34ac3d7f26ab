"""Compares the index of each table with its log."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.filesize import decimal

from cli.common.account import Account
from cli.common.documents import timestamp
from cli.common.errors import CommandError
from cli.common.index_use import why_unusable
from cli.common.reading import reading
from cli.index.build import index_table, index_table_required
from core.catalog.model import Table
from core.delta.index import UnusableIndexError
from core.delta.tables import DeltaTables
from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.layout.root import Root
from core.index.read.table_index import StoredIndex
from core.index.write.version_build import IndexTable
from core.sharing.tables import SharedTables
from core.storage.location import S3Location
from core.storage.session import StorageSession

COLUMNS = {
    "table": "TABLE",
    "index": "INDEX",
    "log": "LOG",
    "lag": "LAG",
    "usable": "USABLE",
    "files": "FILES",
    "chunks": "CHUNKS",
    "size": "SIZE",
    "age": "AGE",
    "built": "BUILT IN",
}
UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class IndexStatus:
    table: str
    head: Head | None = None
    log_version: int | None = None
    error: str | None = None
    unusable_because: str | None = None
    """Why queries read the log instead of the index."""

    @property
    def usable(self) -> bool | None:
        """Whether queries use the index. None if there is no index, or if the log cannot be read."""
        return None if self.head is None or self.log_version is None else self.unusable_because is None

    @property
    def note(self) -> str | None:
        """What to do about the index, or None."""
        if self.unusable_because is None:
            return self.error
        return (
            f"The index of '{self.table}' is not used: {self.unusable_because}. "
            f"Run `sluice index {self.table}` to update it."
        )

    @property
    def lag(self) -> int | None:
        """Number of commits after the index. Negative if the table was replaced; its index is not used then."""
        return None if self.head is None or self.log_version is None else self.log_version - self.head.version

    def document(self) -> dict[str, Any]:
        head = self.head
        return {
            "table": self.table,
            "logVersion": self.log_version,
            "lag": self.lag,
            "usable": self.usable,
            "unusableBecause": self.unusable_because,
            "index": head
            and {
                "version": head.version,
                "files": head.files,
                "chunks": head.chunks,
                "bytes": head.content_bytes,
                "builtAt": timestamp(int(head.built_at)),
                "seconds": head.seconds,
            },
            "error": self.error,
        }

    def row(self, now: float) -> Mapping[str, str | None]:
        head = self.head
        row: dict[str, str | None] = dict.fromkeys(COLUMNS)
        row |= {"table": self.table, "index": "none", "log": "unreadable"}
        if self.log_version is not None:
            row["log"] = str(self.log_version)
        if head is not None:
            row |= {
                "index": str(head.version),
                "lag": None if self.lag is None else str(self.lag),
                "usable": {True: "yes", False: "no", None: None}[self.usable],
                "files": f"{head.files:,}",
                "chunks": f"{head.chunks:,}",
                "size": decimal(head.content_bytes),
                "age": duration(now - head.built_at),
                "built": f"{head.seconds:.1f} s",
            }
        return row


def statuses(account: Account, tables: Iterable[Table]) -> Iterator[IndexStatus]:
    indexes = index_table(account)
    shared = SharedTables(account.storage(), DeltaTables())
    for table in tables:
        with index_table_required(account):
            status = _status(indexes, shared, table)
        yield status


def _status(indexes: IndexTable, shared: SharedTables, table: Table) -> IndexStatus:
    head = None
    try:
        with reading(table):
            head = indexes.live(table_of(S3Location.parse(table.location).uri))
            version = shared.version(table, None)
            reason = _why_unusable(indexes, shared.open(table), head, version) if head else None
            return IndexStatus(table.full_name, head, version, unusable_because=reason)
    except CommandError as error:
        return IndexStatus(table.full_name, head, error=error.message)


def _why_unusable(indexes: IndexTable, storage: StorageSession, head: Head, version: int) -> str | None:
    table = table_of(storage.location.uri)
    try:
        root = Root.unpack(indexes.store.root(table, head.build))
    except UnusableIndexError as problem:
        return str(problem)
    return why_unusable(StoredIndex(indexes.store, table, head.build, root), storage, version)


def duration(seconds: float) -> str:
    """Formats a duration in the largest unit that gives at least 2, for example 119 s but 2 m."""
    return next(f"{int(seconds // size)} {unit}" for unit, size in UNITS.items() if seconds >= 2 * size or unit == "s")
