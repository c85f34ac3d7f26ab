"""Derives from a table itself how the server must answer for each of its versions.

The rules are stated here independently of the server: which reader features are supported, what each requires of a
client, and which of them a version actually uses.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from delta_sharing.converter import to_converters

from tests.golden.plain_log import Action, State

PARQUET, DELTA = "parquet", "delta"
ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")

# Features that a client must support. Checkpoint and VACUUM features do not concern clients.
COLUMN_MAPPING, DELETION_VECTORS, NTZ, WIDENING, VARIANT, SHREDDING = (
    "columnmapping",
    "deletionvectors",
    "timestampntz",
    "typewidening",
    "varianttype",
    "variantshredding",
)
READER_FEATURES = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantShredding",
    "variantShredding-preview",
    "variantType",
    "variantType-preview",
}
# A plain read of the files would give physical names, deleted rows, or bytes instead of values.
DELTA_ONLY = {COLUMN_MAPPING, DELETION_VECTORS, VARIANT, SHREDDING}


def refusal(state: State) -> str | None:
    """Returns why the version is refused to every client, if it is: the server does not support the table."""
    version = state.protocol["minReaderVersion"]
    if version not in (1, 2, 3):
        return f"reader version {version}"
    if unknown := set(state.protocol.get("readerFeatures", ())) - READER_FEATURES:
        return f"reader features {sorted(unknown)}"
    return None


def client_refusal(state: State, answer_format: str) -> str | None:
    """Returns why the version is refused to the Python client, if it is. The client cannot read shredded variants."""
    if needed := needs(state) & (DELTA_ONLY if answer_format == PARQUET else {SHREDDING}):
        return f"it needs {', '.join(sorted(needed))}"
    if any(is_outside(added) for added in state.files.values()):
        return "a file is outside the table"
    return refusal(state)


def is_outside(file: Action) -> bool:
    """Whether the file or its deletion vector has an absolute path, which is outside the served copy of the table."""
    return bool(ABSOLUTE.match(file["path"])) or file.get("deletionVector", {}).get("storageType") == "p"


def needs(state: State) -> set[str]:
    types = set(_types(state.schema))
    used = {
        COLUMN_MAPPING: state.protocol["minReaderVersion"] > 1
        and state.configuration.get("delta.columnMapping.mode", "none") != "none",
        DELETION_VECTORS: any(vector is not None for _, vector in state.files),
        NTZ: "timestamp_ntz" in types,
        WIDENING: "delta.typeChanges" in json.dumps(state.schema),
        VARIANT: "variant" in types,
        SHREDDING: "variant" in types and any("Shredding" in name for name in state.protocol.get("readerFeatures", ())),
    }
    return {feature for feature, is_used in used.items() if is_used}


def missing_files(table: Path, state: State) -> list[str]:
    """Returns the live files that are not in the folder: vacuumed, or never written because the table is only a log."""
    return [path for path, _ in state.files if not (table / unquote(path)).is_file()]


def unreadable_by_python(state: State, answer_format: str, rows: int) -> str | None:
    """Returns why the published Python client cannot read a version of `rows` rows that was answered, if it cannot."""
    if answer_format == PARQUET:
        try:
            to_converters(state.schema)
        except ValueError as error:
            return f"the client says: {error}"
    elif any("delta.typeChanges" in json.dumps(column) for column in _nested_columns(state)):
        return "the client does not widen nested types"
    elif state.files and not rows:
        return "the client cannot read files without rows"
    return None


def _nested_columns(state: State) -> list[dict[str, Any]]:
    return [column for column in state.schema["fields"] if isinstance(column["type"], dict)]


def _types(schema: Any) -> Iterator[str]:
    """Yields the names of all types in a schema, including nested ones."""
    if isinstance(schema, str):
        yield schema
    elif isinstance(schema, dict):
        inner = schema.get("fields") or [schema.get(name) for name in ("type", "elementType", "keyType", "valueType")]
        for part in inner:
            yield from _types(part)
