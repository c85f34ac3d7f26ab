"""A query's answer: the files that a reader needs, each with a signed URL.

Predicates first, then the limit. Files are signed and written one after the other as the answer is read, so the first
line is out before the last file is looked at.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import orjson

from core.api.query import QueryRequest, refuse_page_token
from core.api.response import Response
from core.catalog.model import Table
from core.delta.features import physical_names
from core.delta.snapshot import Add, Snapshot
from core.errors import InvalidParameterError
from core.sharing.answers import Asked, TableAnswer
from core.sharing.call import Observed
from core.sharing.metadata import begin_snapshot
from core.sharing.ranges import answer_stream
from core.sharing.tables import SharedTables, require_history, require_started, require_urls

MayMatch: TypeAlias = Callable[[Mapping[str, str | None]], bool]


def answer_query(tables: SharedTables, table: Table, query: QueryRequest, asked: Asked) -> Response:
    _check_against(table, query)
    if query.starting_version is not None:
        return answer_stream(tables, table, query, query.starting_version, asked)
    storage = tables.open(table)
    snapshot = tables.snapshot(table, storage, version=query.version, timestamp=query.timestamp)
    answer, head = begin_snapshot(table, storage, asked, snapshot)
    body = _lines(answer, head, snapshot, query, asked.observed)
    return answer.response(snapshot.version, body, ends=query.include_refresh_token or query.max_files is not None)


def _lines(
    answer: TableAnswer, head: bytes, snapshot: Snapshot, query: QueryRequest, observed: Observed
) -> Iterator[bytes]:
    yield head
    travels = query.version is not None or query.timestamp is not None
    version, timestamp = (snapshot.version, snapshot.timestamp) if travels else (None, None)
    for add in _chosen(snapshot, query, observed):
        yield answer.file_line(add, version, timestamp)


def _check_against(table: Table, query: QueryRequest) -> None:
    require_urls(table)
    if query.travels:
        require_history(table)
    for version in (query.version, query.starting_version):
        if version is not None:
            require_started(table, version)
    start, end = query.starting_version, query.ending_version
    if start is not None and end is not None and start > end:
        raise InvalidParameterError(f"startingVersion({start}) must be smaller than or equal to endingVersion({end}).")
    refuse_page_token(query.page_token)
    if query.refresh_token is not None:  # none is handed out yet either
        raise InvalidParameterError(f"Error decoding refresh token: {query.refresh_token[:100]}.")


def _chosen(snapshot: Snapshot, query: QueryRequest, observed: Observed) -> Iterator[Add]:
    adds = snapshot.adds()
    may_match = _compiled(query.json_predicate_hints, snapshot)
    if may_match is not None:
        adds = _pruned(adds, may_match, observed)
    # With a hint, a file's rows may be filtered away later, so counting them towards the limit could lose rows.
    hinted = bool(query.predicate_hints or query.json_predicate_hints)
    return adds if query.limit_hint is None or hinted else _limited(adds, query.limit_hint)


def _compiled(hints: str | None, snapshot: Snapshot) -> MayMatch | None:
    if not hints:
        return None
    from core.pruning.hints import compile_hints  # not at a cold start: most queries come without a hint

    metadata = snapshot.metadata
    may_match = compile_hints(hints, schema_string=metadata.schema_string, partition_columns=metadata.partition_columns)
    physical = physical_names(metadata)
    if may_match is None or not physical:
        return may_match
    # Hints have the names that users see, the log's partition values those that files have.
    return lambda values: may_match({logical: values[name] for logical, name in physical.items() if name in values})


def _pruned(adds: Iterator[Add], may_match: MayMatch, observed: Observed) -> Iterator[Add]:
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
        deleted = add.deletion_vector.cardinality if add.deletion_vector else 0
        rows += max(_row_count(add.stats) - deleted, 0)


def _row_count(stats: str | None) -> int:
    try:
        count = orjson.loads(stats or "{}").get("numRecords")
    except (orjson.JSONDecodeError, AttributeError):
        return 0
    return count if isinstance(count, int) and count > 0 else 0
