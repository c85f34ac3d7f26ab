"""Random tables of a few files, in memory, with rows, partition values and statistics."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import strategies as st

from core.pruning.predicate import Predicate as Compiled
from core.pruning.predicate import compile_predicate
from tests.property.pruning.column_types import COLUMN_TYPES, EXACT_TYPES
from tests.property.pruning.predicates import Column, Drawing, Predicate, Row
from tests.property.pruning.writers import Writer

HOUR = 3_600_000_000
UTC_OFFSETS = st.integers(-72, 72).map(lambda quarters: quarters * HOUR // 4)
PLACES = ("data", "partition", "nested")
COLUMNS = [Column(column_type, place) for column_type in COLUMN_TYPES for place in PLACES]
EXACT_COLUMNS = [Column(column_type, place) for column_type in EXACT_TYPES for place in PLACES]


class DeletionVector(NamedTuple):
    cardinality: int


class File(NamedTuple):
    partition_values: dict[str, str | None]
    stats: str | None
    deletion_vector: DeletionVector | None
    rows: list[Row]
    """The rows that are not deleted."""


@dataclass(frozen=True)
class Table:
    columns: Sequence[Column]
    mapped: bool
    utc_offset: int
    """The client's UTC offset in microseconds."""

    def physical(self, name: str) -> str:
        return f"col-{name[::-1]}" if self.mapped else name

    @property
    def schema_string(self) -> str:
        def field(name: str, data_type: Any) -> dict:
            metadata = {"delta.columnMapping.physicalName": f"col-{name[::-1]}"} if self.mapped else {}
            return {"name": name, "type": data_type, "nullable": True, "metadata": metadata}

        nested = [field(one.name, one.type.delta_type) for one in self.columns if one.place == "nested"]
        fields = [field(one.name, one.type.delta_type) for one in self.columns if one.place != "nested"]
        box = field("box", {"type": "struct", "fields": nested})
        return json.dumps({"type": "struct", "fields": [*fields, box] if nested else fields})

    def compile(self, predicate: Predicate, language: str) -> Compiled:
        compiled = compile_predicate(
            [predicate.sql] if language == "sql" else [],
            None if language == "sql" else json.dumps(predicate.json),
            schema_string=self.schema_string,
            partition_columns=[column.name for column in self.columns if column.place == "partition"],
            column_mapping=self.mapped,
        )
        assert compiled is not None
        return compiled

    def file(self, drawing: Drawing, writers: Sequence[Writer], *, complete: bool = False) -> File:
        """Draws a file. If `complete`, it has all partition values and statistics, and no deleted rows."""

        def value(column: Column) -> Any:
            return None if drawing.chance(4) else drawing.value(column)

        partition = {column: value(column) for column in self.columns if column.place == "partition"}
        others = [column for column in self.columns if column.place != "partition"]
        rows = [partition | {column: value(column) for column in others} for _ in range(drawing.pick([1, 2, 3, 4]))]
        deleted = 0 if complete else drawing.pick(range(len(rows)), "deleted rows")
        return File(
            {
                self.physical(column.name): self._partition_text(column, own, drawing, complete=complete)
                for column, own in partition.items()
            },
            self._stats(others, rows, drawing, writers, complete=complete),
            DeletionVector(deleted) if deleted else None,
            rows[deleted:],
        )

    def _partition_text(self, column: Column, value: Any, drawing: Drawing, *, complete: bool) -> str | None:
        if value is None:
            may_be_empty = not (complete and column.type.name == "string")  # deltalake reads "" as a string
            return drawing.pick([None, ""]) if may_be_empty else None
        texts = column.type.partition_texts(value, self.utc_offset)
        return texts[0] if complete else drawing.pick(texts)

    def _stats(
        self, columns: list[Column], rows: list[Row], drawing: Drawing, writers: Sequence[Writer], *, complete: bool
    ) -> str | None:
        parts: dict[str, list[tuple[Column, str]]] = {"minValues": [], "maxValues": [], "nullCount": []}
        writer = drawing.pick(writers, "writer")
        for column in columns:
            values = [row[column] for row in rows if row[column] is not None]
            nulls = str(len(rows) - len(values)) if complete or not drawing.chance(6) else None
            for name, text in zip(parts, (*writer(column.type, values, drawing), nulls), strict=True):
                if text is not None:
                    parts[name].append((column, text))
        fragments = [f'"{name}":{self._object(entries)}' for name, entries in parts.items()]
        if complete or not drawing.chance(8):
            fragments.append(f'"numRecords":{len(rows)}')
        if not complete and drawing.chance(2):
            fragments.append('"tightBounds":false')
        if not complete and drawing.chance(12):
            return drawing.pick([None, "", "{}", "{"])
        return "{" + ",".join(fragments) + "}"

    def _object(self, entries: list[tuple[Column, str]]) -> str:
        members = {
            place: [
                f"{json.dumps(self.physical(column.name))}:{text}"
                for column, text in entries
                if (column.place == "nested") == (place == "nested")
            ]
            for place in ("data", "nested")
        }
        if members["nested"]:
            members["data"].append(f"{json.dumps(self.physical('box'))}:{{{','.join(members['nested'])}}}")
        return "{" + ",".join(members["data"]) + "}"


def tables(columns: Sequence[Column]) -> st.SearchStrategy[Table]:
    return st.builds(
        Table,
        st.lists(st.sampled_from(columns), min_size=1, max_size=3, unique=True),
        st.booleans(),
        UTC_OFFSETS,
    )
