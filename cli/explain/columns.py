"""Statistics of files that record what a predicate reads, to find the files that lack it."""

from collections.abc import Sequence
from typing import TypeAlias

from core.pruning.columns import Absent, Columns, JsonValue

Path: TypeAlias = tuple[str, ...]


class RecordingColumns:
    def __init__(self, columns: Columns, reads: tuple[set[Path], set[Path]] | None = None) -> None:
        self._columns = columns
        self._ranges, self._null_counts = self._reads = reads or (set(), set())

    def __len__(self) -> int:
        return len(self._columns)

    def select(self, chosen: bytes) -> "RecordingColumns":
        return RecordingColumns(self._columns.select(chosen), self._reads)

    def partition(self, name: str) -> Sequence[str | Absent | None]:
        return self._columns.partition(name)

    def minimum(self, path: Path) -> Sequence[JsonValue]:
        self._ranges.add(path)
        return self._columns.minimum(path)

    def maximum(self, path: Path) -> Sequence[JsonValue]:
        self._ranges.add(path)
        return self._columns.maximum(path)

    def null_count(self, path: Path) -> Sequence[JsonValue]:
        self._null_counts.add(path)
        return self._columns.null_count(path)

    def num_records(self) -> Sequence[JsonValue]:
        return self._columns.num_records()

    def lack_statistics(self) -> list[bool]:
        """Returns for each file whether it lacks statistics that were read. A column of only nulls has no range."""
        columns, rows = self._columns, self.num_records()
        lacking = [False] * len(rows)
        for path in self._ranges:
            found = zip(columns.minimum(path), columns.maximum(path), columns.null_count(path), rows, strict=True)
            for index, (low, high, nulls, all_rows) in enumerate(found):
                lacking[index] |= (low is None or high is None) and (nulls is None or nulls != all_rows)
        for path in self._null_counts - self._ranges:
            for index, nulls in enumerate(columns.null_count(path)):
                lacking[index] |= nulls is None
        return lacking
