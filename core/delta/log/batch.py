"""Batches of live files, by column: a few thousand at a time, so a large table is never in memory as a whole."""

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from core.delta.model import Add, DeletionVector
from core.pruning.columns import Columns, FileColumns

if TYPE_CHECKING:
    from arro3.core import Array


class ArrowField(NamedTuple):
    """One field of a batch as an Arrow array. `read` converts it to Python values."""

    array: "Array"
    read: Callable[[], Sequence[Any]]


AddFields: TypeAlias = Mapping[str, ArrowField | Sequence[Any]]
"""Fields of `add` actions by column, under the log's names. A missing value is None."""


class FileBatch(typing.Protocol):
    @property
    def num_files(self) -> int: ...

    @property
    def columns(self) -> Columns:
        """The columns that predicates are evaluated on."""

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
        """Yields the files as actions."""

    def add_fields(self, names: Sequence[str]) -> AddFields:
        """Returns the named fields. May leave out a field that no file has."""

    def between(self, begin: int, end: int) -> "FileBatch": ...

    def only(self, chosen: Iterable[object]) -> "FileBatch":
        """Returns the files whose entry in `chosen` is true."""


class NumberedBatch(NamedTuple):
    """Live files of a snapshot with their numbers in its order, ascending. Files that are not live leave gaps."""

    numbers: Sequence[int]
    files: FileBatch

    def between(self, begin: int, end: int) -> "NumberedBatch":
        return NumberedBatch(self.numbers[begin:end], self.files.between(begin, end))

    def only(self, chosen: Iterable[object]) -> "NumberedBatch":
        mask = list(chosen)
        return NumberedBatch(list(compress(self.numbers, mask)), self.files.only(mask))


class AddBatch(NamedTuple):
    """A batch from `Add` actions. Its columns are in the order of the fields of `Add`."""

    paths: Sequence[str]
    partition_values: Sequence[Mapping[str, str | None]]
    sizes: Sequence[int]
    modification_times: Sequence[int]
    data_changes: Sequence[bool]
    stats: Sequence[str | None]
    deletion_vectors: Sequence[DeletionVector | None]
    extra_fields: Sequence[Mapping[str, Any] | None]

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

    def add_fields(self, names: Sequence[str]) -> AddFields:
        return {name: self._field(name) for name in names}

    def _field(self, name: str) -> Sequence[Any]:
        if name in FIELDS:
            return self[FIELDS[name]]
        return [fields and fields.get(name) for fields in self.extra_fields]

    def between(self, begin: int, end: int) -> "AddBatch":
        return AddBatch._make(column[begin:end] for column in self)

    def only(self, chosen: Iterable[object]) -> "AddBatch":
        mask = list(chosen)
        return AddBatch._make(list(compress(column, mask)) for column in self)


# The position of each field in a batch.
FIELDS = {"partitionValues": 1, "size": 2, "modificationTime": 3, "dataChange": 4, "stats": 5}
