"""The files of a chunk for a query: columns for its predicate, and the files themselves if it keeps any."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import TypeVar

from core.delta.log.batch import AddFields
from core.delta.log.rows import FileRows
from core.delta.model import Add, DeletionVector
from core.index.layout.chunk import Chunk
from core.pruning.columns import Absent, Columns, FileColumns, JsonValue

T = TypeVar("T")


class IndexedFiles:
    def __init__(self, chunk: Chunk, positions: Sequence[int]) -> None:
        """`positions` selects files of the chunk, in ascending order."""
        self._chunk = chunk
        self._positions = positions

    @cached_property
    def files(self) -> FileRows:
        whole = len(self._positions) == self._chunk.size
        return self._chunk.files if whole else self._chunk.files.at(self._positions)

    @property
    def num_files(self) -> int:
        return len(self._positions)

    @property
    def paths(self) -> Sequence[str]:
        return self.files.paths

    @property
    def partition_values(self) -> Sequence[Mapping[str, str | None]]:
        return self.files.partition_values

    @property
    def sizes(self) -> Sequence[int]:
        return self.files.sizes

    @property
    def stats(self) -> Sequence[str | None]:
        return self.files.stats

    @property
    def deletion_vectors(self) -> Sequence[DeletionVector | None]:
        return self.files.deletion_vectors

    @property
    def columns(self) -> Columns:
        return ChunkColumns(self._chunk, self._positions)

    def adds(self) -> Iterator[Add]:
        return self.files.adds()

    def add_fields(self, names: Sequence[str]) -> AddFields:
        return self.files.add_fields(names)

    def between(self, begin: int, end: int) -> "IndexedFiles":
        return IndexedFiles(self._chunk, self._positions[begin:end])

    def only(self, chosen: Iterable[object]) -> "IndexedFiles":
        return IndexedFiles(self._chunk, list(compress(self._positions, chosen)))


class ChunkColumns:
    """Columns from their sections. A column without a section is read from the files, as without an index."""

    def __init__(self, chunk: Chunk, positions: Sequence[int]) -> None:
        self._chunk = chunk
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    def select(self, chosen: bytes) -> "ChunkColumns":
        return ChunkColumns(self._chunk, list(compress(self._positions, chosen)))

    def partition(self, name: str) -> Sequence[str | Absent | None]:
        column = self._chunk.partition(name)
        return self._unindexed.partition(name) if column is None else self._selected(column)

    def minimum(self, path: tuple[str, ...]) -> Sequence[JsonValue]:
        columns = self._chunk.stats(path)
        return self._unindexed.minimum(path) if columns is None else self._selected(columns[0])

    def maximum(self, path: tuple[str, ...]) -> Sequence[JsonValue]:
        columns = self._chunk.stats(path)
        return self._unindexed.maximum(path) if columns is None else self._selected(columns[1])

    def null_count(self, path: tuple[str, ...]) -> Sequence[JsonValue]:
        columns = self._chunk.stats(path)
        return self._unindexed.null_count(path) if columns is None else self._selected(columns[2])

    def num_records(self) -> Sequence[JsonValue]:
        return self._selected(self._chunk.num_records)

    @cached_property
    def _unindexed(self) -> FileColumns:
        files = self._chunk.files.at(self._positions)
        return FileColumns(files.partition_values, files.stats)

    def _selected(self, column: Sequence[T]) -> Sequence[T]:
        return column if len(self._positions) == len(column) else [column[position] for position in self._positions]
