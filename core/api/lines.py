"""The protocol, metaData and endStreamAction lines of an answer, in parquet and in delta format.

Each line is one JSON object and ends with a newline. In delta format, it wraps the action from the log.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from core.api.json import dump_line

PARQUET_PROTOCOL_LINE = b'{"protocol":{"minReaderVersion":1}}\n'
READER_FEATURES_VERSION = 3
WRITER_FEATURES_VERSION = 7


def parquet_metadata_line(
    action: Mapping[str, Any], *, configuration: Mapping[str, str], extra: Mapping[str, Any]
) -> bytes:
    """`extra` has the fields that are not in the log's `action`, such as the table's version and size."""
    copied = {field: action[field] for field in ("id", "name", "description", "partitionColumns") if field in action}
    metadata = {
        **copied,
        **extra,
        "format": {"provider": action["format"]["provider"]},
        "schemaString": plain_schema(action["schemaString"]),
        "configuration": configuration,
    }
    return dump_line({"metaData": metadata})


def delta_metadata_line(action: Mapping[str, Any], *, extra: Mapping[str, Any]) -> bytes:
    return dump_line({"metaData": {**extra, "deltaMetadata": action}})


def plain_schema(schema_string: str) -> str:
    """Removes all metadata of top-level fields except the comment, for clients of parquet format."""
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
    # Clients require a feature list at these versions and reject one at any other.
    if min_reader_version == READER_FEATURES_VERSION:
        protocol["readerFeatures"] = reader_features
    if min_writer_version == WRITER_FEATURES_VERSION:
        protocol["writerFeatures"] = writer_features
    extra = {} if version is None else {"version": version}
    return dump_line({"protocol": {**extra, "deltaProtocol": protocol}})


def end_stream_line(
    *, refresh_token: str | None, next_page_token: str | None, min_url_expiration_timestamp: int | None
) -> bytes:
    action = {
        "refreshToken": refresh_token,
        "nextPageToken": next_page_token,
        "minUrlExpirationTimestamp": min_url_expiration_timestamp,
    }
    return dump_line({"endStreamAction": {name: value for name, value in action.items() if value is not None}})


def failed_stream_line(message: str, status: int) -> bytes:
    """The last line of an answer that failed after its first line. Clients decide by `status` whether to retry."""
    return dump_line({"endStreamAction": {"errorMessage": message, "httpStatusErrorCode": status}})
