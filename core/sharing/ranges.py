"""Answers with the commits in a range of versions, for streaming reads (`startingVersion`) and the change data feed.

Commits are written one by one as they are read. Schema, properties and protocol may change within a range, but the
format of an answer cannot, so each commit is checked against it. The first page fixes the range for all pages.
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
from core.delta.features import (
    DELETION_VECTORS,
    active_features,
    combined_protocol,
    enabled_features,
    protocol_for_clients,
)
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
    """The last version of the range, or a version whose protocol covers the range as well."""
    head: SnapshotSummary
    """The version whose metadata the answer starts with."""
    before: SnapshotSummary
    """The version before the commits of this page; on the first page, the first version."""
    with_metadata: bool
    """Whether the answer contains changes of the metadata."""
    with_protocol: bool
    """Whether the answer contains changes of the protocol."""
    page_size: int | None


def answer_stream(
    tables: SharedTables, table: Table, query: QueryRequest, start: int, options: AnswerOptions, tokens: TableTokens
) -> Response:
    """Answers with all files added and removed since `startingVersion`."""
    storage = tables.open(table)
    if query.page_token is None:
        end = _end(tables, table, storage, query, start)
        page = RangePage(start, end, tables.delta.tip(storage, end), start, version=start, files=0)
    else:
        page = RangePage(*tokens.read_page(query, query.page_token))
        tables.delta.check_tip(storage, page.end, page.tip)
    first = tables.delta.summary(storage, start)
    commit_range = Range(
        page,
        first,
        before=summary_before_page(tables, storage, first, page),
        last=summary_at_end(tables, storage, options, first, page.end),
        head=first,
        with_metadata=True,
        with_protocol=query.include_historical_protocol,
        page_size=query.page_size,
    )
    commits = tables.delta.commits(storage, page.version, page.end)
    return answer_range(table, storage, options, commit_range, commits, data_changes, partial(tokens.issue_page, query))


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


def summary_before_page(
    tables: SharedTables, storage: StorageSession, first: SnapshotSummary, page: RangePage
) -> SnapshotSummary:
    return first if page.version == page.start else tables.delta.summary(storage, page.version - 1)


def summary_at_end(
    tables: SharedTables, storage: StorageSession, options: AnswerOptions, first: SnapshotSummary, end: int
) -> SnapshotSummary:
    """Returns the last version of a range. Parquet format does not show a protocol, so the first version is enough."""
    if end == first.version or DELTA not in options.capabilities.formats:
        return first
    return tables.delta.summary(storage, end)


def answer_range(
    table: Table,
    storage: StorageSession,
    options: AnswerOptions,
    commit_range: Range,
    commits: Iterable[Commit],
    select: Select,
    token_at: TokenAt,
) -> Response:
    """`select` returns the files of a commit that are part of the answer."""
    summaries = (commit_range.first, commit_range.last, commit_range.head)
    # Whether a file has a deletion vector is known only when its commit is read.
    active = frozenset[str]().union(
        *(active_features(each.protocol, each.metadata, deletion_vectors=False) for each in summaries)
    )
    enabled = frozenset[str]().union(*(enabled_features(each.protocol, each.metadata) for each in summaries))
    protocol = combined_protocol(each.protocol for each in summaries)
    possible = {DELETION_VECTORS}.intersection(protocol.reader_features)
    chosen = choose_format(options.capabilities, active, enabled | possible)
    answer = ANSWERS[chosen](table, storage, options)
    supported = {name for name in protocol.reader_features if name.lower() in options.capabilities.reader_features}
    protocol = protocol_for_clients(protocol, active | enabled | supported)
    gate = FormatGate(chosen, options.capabilities, commit_range.before.protocol, commit_range.before.metadata)
    if chosen == DELTA and not commit_range.with_protocol:
        gate.allow_only(protocol)
    answer.size.expect(1.0)
    lines = _lines(answer, commit_range, protocol, commits, select, gate, token_at)
    body = answer.with_end(lines, required=commit_range.page_size is not None)
    return answer.response(commit_range.first.version, body, paged=commit_range.page_size is not None)


def data_changes(commit: Commit) -> list[FileAction]:
    """Returns the files that a commit added and removed, except those that only moved rows, as OPTIMIZE does."""
    return [file for file in commit.files if not isinstance(file, Cdc) and file.data_change]


def _lines(
    answer: TableAnswer,
    commit_range: Range,
    protocol: Protocol,
    commits: Iterable[Commit],
    select: Select,
    gate: FormatGate,
    token_at: TokenAt,
) -> PagedLines:
    """`protocol` covers the whole range, because Spark rejects metadata that needs more than the protocol allows."""
    page, head = commit_range.page, commit_range.head
    with_protocol = commit_range.with_protocol and answer.response_format == DELTA
    shown, version = (head.protocol, head.version) if with_protocol else (protocol, None)
    first_lines = answer.protocol_line(shown, version=version)
    first_lines += answer.metadata_line(head.metadata, totals=head, version=head.version)
    answer.room.add(first_lines)
    yield first_lines
    remaining = commit_range.page_size or sys.maxsize
    progress = 0.0
    pending: list[bytes] = []  # lines that must be on the same page as the next file
    for commit in commits:
        files = select(commit)
        # As of the version before the commit, when the removed files were live.
        partitioned = bool(gate.metadata.partition_columns)
        gate.follow(commit, files)
        written = page.files if commit.version == page.version else 0
        if written == 0:
            pending += _table_change_lines(answer, commit_range, commit, with_protocol=with_protocol)
        for file in files[written:]:
            if remaining == 0:
                return token_at(page)
            pending.append(answer.change_line(file, commit.version, commit.timestamp, partitioned=partitioned))
            lines = b"".join(pending)
            if not answer.room.take(lines):
                answer.take_back(1)
                return token_at(page)
            answer.size.written = progress + (commit.progress - progress) * (written + 1) / len(files)
            yield lines
            pending.clear()
            remaining, written = remaining - 1, written + 1
            page = page._replace(version=commit.version, files=written)
        answer.size.written = progress = commit.progress
    if pending:
        lines = b"".join(pending)
        if not answer.room.take(lines, files=0):
            return token_at(page)
        yield lines
    return None


def _table_change_lines(
    answer: TableAnswer, commit_range: Range, commit: Commit, *, with_protocol: bool
) -> Iterator[bytes]:
    """Yields lines for changes of protocol and metadata, which do not count towards the page size."""
    if commit.version > commit_range.first.version:
        if commit.protocol and with_protocol:
            yield answer.protocol_line(commit.protocol, version=commit.version)
        if commit.metadata and commit_range.with_metadata:
            yield answer.metadata_line(commit.metadata, version=commit.version)
