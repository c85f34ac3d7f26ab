"""The lines of an answer in parquet format: protocol, metaData, file, endStreamAction.

Each line is one JSON object with its line end. `file_line` runs once per file, so it is one dictionary and one dump.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from core.api.json import dumps

PROTOCOL_LINE = b'{"protocol":{"minReaderVersion":1}}\n'


def metadata_line(
    *,
    table_id: str,
    name: str | None,
    description: str | None,
    provider: str,
    schema_string: str,
    partition_columns: Sequence[str],
    configuration: Mapping[str, str],
    size: int,
    num_files: int,
    directory: Mapping[str, Any] | None = None,
) -> bytes:
    """`directory`: what a client must know to read the table's directory itself, where it may."""
    metadata: dict[str, Any] = {"id": table_id}
    if name is not None:
        metadata["name"] = name
    if description is not None:
        metadata["description"] = description
    metadata |= directory or {}
    metadata["format"] = {"provider": provider}
    metadata["schemaString"] = plain_schema(schema_string)
    metadata["configuration"] = dict(configuration)
    metadata["partitionColumns"] = list(partition_columns)
    metadata["size"] = size
    metadata["numFiles"] = num_files
    return dumps({"metaData": metadata}) + b"\n"


def plain_schema(schema_string: str) -> str:
    """The schema as parquet clients get it: of a top-level field's metadata only the comment is theirs to see."""
    schema = orjson.loads(schema_string)
    hidden = False
    for column in schema["fields"]:
        metadata = column.get("metadata") or {}
        shown = {"comment": metadata["comment"]} if "comment" in metadata else {}
        hidden = hidden or shown != metadata
        column["metadata"] = shown
    return orjson.dumps(schema).decode() if hidden else schema_string


def file_line(
    url: str,
    file_id: str,
    partition_values: Mapping[str, str | None],
    size: int,
    stats: str | None,
    expiration_timestamp: int,
    version: int | None,
    timestamp: int | None,
) -> bytes:
    file: dict[str, Any] = {"url": url, "id": file_id, "partitionValues": partition_values, "size": size}
    if stats is not None:
        file["stats"] = stats
    file["expirationTimestamp"] = expiration_timestamp
    if version is not None:
        file["version"] = version
        file["timestamp"] = timestamp
    return dumps({"file": file}) + b"\n"


def end_stream_line(*, min_url_expiration_timestamp: int | None) -> bytes:
    action: dict[str, Any] = {}
    if min_url_expiration_timestamp is not None:
        action["minUrlExpirationTimestamp"] = min_url_expiration_timestamp
    return dumps({"endStreamAction": action}) + b"\n"
