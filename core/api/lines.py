"""The lines of an answer, in parquet and in delta format.

Each line is one JSON object with its line end; in delta format it wraps the log's own action. Files come by the
million, so the line of each is one dictionary and one dump.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from core.api.json import dump_line

PARQUET_PROTOCOL_LINE = b'{"protocol":{"minReaderVersion":1}}\n'
READER_FEATURES_VERSION = 3
WRITER_FEATURES_VERSION = 7


def parquet_metadata_line(
    action: Mapping[str, Any], *, configuration: Mapping[str, str], beside: Mapping[str, Any]
) -> bytes:
    """`action`: the log's own; `beside`: version, size and the like."""
    named = {field: action[field] for field in ("id", "name", "description", "partitionColumns") if field in action}
    metadata = {
        **named,
        **beside,
        "format": {"provider": action["format"]["provider"]},
        "schemaString": plain_schema(action["schemaString"]),
        "configuration": configuration,
    }
    return dump_line({"metaData": metadata})


def delta_metadata_line(action: Mapping[str, Any], *, beside: Mapping[str, Any]) -> bytes:
    return dump_line({"metaData": {**beside, "deltaMetadata": action}})


def plain_schema(schema_string: str) -> str:
    """The schema as parquet clients get it: of a top-level field's metadata only the comment is theirs to see."""
    schema = orjson.loads(schema_string)
    hidden = False
    for column in schema["fields"]:
        metadata = column.get("metadata", {})
        shown = {"comment": metadata["comment"]} if isinstance(metadata, dict) and "comment" in metadata else {}
        hidden = hidden or shown != metadata
        column["metadata"] = shown
    return orjson.dumps(schema).decode() if hidden else schema_string


def delta_protocol_line(
    min_reader_version: int,
    min_writer_version: int,
    reader_features: Sequence[str],
    writer_features: Sequence[str],
    version: int | None = None,
) -> bytes:
    protocol: dict[str, Any] = {"minReaderVersion": min_reader_version, "minWriterVersion": min_writer_version}
    # Clients take a list where there may be none as an error, and the lack of one where there must be one too.
    if min_reader_version == READER_FEATURES_VERSION:
        protocol["readerFeatures"] = reader_features
    if min_writer_version == WRITER_FEATURES_VERSION:
        protocol["writerFeatures"] = writer_features
    beside = {} if version is None else {"version": version}
    return dump_line({"protocol": {**beside, "deltaProtocol": protocol}})


def parquet_file_line(
    kind: str,
    url: str,
    file_id: str,
    partition_values: Mapping[str, str | None],
    size: int,
    stats: str | None,
    expiration_timestamp: int,
    version: int | None,
    timestamp: int | None,
) -> bytes:
    """`kind`: `file` in a snapshot; `add`, `remove` or `cdf` among changes."""
    file: dict[str, Any] = {"url": url, "id": file_id, "partitionValues": partition_values, "size": size}
    if stats is not None:
        file["stats"] = stats
    file["expirationTimestamp"] = expiration_timestamp
    if version is not None:
        file["version"] = version
        file["timestamp"] = timestamp
    return dump_line({kind: file})


def delta_file_line(
    kind: str,
    action: Mapping[str, Any],
    file_id: str,
    deletion_vector_file_id: str | None,
    expiration_timestamp: int,
    version: int | None,
    timestamp: int | None,
) -> bytes:
    """`kind`: the log's name of the action: `add`, `remove` or `cdc`."""
    file: dict[str, Any] = {"id": file_id}
    if deletion_vector_file_id is not None:
        file["deletionVectorFileId"] = deletion_vector_file_id
    if version is not None:
        file["version"] = version
        file["timestamp"] = timestamp
    file["expirationTimestamp"] = expiration_timestamp
    file["deltaSingleAction"] = {kind: action}
    return dump_line({"file": file})


def end_stream_line(
    *, refresh_token: str | None, next_page_token: str | None, min_url_expiration_timestamp: int | None
) -> bytes:
    action = {
        "refreshToken": refresh_token,
        "nextPageToken": next_page_token,
        "minUrlExpirationTimestamp": min_url_expiration_timestamp,
    }
    return dump_line({"endStreamAction": {name: value for name, value in action.items() if value is not None}})
