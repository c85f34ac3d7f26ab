"""Answers queries: the files that a reader needs, each with a signed URL.

Files are signed and written while the answer is read, so the first line is sent before the last file is evaluated. All
pages and refreshes of an answer read the pinned version of the first page. A valid token gives access to that version
even if history is not shared.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from core.api.requests.query import QueryRequest
from core.api.response import Response
from core.api.table_tokens import PagedRequest, Refresh, SnapshotPage, TableTokens
from core.catalog.model import Table
from core.delta.index import is_index
from core.delta.snapshot import Snapshot
from core.delta.source import Way
from core.errors import ChangedLogError, InvalidParameterError, LongLogError
from core.sharing.answers.table_answer import AnswerOptions, PagedLines, TableAnswer
from core.sharing.call import Observed
from core.sharing.metadata import begin_snapshot
from core.sharing.ranges import answer_stream
from core.sharing.row_counts import FooterRowCounts
from core.sharing.selection import START, KeptFiles, Position, Selection
from core.sharing.tables import SharedTables, require_history, require_started, require_urls
from core.storage.session import StorageSession

if TYPE_CHECKING:
    from core.sharing.async_queries import AsyncQueries


def answer_query(
    tables: SharedTables,
    table: Table,
    query: QueryRequest,
    options: AnswerOptions,
    tokens: TableTokens,
    asynchronous: "AsyncQueries | None" = None,
) -> Response:
    """With `asynchronous`, the log of the table is not read if it is too long."""
    _check_shared(table, query)
    if query.starting_version is not None:
        return answer_stream(tables, table, query, query.starting_version, options, tokens)
    storage = tables.open(table)
    if query.page_token is not None:
        page = SnapshotPage(*tokens.read_page(query, query.page_token))
        snapshot = snapshot_of_page(tables, table, storage, page)
        return answer_snapshot(table, storage, snapshot, query, options, tokens, Chain.after(query, page))
    refresh = None if query.refresh_token is None else tokens.read_refresh(query.refresh_token)
    max_log_bytes = asynchronous.max_log_bytes if asynchronous else None
    try:
        if refresh is not None:
            snapshot = _refreshed(tables, table, storage, query, refresh, max_log_bytes)
        else:
            snapshot = tables.snapshot(
                table,
                storage,
                version=query.version,
                timestamp=query.timestamp,
                max_log_bytes=max_log_bytes,
                demand=Selection.demand(query),
            )
            snapshot = _in_stable_order(tables, storage, query, snapshot)
    except LongLogError as long_log:
        if asynchronous is None:
            raise
        return asynchronous.submit(table, query, options, tokens, long_log, refresh)
    chain = Chain(query, START, refresh and refresh.first_issued_at, refresh)
    return answer_snapshot(table, storage, snapshot, query, options, tokens, chain)


@dataclass(frozen=True, slots=True)
class Chain:
    """What an answer continues: the pages before it, or the answer that it refreshes."""

    request: PagedRequest
    """What the page tokens are bound to."""
    start: Position = START
    first_issued_at: int | None = None
    refresh: Refresh | None = None

    @classmethod
    def after(cls, request: PagedRequest, page: SnapshotPage) -> "Chain":
        return cls(request, Position(page.last_file, page.rows), page.first_issued_at)


def answer_snapshot(
    table: Table,
    storage: StorageSession,
    snapshot: Snapshot,
    query: QueryRequest,
    options: AnswerOptions,
    tokens: TableTokens,
    chain: Chain,
) -> Response:
    start = chain.start
    answer, head = begin_snapshot(table, storage, options, snapshot)
    selection = Selection.of(query, snapshot.metadata, FooterRowCounts(table, storage))
    options.observed.hints_ignored = selection.ignored_parts()
    options.observed.source = Way.INDEX if is_index(snapshot.checkpoint_id) else Way.LOG
    batches = snapshot.batches_after(selection.predicate, start.last_file)
    kept = selection.kept(batches, options.observed, start.rows)
    keeps_all = selection.predicate is None and selection.limit is None
    count = None if keeps_all else partial(_count, selection, snapshot, start)
    answer.size.expect(snapshot.num_files - start.last_file, count)

    pinned = (snapshot.version, snapshot.checkpoint_id, snapshot.tip)

    def token_at(position: Position) -> str:
        return tokens.issue_page(chain.request, SnapshotPage(*pinned, *position, chain.first_issued_at))

    body = answer.with_end(
        _lines(answer, head, snapshot, query, kept, start, token_at),
        required=query.include_refresh_token or query.max_files is not None,
        refresh_token=tokens.issue_refresh(*pinned, after=chain.refresh) if query.include_refresh_token else None,
    )
    return answer.response(snapshot.version, body, paged=query.page_size is not None)


def _count(selection: Selection, snapshot: Snapshot, start: Position) -> int:
    """Returns the number of files that a query keeps. Without row counts from footers, it may be a little more."""
    batches = snapshot.batches_after(selection.predicate, start.last_file)
    kept = replace(selection, footers=None).kept(batches, Observed(), start.rows)
    return sum(len(batch.file_numbers) for batch in kept)


def snapshot_of_page(tables: SharedTables, table: Table, storage: StorageSession, page: SnapshotPage) -> Snapshot:
    require_started(table, page.version)
    tables.delta.check_tip(storage, page.version, page.tip)
    return tables.delta.snapshot_from_checkpoint(storage, page.checkpoint_id, page.version)


def _refreshed(
    tables: SharedTables,
    table: Table,
    storage: StorageSession,
    query: QueryRequest,
    refresh: Refresh,
    max_log_bytes: float | None,
) -> Snapshot:
    require_started(table, refresh.version)
    tables.delta.check_tip(storage, refresh.version, refresh.tip)
    # With a limit, the order of the files decides which of them reach it. An index is always faster than the log.
    if query.limit_hint is not None or is_index(refresh.checkpoint_id):
        with contextlib.suppress(ChangedLogError):
            return tables.delta.snapshot_from_checkpoint(
                storage, refresh.checkpoint_id, refresh.version, must_keep_order=False
            )
    snapshot = tables.delta.snapshot(
        storage, version=refresh.version, max_log_bytes=max_log_bytes, demand=Selection.demand(query)
    )
    return _in_stable_order(tables, storage, query, snapshot)


def _in_stable_order(
    tables: SharedTables, storage: StorageSession, query: QueryRequest, snapshot: Snapshot
) -> Snapshot:
    """Returns the snapshot in an order that any process can reproduce, if a later request may depend on it."""
    needs_order = query.page_size is not None or (query.include_refresh_token and query.limit_hint is not None)
    return tables.delta.snapshot_for_paging(storage, snapshot, Selection.demand(query)) if needs_order else snapshot


def _lines(
    answer: TableAnswer,
    head: bytes,
    snapshot: Snapshot,
    query: QueryRequest,
    kept: Iterator[KeptFiles],
    position: Position,
    token_at: Callable[[Position], str],
) -> PagedLines:
    answer.room.add(head)
    yield head
    time_travel = query.version is not None or query.timestamp is not None
    version, timestamp = (snapshot.version, snapshot.timestamp) if time_travel else (None, None)
    if query.page_size is None:
        for batch in kept:
            yield from answer.file_lines(batch.files, version, timestamp)
        return None
    remaining = query.page_size
    for batch in kept:
        page = batch if len(batch.file_numbers) <= remaining else batch.first(remaining)
        written = yield from answer.page_lines(page.files, version, timestamp)
        if written:
            position = Position(page.file_numbers[written - 1], position.rows + sum(page.rows[:written]))
        if written < len(batch.file_numbers):
            return token_at(position)
        remaining -= written
    return None


def _check_shared(table: Table, query: QueryRequest) -> None:
    require_urls(table)
    if query.reads_history:
        require_history(table)
    for version in (query.version, query.starting_version):
        if version is not None:
            require_started(table, version)
    start, end = query.starting_version, query.ending_version
    if start is not None and end is not None and start > end:
        raise InvalidParameterError(f"startingVersion({start}) must be smaller than or equal to endingVersion({end}).")
