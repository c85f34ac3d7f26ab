"""A query's answer: the files that a reader needs, each with a signed URL.

Predicates first, then the limit. Files are signed and written one after the other as the answer is read, so the first
line is out before the last file is looked at.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping

import orjson

from core.api.capabilities import DELTA, PARQUET, Capabilities
from core.api.lines import end_stream_line, file_line
from core.api.query import QueryRequest
from core.api.response import Response, ndjson_response
from core.catalog.model import URL_ACCESS, Table
from core.delta.paths import object_key
from core.delta.snapshot import Add, Snapshot
from core.errors import InvalidParameterError, UnsupportedOperationError
from core.sharing.call import Observed
from core.sharing.metadata import head_lines, table_headers
from core.sharing.tables import SharedTables, require_history, require_started
from core.storage.session import StorageSession

# Lines leave in blocks of about this size: one per file would cost more in calls than in bytes.
BLOCK_BYTES = 64 * 1024


def answer_query(
    tables: SharedTables,
    table: Table,
    query: QueryRequest,
    capabilities: Capabilities,
    *,
    file_id_hash: str | None,
    observed: Observed,
) -> Response:
    _check_against(table, query)
    storage = tables.open(table)
    snapshot = tables.snapshot(table, storage, version=query.version, timestamp=query.timestamp)
    asked_to_end = capabilities.include_end_stream_action
    headers = table_headers(snapshot.version, capabilities, file_id_hash=file_id_hash, end_stream_action=asked_to_end)
    ends = asked_to_end or query.include_refresh_token or query.max_files is not None
    lines = _lines(
        head_lines(table, snapshot),
        _chosen(snapshot, query, observed),
        _writer(snapshot, storage, query, file_id_hash or PARQUET),
        storage.expires_at_ms if ends else None,
        observed,
    )
    return ndjson_response(_blocks(lines), headers=headers)


def _check_against(table: Table, query: QueryRequest) -> None:
    if URL_ACCESS not in table.access_modes:
        raise UnsupportedOperationError(f"The table {table.full_name} is shared by directory access only.")
    if query.travels:
        require_history(table)
    for version in (query.version, query.starting_version):
        if version is not None:
            require_started(table, version)
    if query.starting_version is not None:
        if query.ending_version is not None and query.starting_version > query.ending_version:
            raise InvalidParameterError(
                f"startingVersion({query.starting_version}) must be smaller than or equal to "
                f"endingVersion({query.ending_version})."
            )
        raise UnsupportedOperationError("Reading a table's changes since startingVersion is not supported yet.")
    # No such token is handed out yet, so any is somebody else's.
    if query.page_token is not None:
        raise InvalidParameterError(f"Error decoding the page token: {query.page_token[:100]}.")
    if query.refresh_token is not None:
        raise InvalidParameterError(f"Error decoding refresh token: {query.refresh_token[:100]}.")


def _chosen(snapshot: Snapshot, query: QueryRequest, observed: Observed) -> Iterator[Add]:
    adds = snapshot.adds()
    may_match = _compiled(query.json_predicate_hints, snapshot)
    if may_match is not None:
        adds = _pruned(adds, may_match, observed)
    # With a hint, a file's rows may be filtered away later, so counting them towards the limit could lose rows.
    hinted = bool(query.predicate_hints or query.json_predicate_hints)
    return adds if query.limit_hint is None or hinted else _limited(adds, query.limit_hint)


def _compiled(hints: str | None, snapshot: Snapshot) -> Callable[[Mapping[str, str | None]], bool] | None:
    if not hints:
        return None
    from core.pruning.hints import compile_hints  # not at a cold start: most queries come without a hint

    return compile_hints(
        hints,
        schema_string=snapshot.metadata.schema_string,
        partition_columns=snapshot.metadata.partition_columns,
    )


def _pruned(
    adds: Iterator[Add], may_match: Callable[[Mapping[str, str | None]], bool], observed: Observed
) -> Iterator[Add]:
    for add in adds:
        if may_match(add.partition_values):
            yield add
        else:
            observed.files_pruned += 1


def _limited(adds: Iterator[Add], limit: int) -> Iterator[Add]:
    """As many files as it takes to hold `limit` rows; a file that does not say how many it has counts as empty."""
    rows = 0
    for add in adds:
        if rows >= limit:
            return
        yield add
        rows += _row_count(add.stats)


def _row_count(stats: str | None) -> int:
    try:
        count = orjson.loads(stats or "{}").get("numRecords")
    except (orjson.JSONDecodeError, AttributeError):
        return 0
    return count if isinstance(count, int) and count > 0 else 0


def _writer(snapshot: Snapshot, storage: StorageSession, query: QueryRequest, id_hash: str) -> Callable[[Add], bytes]:
    signer, expires_at = storage.signer(), storage.expires_at_ms
    digest = hashlib.sha256 if id_hash == DELTA else hashlib.md5
    named = query.version is not None or query.timestamp is not None
    version, timestamp = (snapshot.version, snapshot.timestamp) if named else (None, None)

    def write(add: Add) -> bytes:
        return file_line(
            signer.sign(object_key(storage.location, add.path)),
            digest(add.path.encode(), usedforsecurity=False).hexdigest(),
            add.partition_values,
            add.size,
            add.stats,
            expires_at,
            version,
            timestamp,
        )

    return write


def _lines(
    head: bytes,
    adds: Iterator[Add],
    write: Callable[[Add], bytes],
    ends_with_expiry: int | None,
    observed: Observed,
) -> Iterator[bytes]:
    yield head
    for add in adds:
        yield write(add)
        observed.files_listed += 1
        observed.urls_signed += 1
    if ends_with_expiry is not None:
        yield end_stream_line(min_url_expiration_timestamp=ends_with_expiry if observed.files_listed else None)


def _blocks(lines: Iterator[bytes]) -> Iterator[bytes]:
    block: list[bytes] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size >= BLOCK_BYTES:
            yield b"".join(block)
            block.clear()
            size = 0
    if block:
        yield b"".join(block)
