"""Parses and validates the JSON actions of a log.

Every field is checked: a value of the wrong type would make an answer wrong, or fail after half of it was sent.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import orjson

from core.delta.log.damage import INVALID, Position, what_is_wrong
from core.delta.model import PHYSICAL_NAME, Add, Cdc, DeletionVector, Metadata, Protocol, Remove
from core.errors import DamagedLogError

T = TypeVar("T")

MAX_SIZE = 2**63 - 1
# For error messages: types in the words of JSON.
JSON_TYPES: Mapping[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a fraction",
    bool: "true or false",
    dict: "an object",
    list: "an array",
    type(None): "null",
}
# Rare fields of file actions. They are relayed unchanged.
EXTRA_FIELDS = ("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider")


def memory_of(add: Add) -> int:
    """Approximate memory of an Add in CPython."""
    return 700 + len(add.path) + len(add.stats or "")


class TableAction(NamedTuple):
    """An action that is not about a file, and where it is.

    Its content is checked only if it is in force, because Delta readers do not look at actions that were replaced.
    """

    name: str
    content: Any
    file: str
    line: int | None = None
    is_ambiguous: bool = False
    """Whether the same commit has another action of this name with another content."""

    def parsed(self, parse: Callable[[Any], T]) -> T:
        """Returns the checked content. Raises if it is not valid."""
        try:
            if self.is_ambiguous:
                raise ValueError("this commit has another one that differs")
            return parse(self.content)
        except INVALID as error:
            what = f"{self.name}: {what_is_wrong(error)}"
            raise DamagedLogError(what, file=self.file or None, line=self.line) from error


def json_actions(content: bytes, at: Position) -> Iterator[dict[str, Any]]:
    """Yields the actions of a commit, and keeps `at` at the current one."""
    for at.line, text in enumerate(content.splitlines(), 1):
        if text.strip():
            at.action = None
            at.action = action = of_type(dict, orjson.loads(text), "the line")
            yield action


def take_single(action: Mapping[str, Any], found: dict[str, TableAction], at: Position) -> None:
    """Collects actions that a commit may contain only once. Tolerates an identical duplicate."""
    for name in ("commitInfo", "metaData", "protocol"):
        content = action.get(name)
        if content is not None:
            first = found.setdefault(name, TableAction(name, content, at.file, at.line))
            if first.content != content and name != "commitInfo":
                found[name] = first._replace(line=at.line, is_ambiguous=True)


def in_commit_timestamp_of(info: TableAction | None) -> int | None:
    """Returns the in-commit timestamp of a `commitInfo`, or None if it has none."""
    return info.parsed(_in_commit_timestamp) if info else None


def _in_commit_timestamp(info: object) -> int | None:
    return optional(int, of_type(dict, info, "the action").get("inCommitTimestamp"), "inCommitTimestamp")


def add(action: dict[str, Any]) -> Add:
    of_type(dict, action, "the action")
    return Add(
        path(action["path"]),
        partition_values(action["partitionValues"]),
        size(action["size"]),
        of_type(int, action["modificationTime"], "modificationTime"),
        of_type(bool, action.get("dataChange", True), "dataChange"),
        optional(str, action.get("stats"), "stats"),
        deletion_vector(action.get("deletionVector")),
        extra_fields(action),
    )


def remove(action: dict[str, Any]) -> Remove:
    values = of_type(dict, action, "the action").get("partitionValues")
    return Remove(
        path(action["path"]),
        None if values is None else partition_values(values),
        None if action.get("size") is None else size(action["size"]),
        optional(int, action.get("deletionTimestamp"), "deletionTimestamp"),
        of_type(bool, action.get("dataChange", True), "dataChange"),
        optional(str, action.get("stats"), "stats"),
        deletion_vector(action.get("deletionVector")),
        extra_fields(action),
    )


def cdc(action: dict[str, Any]) -> Cdc:
    of_type(dict, action, "the action")
    return Cdc(
        path(action["path"]),
        partition_values(action["partitionValues"]),
        size(action["size"]),
        extra_fields(action),
    )


def protocol(action: dict[str, Any]) -> Protocol:
    of_type(dict, action, "the action")
    return Protocol(
        min_reader_version=of_type(int, action["minReaderVersion"], "minReaderVersion"),
        min_writer_version=of_type(int, action["minWriterVersion"], "minWriterVersion"),
        reader_features=texts(action.get("readerFeatures"), "readerFeatures"),
        writer_features=texts(action.get("writerFeatures"), "writerFeatures"),
    )


def metadata(action: dict[str, Any]) -> Metadata:
    of_type(dict, action, "the action")
    file_format = of_type(dict, action["format"], "format")
    return Metadata(
        id=of_type(str, action["id"], "id"),
        schema_string=schema(action["schemaString"]),
        partition_columns=texts(action.get("partitionColumns"), "partitionColumns"),
        name=optional(str, action.get("name"), "name"),
        description=optional(str, action.get("description"), "description"),
        provider=of_type(str, file_format["provider"], "provider"),
        options=properties(file_format.get("options"), "options"),
        configuration=properties(action.get("configuration"), "configuration"),
        created_time=optional(int, action.get("createdTime"), "createdTime"),
    )


def schema(value: object) -> str:
    """Returns the schema unchanged, after checking its columns."""
    text = of_type(str, value, "schemaString")
    try:
        parsed = of_type(dict, orjson.loads(text), "the schema")
        for column in of_type(list, parsed["fields"], "fields"):
            of_type(dict, column, "a column")
            of_type(str, column["name"], "the name of a column")
            if not isinstance(column["type"], (str, dict)):
                raise TypeError("a column has no type")
            column_metadata = optional(dict, column.get("metadata"), "the metadata of a column") or {}
            of_type(str, column_metadata.get(PHYSICAL_NAME, ""), PHYSICAL_NAME)
    except INVALID as error:
        raise ValueError(f"schemaString: {what_is_wrong(error)}") from error
    return text


def deletion_vector(value: dict[str, Any] | None) -> DeletionVector | None:
    if value is None:
        return None
    of_type(dict, value, "deletionVector")
    return DeletionVector(
        of_type(str, value["storageType"], "storageType"),
        of_type(str, value["pathOrInlineDv"], "pathOrInlineDv"),
        optional(int, value.get("offset"), "offset"),
        of_type(int, value["sizeInBytes"], "sizeInBytes"),
        of_type(int, value["cardinality"], "cardinality"),
    )


def extra_fields(action: Mapping[str, Any]) -> dict[str, Any] | None:
    return {name: action[name] for name in EXTRA_FIELDS if action.get(name) is not None} or None


def path(value: object) -> str:
    text = of_type(str, value, "path")
    if not text:
        raise ValueError("path is empty")
    return text


def size(value: object) -> int:
    number = of_type(int, value, "size")
    if not 0 <= number <= MAX_SIZE:
        raise ValueError("size is out of range")
    return number


def partition_values(value: object) -> dict[str, str | None]:
    values = of_type(dict, value or {}, "partitionValues")
    for text in values.values():
        optional(str, text, "a partition value")
    return values


def properties(value: object, name: str) -> dict[str, str]:
    """Returns properties as strings, because some writers log numbers and booleans. Leaves out null properties."""
    values = of_type(dict, value or {}, name)
    return {key: _as_text(setting, name) for key, setting in values.items() if setting is not None}


def _as_text(setting: object, name: str) -> str:
    if isinstance(setting, (bool, int, float)):
        return orjson.dumps(setting).decode()
    return of_type(str, setting, f"a value of {name}")


def texts(value: object, name: str) -> tuple[str, ...]:
    return tuple(of_type(str, text, f"an entry of {name}") for text in of_type(list, value or [], name))


def optional(expected: type[T], value: object, name: str) -> T | None:
    return None if value is None else of_type(expected, value, name)


def of_type(expected: type[T], value: object, name: str) -> T:
    """Returns the value if its type is exactly `expected`. `isinstance` would accept a bool as an int."""
    if type(value) is not expected:
        raise TypeError(f"{name} is {JSON_TYPES.get(type(value), 'of another type')}, not {JSON_TYPES[expected]}")
    return value
