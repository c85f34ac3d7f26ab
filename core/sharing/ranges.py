"""What was committed in a range of versions: for streams, which go on by `startingVersion`, and for the change feed.

Commits are written out one by one as they are read. A range crosses changes of schema, of properties and of protocol,
while its answer keeps the format that it began with: with each commit it is seen whether that is still right. All pages
of an answer are of the range that the first one found.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from core.api.capabilities import DELTA
from core.api.query import QueryRequest
from core.api.response import Response
from core.api.table_tokens import RangePage, TableTokens
from core.catalog.model import Table
from core.delta.features import DELETION_VECTORS, active_features, covering, enabled_features, relayed
from core.delta.snapshot import Cdc, Commit, FileAction, Head, Protocol
from core.errors import InvalidParameterError
from core.sharing.answers import ANSWERS, Asked, PagedLines, TableAnswer
from core.sharing.formats import FormatGate, choose_format
from core.sharing.tables import SharedTables
from core.storage.session import StorageSession

Select = Callable[[Commit], list[FileAction]]
TokenAt = Callable[[RangePage], str]


@dataclass(frozen=True, slots=True)
class Range:
    page: RangePage
    first: Head
    """At its first version."""
    last: Head
    """At its last version or later, so that its protocol allows all that the range has in it."""
    head: Head
    """The one whose metadata its answer begins with."""
    before: Head
    """The one that the page's commits follow; the first one, if they begin with it."""
    with_metadata: bool
    """Whether the client wants to know where the metadata changes; `with_protocol` says the same of the protocol."""
    with_protocol: bool
    page_size: int | None


def answer_stream(
    tables: SharedTables, table: Table, query: QueryRequest, start: int, asked: Asked, tokens: TableTokens
) -> Response:
    """All data that was added and removed from `startingVersion` on."""
    storage = tables.open(table)
    if query.page_token is None:
        end = _end(tables, table, storage, query, start)
        page = RangePage(start, end, tables.delta.tip(storage, end), start, version=start, files=0)
    else:
        page = RangePage(*tokens.read_page(query, query.page_token))
        tables.delta.check_tip(storage, page.end, page.tip)
    first = tables.delta.head(storage, start)
    told = Range(
        page,
        first,
        before=head_before(tables, storage, first, page),
        last=last_head(tables, storage, asked, first, page.end),
        head=first,
        with_metadata=True,
        with_protocol=query.include_historical_protocol,
        page_size=query.page_size,
    )
    commits = tables.delta.commits(storage, page.version, page.end)
    return answer_range(table, storage, asked, told, commits, data_changes, partial(tokens.issue_page, query))


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


def head_before(tables: SharedTables, storage: StorageSession, first: Head, page: RangePage) -> Head:
    return first if page.version == page.start else tables.delta.head(storage, page.version - 1)


def last_head(tables: SharedTables, storage: StorageSession, asked: Asked, first: Head, end: int) -> Head:
    """The one at the end of a range; the first one will do for an answer in parquet format, which has no protocol."""
    if end == first.version or DELTA not in asked.capabilities.formats:
        return first
    return tables.delta.head(storage, end)


def answer_range(
    table: Table,
    storage: StorageSession,
    asked: Asked,
    told: Range,
    commits: Iterable[Commit],
    select: Select,
    token_at: TokenAt,
) -> Response:
    """`select`: the files of a commit that are to be answered."""
    heads = (told.first, told.last, told.head)
    # Whether a file of the range has a deletion vector shows only when it comes.
    active = frozenset[str]().union(
        *(active_features(each.protocol, each.metadata, deletion_vectors=False) for each in heads)
    )
    enabled = frozenset[str]().union(*(enabled_features(each.protocol, each.metadata) for each in heads))
    protocol = covering(each.protocol for each in heads)
    possible = {DELETION_VECTORS}.intersection(protocol.reader_features)
    chosen = choose_format(asked.capabilities, active, enabled | possible)
    answer = ANSWERS[chosen](table, storage, asked)
    named = {name for name in protocol.reader_features if name.lower() in asked.capabilities.reader_features}
    protocol = relayed(protocol, active | enabled | named)
    gate = FormatGate(chosen, asked.capabilities, told.before.protocol, told.before.metadata)
    if chosen == DELTA and not told.with_protocol:
        gate.allow_only(protocol)
    body = _lines(answer, told, protocol, commits, select, gate, token_at)
    return answer.response(told.first.version, answer.ended(body, due=told.page_size is not None))


def data_changes(commit: Commit) -> list[FileAction]:
    """Without what only moves rows from file to file, as OPTIMIZE does."""
    return [file for file in commit.files if not isinstance(file, Cdc) and file.data_change]


def _lines(
    answer: TableAnswer,
    told: Range,
    protocol: Protocol,
    commits: Iterable[Commit],
    select: Select,
    gate: FormatGate,
    token_at: TokenAt,
) -> PagedLines:
    """`protocol`: one that does for the whole range. Spark refuses metadata that the protocol does not allow."""
    page, head = told.page, told.head
    with_protocol = told.with_protocol and answer.response_format == DELTA
    yield answer.protocol_line(head.protocol, version=head.version) if with_protocol else answer.protocol_line(protocol)
    yield answer.metadata_line(head.metadata, totals=head, version=head.version)
    left = told.page_size or sys.maxsize
    held: list[bytes] = []  # until the next file comes, for its page is theirs
    for commit in commits:
        files = select(commit)
        partitioned = bool(gate.metadata.partition_columns)  # before this commit, when there was what it removes
        gate.follow(commit, files)
        done = page.files if commit.version == page.version else 0
        if done == 0:
            held += _changes_of_table(answer, told, commit, with_protocol=with_protocol)
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


def _changes_of_table(answer: TableAnswer, told: Range, commit: Commit, *, with_protocol: bool) -> Iterator[bytes]:
    """Where its protocol or its metadata is another one from now on. Such lines do not count towards a page's size."""
    if commit.version > told.first.version:
        if commit.protocol and with_protocol:
            yield answer.protocol_line(commit.protocol, version=commit.version)
        if commit.metadata and told.with_metadata:
            yield answer.metadata_line(commit.metadata, version=commit.version)
