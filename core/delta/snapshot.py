"""What the rest of core sees of a Delta table: a snapshot.

A snapshot is one version of a table: its protocol, its metadata and its live files. How it was read (by
`deltalake`, from the log's own files, one day from the index) stays behind this interface.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


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
    configuration: Mapping[str, str] = field(default_factory=dict)
    created_time: int | None = None


class Add(NamedTuple):
    """A live file. `path`, `partition_values` and `stats` are the log's own strings, never rewritten."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modification_time: int
    stats: str | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    version: int
    timestamp: int
    """When the version was committed, in milliseconds since 1970."""
    protocol: Protocol
    metadata: Metadata
    num_files: int
    size: int
    """The bytes of all live files."""
    adds: Callable[[], Iterator[Add]]
