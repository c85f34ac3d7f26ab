"""Parses and validates the JSON actions of a log.

Every field is checked: a value of the wrong type would make an answer wrong, or fail after half of it was sent.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import orjson

from core.delta.model import PHYSICAL_NAME, Add, Cdc, DeletionVector, Metadata, Protocol, Remove
from core.errors import MalformedRequestError

T = TypeVar("T")

MAX_SIZE = 2**63 - 1
# Rare fields of file actions. They are relayed unchanged.
EXTRA_FIELDS = ("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider")


def memory_of(add: Add) -> int:
    """Approximate memory of an Add in CPython."""
    return 700 + len(add.path) + len(add.stats or "")


@contextlib.contextmanager
def valid_actions() -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise MalformedRequestError(
            "The table's transaction log has an entry that is not a valid Delta action."
        ) from error


def json_actions(commit: bytes) -> Iterator[dict[str, Any]]:
    for line in commit.splitlines():
        if line.strip():
            yield of_type(dict, orjson.loads(line))


def take_single(action: dict[str, Any], found: dict[str, Any]) -> None:
    """Collects actions that a commit may contain only once. Tolerates an identical duplicate."""
    for name in ("commitInfo", "metaData", "protocol"):
        value = action.get(name)
        if value is not None and found.setdefault(name, of_type(dict, value)) != value and name != "commitInfo":
            raise ValueError(f"two {name} actions in one commit")


def add(action: dict[str, Any]) -> Add:
    return Add(
        path(action["path"]),
        partition_values(action["partitionValues"]),
        size(action["size"]),
        of_type(int, action["modificationTime"]),
        of_type(bool, action.get("dataChange", True)),
        optional(str, action.get("stats")),
        deletion_vector(action.get("deletionVector")),
        extra_fields(action),
    )


def remove(action: dict[str, Any]) -> Remove:
    values = action.get("partitionValues")
    return Remove(
        path(action["path"]),
        None if values is None else partition_values(values),
        None if action.get("size") is None else size(action["size"]),
        optional(int, action.get("deletionTimestamp")),
        of_type(bool, action.get("dataChange", True)),
        optional(str, action.get("stats")),
        deletion_vector(action.get("deletionVector")),
        extra_fields(action),
    )


def cdc(action: dict[str, Any]) -> Cdc:
    return Cdc(
        path(action["path"]),
        partition_values(action["partitionValues"]),
        size(action["size"]),
        extra_fields(action),
    )


def protocol(action: dict[str, Any]) -> Protocol:
    return Protocol(
        min_reader_version=of_type(int, action["minReaderVersion"]),
        min_writer_version=of_type(int, action["minWriterVersion"]),
        reader_features=texts(action.get("readerFeatures")),
        writer_features=texts(action.get("writerFeatures")),
    )


def metadata(action: dict[str, Any]) -> Metadata:
    return Metadata(
        id=of_type(str, action["id"]),
        schema_string=schema(action["schemaString"]),
        partition_columns=texts(action.get("partitionColumns")),
        name=optional(str, action.get("name")),
        description=optional(str, action.get("description")),
        provider=of_type(str, action["format"]["provider"]),
        options=properties(action["format"].get("options")),
        configuration=properties(action.get("configuration")),
        created_time=optional(int, action.get("createdTime")),
    )


def schema(value: object) -> str:
    """Returns the schema unchanged, after checking its columns."""
    text = of_type(str, value)
    parsed = of_type(dict, orjson.loads(text))
    for column in of_type(list, parsed["fields"]):
        of_type(str, column["name"])
        if not isinstance(column["type"], (str, dict)):
            raise TypeError("a column has no type")
        of_type(str, (optional(dict, column.get("metadata")) or {}).get(PHYSICAL_NAME, ""))
    return text


def deletion_vector(value: dict[str, Any] | None) -> DeletionVector | None:
    if value is None:
        return None
    return DeletionVector(
        of_type(str, value["storageType"]),
        of_type(str, value["pathOrInlineDv"]),
        optional(int, value.get("offset")),
        of_type(int, value["sizeInBytes"]),
        of_type(int, value["cardinality"]),
    )


def extra_fields(action: Mapping[str, Any]) -> dict[str, Any] | None:
    return {name: action[name] for name in EXTRA_FIELDS if action.get(name) is not None} or None


def path(value: object) -> str:
    text = of_type(str, value)
    if not text:
        raise ValueError("a path is empty")
    return text


def size(value: object) -> int:
    number = of_type(int, value)
    if not 0 <= number <= MAX_SIZE:
        raise ValueError("a size is out of range")
    return number


def partition_values(value: object) -> dict[str, str | None]:
    values = of_type(dict, value or {})
    for text in values.values():
        optional(str, text)
    return values


def properties(value: object) -> dict[str, str]:
    """Returns properties as strings, because some writers log numbers and booleans. Leaves out null properties."""
    values = of_type(dict, value or {})
    return {name: _as_text(setting) for name, setting in values.items() if setting is not None}


def _as_text(setting: object) -> str:
    return orjson.dumps(setting).decode() if isinstance(setting, (bool, int, float)) else of_type(str, setting)


def texts(value: object) -> tuple[str, ...]:
    return tuple(of_type(str, text) for text in of_type(list, value or []))


def optional(expected: type[T], value: object) -> T | None:
    return None if value is None else of_type(expected, value)


def of_type(expected: type[T], value: object) -> T:
    """Returns the value if its type is exactly `expected`. `isinstance` would accept a bool as an int."""
    if type(value) is not expected:
        raise TypeError(f"{expected.__name__} expected")
    return value
