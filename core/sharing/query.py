"""A query's answer: the files that a reader needs, each with a signed URL.

Files are signed and written one after the other as the answer is read, so the first
line is out before the last file is looked at.
"""

from collections.abc import Iterator

from core.api.query import QueryRequest, refuse_page_token
from core.api.response import Response
from core.catalog.model import Table
from core.delta.snapshot import Snapshot
from core.errors import InvalidParameterError
from core.sharing.answers import Asked, TableAnswer
from core.sharing.call import Observed
from core.sharing.metadata import begin_snapshot
from core.sharing.ranges import answer_stream
from core.sharing.selection import Selection
from core.sharing.tables import SharedTables, require_history, require_started, require_urls


def answer_query(tables: SharedTables, table: Table, query: QueryRequest, asked: Asked) -> Response:
    _check_against(table, query)
    if query.starting_version is not None:
        return answer_stream(tables, table, query, query.starting_version, asked)
    storage = tables.open(table)
    snapshot = tables.snapshot(table, storage, version=query.version, timestamp=query.timestamp)
    answer, head = begin_snapshot(table, storage, asked, snapshot)
    selection = Selection.of(query, snapshot.metadata)
    asked.observed.hints_ignored = selection.ignored_parts()
    body = _lines(answer, head, snapshot, query, selection, asked.observed)
    return answer.response(snapshot.version, body, ends=query.include_refresh_token or query.max_files is not None)


def _lines(
    answer: TableAnswer,
    head: bytes,
    snapshot: Snapshot,
    query: QueryRequest,
    selection: Selection,
    observed: Observed,
) -> Iterator[bytes]:
    yield head
    travels = query.version is not None or query.timestamp is not None
    version, timestamp = (snapshot.version, snapshot.timestamp) if travels else (None, None)
    for kept in selection.kept(snapshot.batches(), observed):
        yield from answer.file_lines(kept.files, version, timestamp)


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
