"""Resolves column names in hints to the paths and types that the log uses.

Hints use logical names, in any case. The log uses physical names if the table maps columns. An ambiguous name matches
no column.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
DATES_AND_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
ORDERED = frozenset({*INTEGER_BITS, *DATES_AND_TIMES, "boolean", "float", "double", "decimal", "string"})
# Types that we cannot order, but whose nulls the statistics count.
UNORDERED = frozenset({"binary", "char", "collated string"})
DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),\s*([0-9]{1,2})\)")
PHYSICAL_NAME = "delta.columnMapping.physicalName"
# Metadata key for the declared type of a column that contains char or varchar, such as struct<a:char(3)>.
DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
CHAR = re.compile(r"\bchar\(")


@dataclass(frozen=True, slots=True)
class DataType:
    """A Delta type. Columns of types that are neither `ORDERED` nor `UNORDERED` are not used for pruning."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


@dataclass(frozen=True, slots=True)
class Field:
    path: tuple[str, ...]
    """The path in partition values and statistics, in physical names."""
    type: DataType
    in_partitions: bool
    was_float: bool
    """Whether the type was widened from float. Older statistics then hold the shortest text of a float (0.1)."""


class NoColumnError(Exception):
    """A name matches no column, or more than one. The message says which."""


class Schema:
    def __init__(self, schema_string: str, partition_columns: Sequence[str], *, column_mapping: bool) -> None:
        try:
            self._root = orjson.loads(schema_string)
        except ValueError:
            self._root = None
        self._partition_columns = frozenset(partition_columns)
        self._column_mapping = column_mapping

    def find(self, path: tuple[str, ...]) -> Field:
        found = self._find_all(path)
        if len(found) != 1:
            raise NoColumnError("the column name is ambiguous" if found else "the table has no such column")
        return found[0]

    def has(self, path: tuple[str, ...]) -> bool:
        """Whether the path names at least one column."""
        return bool(self._find_all(path))

    def _find_all(self, path: tuple[str, ...]) -> list[Field]:
        found = self._search(path)
        if len(path) == 1 and "." in path[0]:  # a name with a dot, or JSON notation for a field of a struct
            found += self._search(tuple(path[0].split(".")))
        return found

    def leaves(self) -> list[Field]:
        """Returns all columns in schema order, with the inner columns of a struct instead of the struct."""
        return list(self._leaves((), {"type": self._root}, has_char=False))

    def _leaves(self, path: tuple[str, ...], parent: Mapping[str, Any], *, has_char: bool) -> Iterator[Field]:
        for field in _fields(parent["type"]):
            inner = (*path, self._physical_name(field))
            inner_has_char = has_char or _has_char(field)
            if _fields(field["type"]):
                yield from self._leaves(inner, field, has_char=inner_has_char)
            else:
                yield self._field(inner, field, has_char=inner_has_char)

    def _search(self, path: tuple[str, ...]) -> list[Field]:
        if is_partition_value(path) and not _named(self._root, path[0]):
            return [field for field in self._walk(path[1:]) if field.in_partitions]
        return self._walk(path)

    def _walk(self, path: tuple[str, ...]) -> list[Field]:
        found: list[tuple[tuple[str, ...], Mapping[str, Any], bool]] = [((), {"type": self._root}, False)]
        for name in path:
            found = [
                ((*physical, self._physical_name(field)), field, has_char or _has_char(field))
                for physical, parent, has_char in found
                for field in _named(parent["type"], name)
            ]
        return [self._field(physical, field, has_char=has_char) for physical, field, has_char in found]

    def _field(self, path: tuple[str, ...], field: Mapping[str, Any], *, has_char: bool) -> Field:
        return Field(
            path=path,
            type=_type_of(field, has_char=has_char),
            in_partitions=len(path) == 1 and field["name"] in self._partition_columns,
            was_float=_was_float(field),
        )

    def _physical_name(self, field: Mapping[str, Any]) -> str:
        name = _metadata(field).get(PHYSICAL_NAME) if self._column_mapping else None
        return name if isinstance(name, str) else str(field["name"])


def is_partition_value(path: tuple[str, ...]) -> bool:
    """Whether the path is Spark's notation `partitionValues.<column>`, an entry in a map of strings."""
    return len(path) > 1 and path[0].lower() == "partitionvalues"


def _named(struct: Any, name: str) -> list[Mapping[str, Any]]:
    return [field for field in _fields(struct) if field["name"].lower() == name.lower()]


def _fields(struct: Any) -> list[Mapping[str, Any]]:
    fields = struct.get("fields") if isinstance(struct, dict) else None
    return [
        field
        for field in (fields if isinstance(fields, list) else [])
        if isinstance(field, dict) and "type" in field and isinstance(field.get("name"), str)
    ]


def _metadata(field: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = field.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _has_char(field: Mapping[str, Any]) -> bool:
    return bool(CHAR.search(str(_metadata(field).get(DECLARED_TYPE))))


def _type_of(field: Mapping[str, Any], *, has_char: bool) -> DataType:
    name, metadata = field["type"], _metadata(field)
    if not isinstance(name, str):
        return DataType("nested")
    if decimal := DECIMAL.fullmatch(name):
        return DataType("decimal", int(decimal[1]), int(decimal[2]))
    if name.startswith("string"):
        if name != "string" or "__COLLATIONS" in metadata:
            return DataType("collated string")
        # Spark pads char values and the literals they are compared with.
        if has_char:
            return DataType("char")
    return DataType(name)


def _was_float(field: Mapping[str, Any]) -> bool:
    changes = _metadata(field).get("delta.typeChanges")
    return isinstance(changes, list) and any(
        isinstance(change, dict) and change.get("fromType") == "float" for change in changes
    )
