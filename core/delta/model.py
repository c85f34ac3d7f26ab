"""The actions of a Delta log as plain values, and the key that identifies a file.

Paths, partition values, statistics and deletion vectors are kept exactly as the log has them, because the protocol
relays them byte for byte.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any, NamedTuple, TypeAlias

PHYSICAL_NAME = "delta.columnMapping.physicalName"

FileKey: TypeAlias = str | tuple[str, str]
"""Identifies a file: its path as the log writes it, with the id of its deletion vector if it has one."""


@dataclass(frozen=True, slots=True)
class Protocol:
    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] = ()
    writer_features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metadata:
    """The `metaData` action of the log; `schema_string` is relayed byte for byte."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    name: str | None = None
    description: str | None = None
    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)
    created_time: int | None = None

    @property
    def memory_bytes(self) -> int:
        """Approximate memory in CPython."""
        texts = (self.schema_string, self.description or "", *self.configuration, *self.configuration.values())
        return 1000 + sum(map(getsizeof, texts))


def vector_id(storage_type: str, path_or_inline_dv: str, offset: int | None) -> str:
    """The id of a deletion vector, as Delta defines it."""
    return f"{storage_type}{path_or_inline_dv}" if offset is None else f"{storage_type}{path_or_inline_dv}@{offset}"


class DeletionVector(NamedTuple):
    """The descriptor of a file's deleted rows."""

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """Identifies the file together with its path: one path may have different vectors over time."""
        return vector_id(self.storage_type, self.path_or_inline_dv, self.offset)


class Add(NamedTuple):
    """A live file."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modification_time: int
    data_change: bool
    stats: str | None
    deletion_vector: DeletionVector | None = None
    extra_fields: Mapping[str, Any] | None = None
    """Rare fields under the log's names: tags, baseRowId, defaultRowCommitVersion, clusteringProvider."""


class Remove(NamedTuple):
    """A file that is no longer live. Old writers leave out its partition values and size."""

    path: str
    partition_values: Mapping[str, str | None] | None
    size: int | None
    deletion_timestamp: int | None
    data_change: bool
    stats: str | None
    deletion_vector: DeletionVector | None = None
    extra_fields: Mapping[str, Any] | None = None


class Cdc(NamedTuple):
    """A file of changed rows, which only the change feed reads."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    extra_fields: Mapping[str, Any] | None = None


FileAction: TypeAlias = Add | Remove | Cdc


@dataclass(frozen=True, slots=True)
class Commit:
    version: int
    timestamp: int
    """Commit time in milliseconds since 1970. Increases from commit to commit."""
    protocol: Protocol | None
    metadata: Metadata | None
    files: tuple[FileAction, ...]
    """In log order."""
    changes_no_row: bool
    """Whether the commit is a MERGE whose metrics count no inserted, updated or deleted rows."""
    progress: float
    """The share of the range that is read with this commit, by bytes of commits."""


def file_key(file: Add | Remove) -> FileKey:
    return file.path if file.deletion_vector is None else (file.path, file.deletion_vector.unique_id)


def file_keys(paths: Sequence[str], vectors: Sequence[DeletionVector | None]) -> Sequence[FileKey]:
    if not any(vectors):
        return paths
    files = zip(paths, vectors, strict=True)
    return [path if vector is None else (path, vector.unique_id) for path, vector in files]


class Totals(NamedTuple):
    num_files: int
    size: int
    num_deletion_vectors: int

    def plus(self, others: "Totals") -> "Totals":
        return Totals(*map(operator.add, self, others))

    def without(self, others: "Totals") -> "Totals":
        return Totals(*map(operator.sub, self, others))
