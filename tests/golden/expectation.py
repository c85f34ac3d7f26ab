"""What must become of a version of a table, derived from the table itself.

It is the test's own statement of the rules, apart from the server's: which reader features are known, what each asks
of a client, and which of them a version really uses.
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

# What a version that uses a feature asks of a client. Checkpoints and VACUUM are none of a client's business.
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
# A client that reads the files as they are would see other names, deleted rows, or bytes instead of values.
DELTA_ONLY = {COLUMN_MAPPING, DELETION_VECTORS, VARIANT, SHREDDING}


def refusal(state: State) -> str | None:
    """Why no client at all is given the version: it needs a reader that we are not."""
    version = state.protocol["minReaderVersion"]
    if version not in (1, 2, 3):
        return f"reader version {version}"
    if unknown := set(state.protocol.get("readerFeatures", ())) - READER_FEATURES:
        return f"reader features {sorted(unknown)}"
    return None


def client_refusal(state: State, answer_format: str) -> str | None:
    """Why the Python client, which knows nothing of shredded variants, is not given the version in a format."""
    if needed := needs(state) & (DELTA_ONLY if answer_format == PARQUET else {SHREDDING}):
        return f"it needs {', '.join(sorted(needed))}"
    if any(lies_elsewhere(added) for added in state.files.values()):
        return "a file lies elsewhere"
    return refusal(state)


def lies_elsewhere(file: Action) -> bool:
    """Whether it, or its deletion vector, has an absolute path: the tables are served from copies of their folders."""
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
    """Live files that are not in the folder: vacuumed, or never there because only the log was made."""
    return [path for path, _ in state.files if not (table / unquote(path)).is_file()]


def python_cannot(state: State, answer_format: str, rows: int) -> str | None:
    """What of a version with so many rows the published Python client does not read, although it was answered."""
    if answer_format == PARQUET:
        try:
            to_converters(state.schema)
        except ValueError as error:
            return f"the client says: {error}"
    elif any("delta.typeChanges" in json.dumps(column) for column in _nested_columns(state)):
        return "the client does not widen types inside of others"
    elif state.files and not rows:
        return "the client does not take files without rows"
    return None


def _nested_columns(state: State) -> list[dict[str, Any]]:
    return [column for column in state.schema["fields"] if isinstance(column["type"], dict)]


def _types(schema: Any) -> Iterator[str]:
    """The names of all types in a schema, nested ones too."""
    if isinstance(schema, str):
        yield schema
    elif isinstance(schema, dict):
        inner = schema.get("fields") or [schema.get(name) for name in ("type", "elementType", "keyType", "valueType")]
        for part in inner:
            yield from _types(part)
