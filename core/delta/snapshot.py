"""What the rest of core sees of a Delta table: snapshots, and the commits between them.

A snapshot is one version of a table: its protocol, its metadata and its live files. How it was read (from the log's
own files, one day from the index) stays behind this interface. Everything that a client is told is the log's own:
paths, partition values, statistics, deletion vectors are never rewritten.
"""

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from core.api.lines import Layout, file_lines
from core.errors import MalformedRequestError
from core.pruning.columns import Columns, FileColumns

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate


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


Frame: TypeAlias = Callable[[Layout], Layout]
"""From what the log says of some files, by column and under its own names, to their lines."""


class FileBatch(typing.Protocol):
    """Live files by column: so a million of them are gone through."""

    @property
    def num_files(self) -> int: ...

    @property
    def columns(self) -> Columns:
        """What a predicate asks for."""

    @property
    def paths(self) -> Sequence[str]: ...

    @property
    def partition_values(self) -> Sequence[Mapping[str, str | None]]: ...

    @property
    def sizes(self) -> Sequence[int]: ...

    @property
    def stats(self) -> Sequence[str | None]: ...

    @property
    def deletion_vectors(self) -> Sequence[DeletionVector | None]: ...

    def adds(self) -> Iterator[Add]:
        """One by one."""

    def lines(self, names: Sequence[str], frame: Frame) -> Iterator[bytes]:
        """The lines of an answer, one or many at a time. `frame` puts the named fields of the files into them."""

    def between(self, begin: int, end: int) -> "FileBatch": ...

    def only(self, chosen: Iterable[object]) -> "FileBatch":
        """The files whose place in `chosen` holds something true."""


class AddBatch(NamedTuple):
    """Of actions. The columns are in the order of an Add's fields."""

    paths: Sequence[str]
    partition_values: Sequence[Mapping[str, str | None]]
    sizes: Sequence[int]
    modification_times: Sequence[int]
    data_changes: Sequence[bool]
    stats: Sequence[str | None]
    deletion_vectors: Sequence[DeletionVector | None]
    more: Sequence[Mapping[str, Any] | None]

    @classmethod
    def of(cls, adds: Iterable[Add]) -> "AddBatch":
        rows = list(adds)
        return cls(*map(list, zip(*rows, strict=True))) if rows else cls([], [], [], [], [], [], [], [])

    @property
    def num_files(self) -> int:
        return len(self.paths)

    @property
    def columns(self) -> Columns:
        return FileColumns(self.partition_values, self.stats)

    def adds(self) -> Iterator[Add]:
        return map(partial(tuple.__new__, Add), zip(*self, strict=True))

    def lines(self, names: Sequence[str], frame: Frame) -> Iterator[bytes]:
        return file_lines(frame({name: self._field(name) for name in names}))

    def _field(self, name: str) -> Sequence[Any]:
        if name in FIELDS:
            return self[FIELDS[name]]
        return [more and more.get(name) for more in self.more]

    def between(self, begin: int, end: int) -> "AddBatch":
        return AddBatch._make(column[begin:end] for column in self)

    def only(self, chosen: Iterable[object]) -> "AddBatch":
        places = list(chosen)
        return AddBatch._make(list(compress(column, places)) for column in self)


# The place of each in a batch.
FIELDS = {"partitionValues": 1, "size": 2, "modificationTime": 3, "dataChange": 4, "stats": 5}


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
    batches: Callable[["Predicate | None"], Iterator[FileBatch]]
    """The live files, some thousands at a time; without some of those that a predicate rules out, if there is one."""
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
        for batch in self.batches(None):
            yield from batch.adds()


class ChangedLogError(MalformedRequestError):
    """What was read before cannot be read in the same way again."""

    def __init__(self, version: int) -> None:
        super().__init__(
            f"Table version {version} cannot be read as before any more, because the table's transaction log was "
            "cleaned up or rewritten. Please restart the query."
        )
