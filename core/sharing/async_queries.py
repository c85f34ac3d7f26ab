"""Asynchronous queries: those that cannot be answered at once, because the log of the table is too long.

The client gets an id and polls until a worker has built an index of the version (`core.queries`). From then on, the
query is answered from that index, page by page, as if it had been answered at once.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.api.json import dump_line
from core.api.requests.capabilities import HEADER, PARQUET
from core.api.requests.query_status import QueryStatusRequest
from core.api.response import VERSION_HEADER, Response, ndjson_response
from core.api.table_tokens import Refresh, SnapshotPage, TableTokens
from core.catalog.model import Table
from core.delta.index import is_index
from core.errors import LongLogError, NotFoundError, QueryFailedError
from core.queries.query import DONE, PENDING, AsyncQuery, key_of
from core.sharing.answers.table_answer import AnswerOptions
from core.sharing.query import Chain, answer_snapshot, snapshot_of_page
from core.sharing.tables import SharedTables, require_history, require_started, require_urls

if TYPE_CHECKING:
    from core.api.requests.query import QueryRequest
    from core.queries.queue import Queue
    from core.queries.store import QueryStore

MEGABYTE = 1024 * 1024
# The same for an id that is unknown, expired, or of another recipient or table.
NOT_FOUND = "There is no such query. It may have expired: please run it again."
# Accepts snapshots of an index only.
NO_LOG = 0


@dataclass(frozen=True, slots=True)
class AsyncQueries:
    max_log_bytes: float | None
    """The longest log that is read while a client waits. None is no limit."""
    store: "QueryStore | None" = None
    queue: "Queue | None" = None
    """The queue of the worker. Without one, there are no asynchronous queries."""

    def submit(
        self,
        table: Table,
        query: "QueryRequest",
        options: AnswerOptions,
        tokens: TableTokens,
        long_log: LongLogError,
        refresh: Refresh | None = None,
    ) -> Response:
        """Answers a query that cannot be answered at once. Raises `long_log` if the client cannot wait."""
        require_started(table, long_log.version)
        if not options.capabilities.async_query or self.store is None or self.queue is None:
            raise long_log
        submitted = AsyncQuery.submitted(
            tokens.recipient_id,
            tokens.table_id,
            table,
            query,
            long_log.version,
            long_log.tip,
            now=self.store.now(),
            chain_start=refresh.first_issued_at if refresh else None,
        )
        stored = self.store.add(submitted)
        if stored.status == PENDING and stored.attempts == 0:
            # Also if the query was submitted before: that request may have ended before it reached this line.
            self.queue.ask_worker(stored.key)
        return _pending(stored, options)

    def answer(
        self,
        tables: SharedTables,
        table: Table,
        poll: QueryStatusRequest,
        options: AnswerOptions,
        tokens: TableTokens,
    ) -> Response:
        query = self._find(poll.query_id, tokens)
        _check_shared(table, query)
        now = tokens.tokens.now
        if query.status == PENDING and query.job_at is not None:
            query = self._done_by_job(tables, table, query)
        if failure := query.failure(now):
            raise QueryFailedError(failure)
        if query.status == DONE:
            return _answer_done(tables, table, query, poll, options, tokens)
        if query.is_unattended(now) and self.store and self.queue and self.store.sent_again(query):
            self.queue.ask_worker(query.key)
        return _pending(query, options)

    def _find(self, query_id: str, tokens: TableTokens) -> AsyncQuery:
        key = key_of(query_id)
        found = self.store.find(key) if self.store and key else None
        if found is None or not found.belongs_to(query_id, tokens.recipient_id, tokens.table_id):
            raise NotFoundError(NOT_FOUND)
        return found

    def _done_by_job(self, tables: SharedTables, table: Table, query: AsyncQuery) -> AsyncQuery:
        """Pins the query to the latest version, if the index job has made that readable."""
        try:
            snapshot = tables.snapshot(table, tables.open(table), version=None, timestamp=None, max_log_bytes=NO_LOG)
        except LongLogError:
            return query
        if self.store is None or not is_index(snapshot.checkpoint_id):
            return query
        self.store.finish(query, snapshot.checkpoint_id, snapshot.version, snapshot.tip)
        return self.store.find(query.key) or query  # a concurrent poll may have pinned it to another version


def _check_shared(table: Table, query: AsyncQuery) -> None:
    """The rules of the table may have changed since the query was submitted."""
    require_urls(table)
    if query.request.reads_history:
        require_history(table)
    require_started(table, query.version)
    if query.source.location != table.location:
        raise NotFoundError(NOT_FOUND)


def _pending(query: AsyncQuery, options: AnswerOptions) -> Response:
    """Answers one line and does not confirm `includeendstreamaction`: a client then accepts the answer without one.

    The format is known only when the table has been read, and clients use that of the last answer.
    """
    formats = options.capabilities.formats
    response_format = PARQUET if PARQUET in formats else next(iter(formats))
    line = dump_line({"queryStatus": {"queryId": query.id, "status": PENDING}})
    headers = {VERSION_HEADER: str(query.version), HEADER: f"responseformat={response_format};asyncquery=true"}
    return ndjson_response([line], headers=headers)


def _answer_done(
    tables: SharedTables,
    table: Table,
    query: AsyncQuery,
    poll: QueryStatusRequest,
    options: AnswerOptions,
    tokens: TableTokens,
) -> Response:
    is_first = poll.page_token is None
    request = replace(
        query.request,
        max_files=poll.max_files,
        include_refresh_token=query.request.include_refresh_token and is_first,
    )
    pins = (query.version, query.checkpoint_id or "", query.tip)
    chain = Chain(query, first_issued_at=query.chain_start, refresh=Refresh(*pins, query.chain_start))
    page = SnapshotPage(*pins, last_file=0, rows=0)
    if poll.page_token is not None:
        page = SnapshotPage(*tokens.read_page(query, poll.page_token))
        chain = Chain.after(query, page)
    storage = tables.open(table)
    snapshot = snapshot_of_page(tables, table, storage, page)
    return answer_snapshot(table, storage, snapshot, request, options, tokens, chain)
