"""A table's metadata: an answer of its own, and what every other answer about the table begins with."""

import core.delta.reader  # noqa: F401 - brings deltalake while Lambda starts the function, not in a request
from core.api.capabilities import FILE_ID_HASH_HEADER, HEADER, PARQUET, Capabilities
from core.api.lines import PROTOCOL_LINE, metadata_line
from core.api.metadata import MetadataRequest
from core.api.response import VERSION_HEADER, Response, ndjson_response
from core.catalog.model import Table
from core.delta.snapshot import Snapshot
from core.errors import UnsupportedOperationError
from core.sharing.discovery import directory_fields
from core.sharing.tables import SharedTables

CHANGE_FEED_PROPERTY = "delta.enableChangeDataFeed"


def answer_metadata(
    tables: SharedTables,
    table: Table,
    asked: MetadataRequest,
    capabilities: Capabilities,
    *,
    file_id_hash: str | None,
) -> Response:
    snapshot = tables.snapshot(table, tables.open(table), version=asked.version, timestamp=asked.timestamp)
    headers = table_headers(snapshot.version, capabilities, file_id_hash=file_id_hash)
    return ndjson_response([head_lines(table, snapshot)], headers=headers)


def head_lines(table: Table, snapshot: Snapshot) -> bytes:
    metadata = snapshot.metadata
    return PROTOCOL_LINE + metadata_line(
        table_id=metadata.id,
        name=metadata.name,
        description=metadata.description,
        provider=metadata.provider,
        schema_string=metadata.schema_string,
        partition_columns=metadata.partition_columns,
        configuration=_shown_configuration(table, snapshot),
        size=snapshot.size,
        num_files=snapshot.num_files,
        directory=directory_fields(table),
    )


def _shown_configuration(table: Table, snapshot: Snapshot) -> dict[str, str]:
    """Of a table's properties, a parquet client is told only that a change feed can be read."""
    if table.history_shared and snapshot.metadata.configuration.get(CHANGE_FEED_PROPERTY) == "true":
        return {"enableChangeDataFeed": "true"}
    return {}


def table_headers(
    version: int, capabilities: Capabilities, *, file_id_hash: str | None, end_stream_action: bool = False
) -> dict[str, str]:
    """Checks on the way that the client takes the one format that is served so far."""
    if PARQUET not in capabilities.formats:
        raise UnsupportedOperationError("This server answers in parquet format only; ask for responseformat=parquet.")
    echo = ";includeendstreamaction=true" if end_stream_action else ""
    headers = {VERSION_HEADER: str(version), HEADER: f"responseformat={PARQUET}{echo}"}
    if file_id_hash is not None:
        headers[FILE_ID_HASH_HEADER] = file_id_hash
    return headers
