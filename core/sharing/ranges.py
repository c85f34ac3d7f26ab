"""Answers with the commits in a range of versions, for streaming reads (`startingVersion`) and the change data feed.

Commits are written one by one as they are read. Schema, properties and protocol may change within a range, but the
answer keeps the format of its first line, so each commit is checked against it. All pages cover the range that the
first page determined.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from core.api.requests.capabilities import DELTA
from core.api.requests.query import QueryRequest
from core.api.response import Response
from core.api.table_tokens import RangePage, TableTokens
from core.catalog.model import Table
from core.delta.features import DELETION_VECTORS, active_features, covering, enabled_features, relayed
from core.delta.model import Cdc, Commit, FileAction, Protocol
from core.delta.snapshot import SnapshotSummary
from core.errors import InvalidParameterError
from core.sharing.answers.table_answer import AnswerOptions, PagedLines, TableAnswer
from core.sharing.formats import ANSWERS, FormatGate, choose_format
from core.sharing.tables import SharedTables
from core.storage.session import StorageSession

Select = Callable[[Commit], list[FileAction]]
TokenAt = Callable[[RangePage], str]


@dataclass(frozen=True, slots=True)
class Range:
    page: RangePage
    first: SnapshotSummary
    """The first version of the range."""
    last: SnapshotSummary
    """The last version of the range or a later one. Its protocol allows everything in the range."""
    head: SnapshotSummary
    """The version whose metadata the answer begins with."""
    before: SnapshotSummary
    """The version before the page's commits; on the first page, the first version."""
    with_metadata: bool
    """Whether the answer shows metadata changes. `with_protocol` is the same for protocol changes."""
    with_protocol: bool
    page_size: int | None


def answer_stream(
    tables: SharedTables, table: Table, query: QueryRequest, start: int, options: AnswerOptions, tokens: TableTokens
) -> Response:
    """Answers with all data added and removed since `startingVersion`."""
    storage = tables.open(table)
    if query.page_token is None:
        end = _end(tables, table, storage, query, start)
        page = RangePage(start, end, tables.delta.tip(storage, end), start, version=start, files=0)
    else:
        page = RangePage(*tokens.read_page(query, query.page_token))
        tables.delta.check_tip(storage, page.end, page.tip)
    first = tables.delta.summary(storage, start)
    span = Range(
        page,
        first,
        before=head_before(tables, storage, first, page),
        last=last_head(tables, storage, options, first, page.end),
        head=first,
        with_metadata=True,
        with_protocol=query.include_historical_protocol,
        page_size=query.page_size,
    )
    commits = tables.delta.commits(storage, page.version, page.end)
    return answer_range(table, storage, options, span, commits, data_changes, partial(tokens.issue_page, query))


def _end(tables: SharedTables, table: Table, storage: StorageSession, query: QueryRequest, start: int) -> int:
    latest = tables.delta.latest_version(storage)
    if start > latest:
        raise InvalidParameterError(
            f"Cannot time travel Delta table to version {start}. Available versions: [{table.start_version}, {latest}]."
        )
    end = latest if query.ending_version is None else query.ending_version
    if end > latest:
        raise InvalidParameterError(
            f"Provided end version({end}) is invalid. "
            f"End version cannot be greater than the latest version of the table({latest})."
        )
    return end


def head_before(
    tables: SharedTables, storage: StorageSession, first: SnapshotSummary, page: RangePage
) -> SnapshotSummary:
    return first if page.version == page.start else tables.delta.summary(storage, page.version - 1)


def last_head(
    tables: SharedTables, storage: StorageSession, options: AnswerOptions, first: SnapshotSummary, end: int
) -> SnapshotSummary:
    """The last version of a range. Parquet format has no protocol line, so there the first version is enough."""
    if end == first.version or DELTA not in options.capabilities.formats:
        return first
    return tables.delta.summary(storage, end)


def answer_range(
    table: Table,
    storage: StorageSession,
    options: AnswerOptions,
    span: Range,
    commits: Iterable[Commit],
    select: Select,
    token_at: TokenAt,
) -> Response:
    """`select` returns the files of a commit that are part of the answer."""
    heads = (span.first, span.last, span.head)
    # Whether a file has a deletion vector is known only when its commit is read.
    active = frozenset[str]().union(
        *(active_features(each.protocol, each.metadata, deletion_vectors=False) for each in heads)
    )
    enabled = frozenset[str]().union(*(enabled_features(each.protocol, each.metadata) for each in heads))
    protocol = covering(each.protocol for each in heads)
    possible = {DELETION_VECTORS}.intersection(protocol.reader_features)
    chosen = choose_format(options.capabilities, active, enabled | possible)
    answer = ANSWERS[chosen](table, storage, options)
    named = {name for name in protocol.reader_features if name.lower() in options.capabilities.reader_features}
    protocol = relayed(protocol, active | enabled | named)
    gate = FormatGate(chosen, options.capabilities, span.before.protocol, span.before.metadata)
    if chosen == DELTA and not span.with_protocol:
        gate.allow_only(protocol)
    body = _lines(answer, span, protocol, commits, select, gate, token_at)
    return answer.response(span.first.version, answer.ended(body, due=span.page_size is not None))


def data_changes(commit: Commit) -> list[FileAction]:
    """The files that a commit added and removed, without those that only move rows between files, as OPTIMIZE does."""
    return [file for file in commit.files if not isinstance(file, Cdc) and file.data_change]


def _lines(
    answer: TableAnswer,
    span: Range,
    protocol: Protocol,
    commits: Iterable[Commit],
    select: Select,
    gate: FormatGate,
    token_at: TokenAt,
) -> PagedLines:
    """`protocol` covers the whole range, because Spark refuses metadata that the protocol does not allow."""
    page, head = span.page, span.head
    with_protocol = span.with_protocol and answer.response_format == DELTA
    yield answer.protocol_line(head.protocol, version=head.version) if with_protocol else answer.protocol_line(protocol)
    yield answer.metadata_line(head.metadata, totals=head, version=head.version)
    left = span.page_size or sys.maxsize
    held: list[bytes] = []  # written with the next file, so that they are on its page
    for commit in commits:
        files = select(commit)
        partitioned = bool(
            gate.metadata.partition_columns
        )  # as of before the commit, when the files it removes were live
        gate.follow(commit, files)
        done = page.files if commit.version == page.version else 0
        if done == 0:
            held += _changes_of_table(answer, span, commit, with_protocol=with_protocol)
        for file in files[done:]:
            if left == 0:
                return token_at(page)
            yield from held
            held.clear()
            yield answer.change_line(file, commit.version, commit.timestamp, partitioned=partitioned)
            left, done = left - 1, done + 1
            page = page._replace(version=commit.version, files=done)
    yield from held
    return None


def _changes_of_table(answer: TableAnswer, span: Range, commit: Commit, *, with_protocol: bool) -> Iterator[bytes]:
    """Lines for a changed protocol or changed metadata. They do not count towards the page size."""
    if commit.version > span.first.version:
        if commit.protocol and with_protocol:
            yield answer.protocol_line(commit.protocol, version=commit.version)
        if commit.metadata and span.with_metadata:
            yield answer.metadata_line(commit.metadata, version=commit.version)
