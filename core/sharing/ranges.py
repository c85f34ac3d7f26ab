"""What was committed in a range of versions: for streams, which go on by `startingVersion`, and for the change feed.

Commits are written out one by one as they are read. A range crosses changes of schema, of properties and of protocol,
while its answer keeps the format that it began with: with each commit it is seen whether that is still right.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from core.api.capabilities import DELTA
from core.api.query import QueryRequest
from core.api.response import Response
from core.catalog.model import Table
from core.delta.features import DELETION_VECTORS, active_features, covering, enabled_features, relayed
from core.delta.snapshot import Cdc, Commit, FileAction, Protocol, Snapshot
from core.errors import InvalidParameterError
from core.sharing.answers import ANSWERS, Asked, TableAnswer
from core.sharing.formats import FormatGate, choose_format
from core.sharing.tables import SharedTables
from core.storage.session import StorageSession

Select = Callable[[Commit], list[FileAction]]


@dataclass(frozen=True, slots=True)
class Range:
    first: Snapshot
    """At its first version."""
    last: Snapshot
    """At its last version or later, so that its protocol allows all that the range has in it."""
    head: Snapshot
    """The one whose metadata its answer begins with."""
    with_metadata: bool
    """Whether the client wants to know where the metadata changes; `with_protocol` says the same of the protocol."""
    with_protocol: bool


def answer_stream(tables: SharedTables, table: Table, query: QueryRequest, start: int, asked: Asked) -> Response:
    """All data that was added and removed from `startingVersion` on."""
    storage = tables.open(table)
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
    first = tables.delta.snapshot(storage, version=start)
    last = last_snapshot(tables, storage, asked, first, end)
    told = Range(first, last, head=first, with_metadata=True, with_protocol=query.include_historical_protocol)
    commits = tables.delta.commits(storage, start, end)
    return answer_range(table, storage, asked, told, commits, data_changes, ends=query.max_files is not None)


def last_snapshot(tables: SharedTables, storage: StorageSession, asked: Asked, first: Snapshot, end: int) -> Snapshot:
    """The one at the end of a range; the first one will do for an answer in parquet format, which has no protocol."""
    if end == first.version or DELTA not in asked.capabilities.formats:
        return first
    return tables.delta.snapshot(storage, version=end)


def answer_range(
    table: Table,
    storage: StorageSession,
    asked: Asked,
    told: Range,
    commits: Iterable[Commit],
    select: Select,
    *,
    ends: bool,
) -> Response:
    """`select`: the files of a commit that are to be answered."""
    first, snapshots = told.first, (told.first, told.last, told.head)
    # Whether a file of the range has a deletion vector shows only when it comes.
    active = frozenset[str]().union(
        *(active_features(each.protocol, each.metadata, deletion_vectors=False) for each in snapshots)
    )
    enabled = frozenset[str]().union(*(enabled_features(each.protocol, each.metadata) for each in snapshots))
    protocol = covering(each.protocol for each in snapshots)
    possible = {DELETION_VECTORS}.intersection(protocol.reader_features)
    chosen = choose_format(asked.capabilities, active, enabled | possible)
    answer = ANSWERS[chosen](table, storage, asked)
    named = {name for name in protocol.reader_features if name.lower() in asked.capabilities.reader_features}
    protocol = relayed(protocol, active | enabled | named)
    gate = FormatGate(chosen, asked.capabilities, first.protocol, first.metadata)
    if chosen == DELTA and not told.with_protocol:
        gate.allow_only(protocol)
    return answer.response(first.version, _lines(answer, told, protocol, commits, select, gate), ends=ends)


def data_changes(commit: Commit) -> list[FileAction]:
    """Without what only moves rows from file to file, as OPTIMIZE does."""
    return [file for file in commit.files if not isinstance(file, Cdc) and file.data_change]


def _lines(
    answer: TableAnswer, told: Range, protocol: Protocol, commits: Iterable[Commit], select: Select, gate: FormatGate
) -> Iterator[bytes]:
    """`protocol`: one that does for the whole range. Spark refuses metadata that the protocol does not allow."""
    start, head = told.first.version, told.head
    with_protocol = told.with_protocol and answer.response_format == DELTA
    yield answer.protocol_line(head.protocol, version=head.version) if with_protocol else answer.protocol_line(protocol)
    yield answer.metadata_line(head.metadata, totals=head, version=head.version)
    for commit in commits:
        files = select(commit)
        partitioned = bool(gate.metadata.partition_columns)  # before this commit, when there was what it removes
        gate.follow(commit, files)
        if commit.protocol and with_protocol and commit.version > start:
            yield answer.protocol_line(commit.protocol, version=commit.version)
        if commit.metadata and told.with_metadata and commit.version > start:
            yield answer.metadata_line(commit.metadata, version=commit.version)
        for file in files:
            yield answer.change_line(file, commit.version, commit.timestamp, partitioned=partitioned)
