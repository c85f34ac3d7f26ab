"""The lines of an answer, in parquet and in delta format.

Each line is one JSON object with its line end; in delta format it wraps the log's own action. Files come by the
million, so their lines are laid out by column, and whoever has the columns writes them in the fastest way there is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

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


Layout: TypeAlias = Mapping[str, Any]
"""The lines of some files by column: under each name a value for each file in turn, or one number for all of them, or
another layout. What is None is not told."""


def file_lines(layout: Layout) -> Iterator[bytes]:
    return map(dump_line, _documents(layout))


def _documents(layout: Layout) -> Iterator[dict[str, Any]]:
    names, columns = list(layout), [_column(values) for values in layout.values()]
    for row in zip(*columns, strict=False):
        yield {name: value for name, value in zip(names, row, strict=True) if value is not None}


def _column(values: Any) -> Iterable[Any]:
    if isinstance(values, Mapping):
        return _documents(values)
    return repeat(values) if values is None or isinstance(values, int) else values


def parquet_files(
    kind: str,
    urls: Sequence[str],
    ids: Sequence[str],
    fields: Layout,
    expiration_timestamp: int,
    *,
    version: int | None = None,
    timestamp: int | None = None,
) -> Layout:
    """`kind`: `file` in a snapshot; `add`, `remove` or `cdf` among changes."""
    file = {"url": urls, "id": ids, **fields, "expirationTimestamp": expiration_timestamp}
    return {kind: {**file, "version": version, "timestamp": timestamp}}


def delta_files(
    kind: str,
    urls: Sequence[str],
    ids: Sequence[str],
    deletion_vector_file_ids: Sequence[str | None] | None,
    fields: Layout,
    expiration_timestamp: int,
    *,
    version: int | None = None,
    timestamp: int | None = None,
) -> Layout:
    """`kind`: the log's name of the action: `add`, `remove` or `cdc`; `fields`: what it says beside the path."""
    return {
        "file": {
            "id": ids,
            "deletionVectorFileId": deletion_vector_file_ids,
            "version": version,
            "timestamp": timestamp,
            "expirationTimestamp": expiration_timestamp,
            "deltaSingleAction": {kind: {"path": urls, **fields}},
        }
    }


def end_stream_line(
    *, refresh_token: str | None, next_page_token: str | None, min_url_expiration_timestamp: int | None
) -> bytes:
    action = {
        "refreshToken": refresh_token,
        "nextPageToken": next_page_token,
        "minUrlExpirationTimestamp": min_url_expiration_timestamp,
    }
    return dump_line({"endStreamAction": {name: value for name, value in action.items() if value is not None}})
