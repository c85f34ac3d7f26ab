"""Tables of a few files, each with rows, and with what a writer puts into the log about them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import strategies as st

from core.pruning.predicate import Predicate as Compiled
from core.pruning.predicate import compile_predicate
from tests.property.pruning.kinds import EXACT_KINDS, KINDS
from tests.property.pruning.predicates import Column, Predicate, Row
from tests.property.pruning.writers import Writer

HOUR = 3_600_000_000
ZONES = st.integers(-72, 72).map(lambda quarters: quarters * HOUR // 4)
PLACES = ("data", "partition", "nested")
COLUMNS = [Column(kind, place) for kind in KINDS for place in PLACES]
EXACT_COLUMNS = [Column(kind, place) for kind in EXACT_KINDS for place in PLACES]


class DeletionVector(NamedTuple):
    cardinality: int


class File(NamedTuple):
    partition_values: dict[str, str | None]
    stats: str | None
    deletion_vector: DeletionVector | None
    rows: list[Row]
    """Those that are not deleted."""


@dataclass(frozen=True)
class Table:
    columns: Sequence[Column]
    mapped: bool
    zone: int
    """The client's distance from UTC."""

    def physical(self, name: str) -> str:
        return f"col-{name[::-1]}" if self.mapped else name

    @property
    def schema_string(self) -> str:
        def field(name: str, data_type: Any) -> dict:
            metadata = {"delta.columnMapping.physicalName": f"col-{name[::-1]}"} if self.mapped else {}
            return {"name": name, "type": data_type, "nullable": True, "metadata": metadata}

        nested = [field(one.name, one.kind.delta_type) for one in self.columns if one.place == "nested"]
        fields = [field(one.name, one.kind.delta_type) for one in self.columns if one.place != "nested"]
        box = field("box", {"type": "struct", "fields": nested})
        return json.dumps({"type": "struct", "fields": [*fields, box] if nested else fields})

    def compile(self, predicate: Predicate, language: str) -> Compiled:
        compiled = compile_predicate(
            [predicate.sql] if language == "sql" else [],
            json.dumps(predicate.json) if language == "json" else None,
            schema_string=self.schema_string,
            partition_columns=[column.name for column in self.columns if column.place == "partition"],
            column_mapping=self.mapped,
        )
        assert compiled is not None
        return compiled

    def file(self, data: st.DataObject, writers: Sequence[Writer], *, complete: bool = False) -> File:
        partitions = [column for column in self.columns if column.place == "partition"]
        partition = {column: data.draw(st.none() | column.kind.values, column.name) for column in partitions}
        texts = {
            column: self._partition_text(column, value, data, complete=complete) for column, value in partition.items()
        }
        row = st.fixed_dictionaries(
            {column: st.none() | column.kind.values for column in self.columns if column not in partition}
        )
        written = [partition | drawn for drawn in data.draw(st.lists(row, min_size=1, max_size=4), "rows")]
        deleted = 0 if complete else data.draw(st.integers(0, len(written) - 1), "deleted rows")
        return File(
            {self.physical(column.name): text for column, text in texts.items()},
            self._stats(written, data, writers, complete=complete),
            DeletionVector(deleted) if deleted else None,
            written[deleted:],
        )

    def _partition_text(self, column: Column, value: Any, data: st.DataObject, *, complete: bool) -> str | None:
        if value is None:
            return data.draw(st.sampled_from([None, ""]), "null")
        if complete:
            return column.kind.partition_texts(value, self.zone)[0]
        return data.draw(st.sampled_from(column.kind.partition_texts(value, self.zone)), "partition value")

    def _stats(self, rows: list[Row], data: st.DataObject, writers: Sequence[Writer], *, complete: bool) -> str | None:
        parts: dict[str, list[tuple[Column, str]]] = {"minValues": [], "maxValues": [], "nullCount": []}
        for column in self.columns:
            if column.place == "partition":
                continue
            values = [row[column] for row in rows if row[column] is not None]
            bounds = data.draw(st.sampled_from(writers), "writer")(column.kind, values, data)
            forgets_nulls = not complete and data.draw(st.integers(0, 4), "null count is there if not 0") == 0
            nulls = None if forgets_nulls else str(len(rows) - len(values))
            for name, text in zip(parts, (*bounds, nulls), strict=True):
                if text is not None:
                    parts[name].append((column, text))
        fragments = [f'"{name}":{self._object(entries)}' for name, entries in parts.items()]
        if complete or data.draw(st.integers(0, 5), "row count is there if not 0"):
            fragments.insert(0, f'"numRecords":{len(rows)}')
        if not complete:
            fragments.append(f'"tightBounds":{data.draw(st.sampled_from(["true", "false"]), "tight")}')
            if not data.draw(st.integers(0, 9), "statistics are there if not 0"):
                return data.draw(st.sampled_from([None, "", "{}", "{"]), "no statistics")
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
        ZONES,
    )
