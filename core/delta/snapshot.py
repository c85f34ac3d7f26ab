"""What the rest of core sees of a Delta table: snapshots, and the commits between them.

A snapshot is one version of a table: its protocol, its metadata and its live files. How it was read (from the log's
own files, one day from the index) stays behind this interface. Everything that a client is told is the log's own:
paths, partition values, statistics, deletion vectors are never rewritten.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any, NamedTuple, TypeAlias

from core.errors import MalformedRequestError


@dataclass(frozen=True, slots=True)
class Protocol:
    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] = ()
    writer_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metadata:
    """The log's own `metaData` action; `schema_string` is relayed byte for byte."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    name: str | None = None
    description: str | None = None
    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)
    created_time: int | None = None


class DeletionVector(NamedTuple):
    """The descriptor of a file's deleted rows."""

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """What tells two versions of one file apart, together with its path."""
        where = f"{self.storage_type}{self.path_or_inline_dv}"
        return where if self.offset is None else f"{where}@{self.offset}"


class Add(NamedTuple):
    """A live file."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modification_time: int
    data_change: bool
    stats: str | None
    deletion_vector: DeletionVector | None = None
    more: Mapping[str, Any] | None = None
    """What few tables have, under the log's names: tags, baseRowId, defaultRowCommitVersion, clusteringProvider."""


class AddBatch(NamedTuple):
    """Live files by column, in the order of an Add's fields: so a million of them are gone through."""

    paths: list[str]
    partition_values: list[Mapping[str, str | None]]
    sizes: list[int]
    modification_times: list[int]
    data_changes: list[bool]
    stats: list[str | None]
    deletion_vectors: list[DeletionVector | None]
    more: list[Mapping[str, Any] | None]

    @classmethod
    def of(cls, adds: Iterable[Add]) -> "AddBatch":
        rows = list(adds)
        return cls(*map(list, zip(*rows, strict=True))) if rows else cls([], [], [], [], [], [], [], [])

    def adds(self) -> Iterator[Add]:
        return map(partial(tuple.__new__, Add), zip(*self, strict=True))

    def between(self, begin: int, end: int) -> "AddBatch":
        return AddBatch._make(column[begin:end] for column in self)

    def only(self, chosen: Iterable[object]) -> "AddBatch":
        """The files whose place in `chosen` holds something true."""
        places = list(chosen)
        return AddBatch._make(list(compress(column, places)) for column in self)


class Remove(NamedTuple):
    """A file that is live no more. Old writers leave out its partition values and size."""

    path: str
    partition_values: Mapping[str, str | None] | None
    size: int | None
    deletion_timestamp: int | None
    data_change: bool
    stats: str | None
    deletion_vector: DeletionVector | None = None
    more: Mapping[str, Any] | None = None


class Cdc(NamedTuple):
    """A file of changed rows, for the change feed alone."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    more: Mapping[str, Any] | None = None


FileAction: TypeAlias = Add | Remove | Cdc


@dataclass(frozen=True, slots=True)
class Commit:
    version: int
    timestamp: int
    """When it was made, in milliseconds since 1970; rising from commit to commit."""
    protocol: Protocol | None
    metadata: Metadata | None
    files: tuple[FileAction, ...]
    """In the order of the log."""
    changes_no_row: bool
    """Whether it is a MERGE that says it found nothing to insert, update or delete."""


@dataclass(frozen=True, slots=True)
class Head:
    """All that is told of a version but its files."""

    version: int
    timestamp: int
    """When the version was committed, in milliseconds since 1970."""
    protocol: Protocol
    metadata: Metadata
    num_files: int
    size: int
    """The bytes of all live files."""
    num_deletion_vectors: int
    """How many of the live files have one."""


@dataclass(frozen=True, slots=True)
class Snapshot(Head):
    batches: Callable[[], Iterator[AddBatch]]
    """The live files, some thousands at a time."""
    origin: str
    """From where its log was read. A version has its files in one order wherever it is read from the same origin."""
    tip: str
    """Of which log it is: the name of the object that stands for the version there."""

    @property
    def head(self) -> Head:
        """Without what holds the files."""
        return Head(
            self.version,
            self.timestamp,
            self.protocol,
            self.metadata,
            self.num_files,
            self.size,
            self.num_deletion_vectors,
        )

    def adds(self) -> Iterator[Add]:
        """The live files, one by one."""
        for batch in self.batches():
            yield from batch.adds()


class ChangedLogError(MalformedRequestError):
    """What was read before cannot be read in the same way again."""

    def __init__(self, version: int) -> None:
        super().__init__(
            f"Table version {version} cannot be read as before any more, because the table's transaction log was "
            "cleaned up or rewritten. Please restart the query."
        )
