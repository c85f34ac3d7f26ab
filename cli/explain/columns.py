"""Columns of files that remember what a predicate asked of their statistics, and so know where it got no answer."""

from collections.abc import Sequence
from typing import TypeAlias

from core.pruning.columns import Absent, Columns, JsonValue

Path: TypeAlias = tuple[str, ...]


class AskedColumns:
    def __init__(self, columns: Columns, asked: tuple[set[Path], set[Path]] | None = None) -> None:
        self._columns = columns
        self._ranges, self._null_counts = self._asked = asked or (set(), set())

    def __len__(self) -> int:
        return len(self._columns)

    def select(self, chosen: bytes) -> "AskedColumns":
        return AskedColumns(self._columns.select(chosen), self._asked)

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
        """Of each file, whether something that was asked is not there. A column of nulls alone has no range to tell."""
        columns, rows = self._columns, self.num_records()
        lacking = [False] * len(rows)
        for path in self._ranges:
            found = zip(columns.minimum(path), columns.maximum(path), columns.null_count(path), rows, strict=True)
            for number, (low, high, nulls, all_rows) in enumerate(found):
                lacking[number] |= (low is None or high is None) and (nulls is None or nulls != all_rows)
        for path in self._null_counts - self._ranges:
            for number, nulls in enumerate(columns.null_count(path)):
                lacking[number] |= nulls is None
        return lacking
