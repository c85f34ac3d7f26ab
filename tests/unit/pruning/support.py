"""Builders for the pruning tests: a table with a schema, files with partition values or statistics, JSON hints."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from core.pruning.columns import FileColumns
from core.pruning.files import ALL_MATCH, MAY_MATCH
from core.pruning.predicate import Predicate, compile_predicate


class DeletionVector(NamedTuple):
    cardinality: int


class File(NamedTuple):
    partition_values: dict[str, str | None]
    stats: str | None = None
    deletion_vector: DeletionVector | None = None


def columns_of(files: Sequence[File]) -> FileColumns:
    return FileColumns([file.partition_values for file in files], [file.stats for file in files])


@dataclass
class Table:
    """`types` maps each column to the name of a Delta type, or to a nested type as in a schema."""

    types: dict[str, Any]
    partition_columns: tuple[str, ...] = ()
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    column_mapping: bool = False

    @property
    def schema_string(self) -> str:
        fields = [
            {"name": name, "type": data_type, "nullable": True, "metadata": self.metadata.get(name, {})}
            for name, data_type in self.types.items()
        ]
        return json.dumps({"type": "struct", "fields": fields})

    def compile(self, *hints: str | dict | list) -> Predicate | None:
        """Strings are SQL hints. Anything else is a JSON hint before serialization."""
        documents = [hint for hint in hints if not isinstance(hint, str)]
        return compile_predicate(
            [hint for hint in hints if isinstance(hint, str)],
            json.dumps(documents[0]) if documents else None,
            schema_string=self.schema_string,
            partition_columns=self.partition_columns,
            column_mapping=self.column_mapping,
        )

    def truth_value(self, hint: str | dict | list, file: File) -> int:
        predicate = self.compile(hint)
        assert predicate is not None
        (value,) = predicate.evaluate(columns_of([file]))
        return value

    def keeps(self, hint: str | dict | list, file: File) -> bool:
        return bool(self.truth_value(hint, file) & MAY_MATCH)

    def matches_every_row(self, hint: str | dict | list, file: File) -> bool:
        return bool(self.truth_value(hint, file) & ALL_MATCH)


def in_partition(**values: str | None) -> File:
    return File(values)


def with_stats(minimum: Any = None, maximum: Any = None, nulls: Any = None, rows: Any = 10, **more: Any) -> File:
    """Returns a file with these statistics for column `c`. None leaves out an entry."""
    stats = {
        name: {"c": value}
        for name, value in (("minValues", minimum), ("maxValues", maximum), ("nullCount", nulls))
        if value is not None
    }
    return File({}, json.dumps({"numRecords": rows} | stats | more))


def column(name: str, value_type: str) -> dict:
    return {"op": "column", "name": name, "valueType": value_type}


def literal(value: Any, value_type: str) -> dict:
    return {"op": "literal", "value": value, "valueType": value_type}


def op(name: str, *children: Any) -> dict:
    return {"op": name, "children": list(children)}


def compare(name: str, operator: str, value: Any, value_type: str) -> dict:
    return op(operator, column(name, value_type), literal(value, value_type))
