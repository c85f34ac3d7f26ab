"""The change data feed: which rows were inserted, updated and deleted from one version to another.

An update writes files of the changed rows beside those that it adds and removes, and these are the feed then. Of any
other commit, all rows of an added file are inserts and all rows of a removed one deletes.
"""

from collections.abc import Iterable, Iterator

from core.api.changes import ChangesRequest
from core.api.query import refuse_page_token
from core.api.response import Response
from core.api.timestamps import parse_timestamp
from core.catalog.model import Table
from core.delta.history import AfterHistoryError, BeforeHistoryError, moment
from core.delta.snapshot import Cdc, Commit, FileAction, Metadata
from core.errors import InvalidParameterError
from core.sharing.answers import CHANGE_FEED_PROPERTY, Asked
from core.sharing.ranges import Range, answer_range, data_changes, last_snapshot
from core.sharing.tables import SharedTables, require_urls
from core.storage.session import StorageSession


def require_change_feed(table: Table) -> None:
    require_urls(table)
    if not table.history_shared:
        raise InvalidParameterError(f"cdf is not enabled on table {table.full_name}")


def answer_changes(
    tables: SharedTables, table: Table, changes: ChangesRequest, asked: Asked, *, ends: bool
) -> Response:
    refuse_page_token(changes.page_token)
    storage = tables.open(table)
    start, end = _range(tables, table, storage, changes)
    first = tables.delta.snapshot(storage, version=start)
    _require_recorded(first.metadata, start, (start, end))
    if changes.include_historical_metadata:
        head, last = first, last_snapshot(tables, storage, asked, first, end)
    else:
        head = last = tables.delta.snapshot(storage)
    told = Range(
        first,
        last,
        head,
        with_metadata=changes.include_historical_metadata,
        with_protocol=changes.include_historical_protocol,
    )
    commits = _recorded(tables.delta.commits(storage, start, end), (start, end))
    return answer_range(table, storage, asked, told, commits, _changes, ends=ends)


def _range(tables: SharedTables, table: Table, storage: StorageSession, changes: ChangesRequest) -> tuple[int, int]:
    """The first and the last version that are asked for, of those that there are."""
    latest = tables.delta.latest_version(storage)
    start = changes.starting_version
    if start is None:
        start = _version_at_or_after(tables, table, storage, changes.starting_timestamp or "")
    if start > latest:
        raise InvalidParameterError(
            f"Provided Start version({start}) for reading change data is invalid. "
            f"Start version cannot be greater than the latest version of the table({latest})."
        )
    end = latest if changes.ending_version is None else changes.ending_version
    if changes.ending_timestamp is not None:
        end = _version_at_or_before(tables, table, storage, changes.ending_timestamp, latest)
    if end < start:
        raise InvalidParameterError(
            f"CDF range from start {start} to end {end} was invalid. End cannot be before start."
        )
    if start < table.start_version:
        raise InvalidParameterError(f"You can only query table changes since version {table.start_version}.")
    return start, min(end, latest)


def _version_at_or_after(tables: SharedTables, table: Table, storage: StorageSession, text: str) -> int:
    timestamp_ms = parse_timestamp(text, field="startingTimestamp")
    try:
        tables.delta.version_at_or_before(storage, timestamp_ms)  # what was before the first commit, nobody knows
        return tables.delta.version_at_or_after(storage, timestamp_ms)
    except BeforeHistoryError as error:
        raise _too_early(error, table) from None
    except AfterHistoryError as error:
        edge = moment(error.edge_ms)
        raise InvalidParameterError(
            f"The provided timestamp ({moment(error.timestamp_ms)}) is after the latest version available to this "
            f"table ({edge}). Please use a timestamp before or at {edge}."
        ) from None


def _version_at_or_before(tables: SharedTables, table: Table, storage: StorageSession, text: str, latest: int) -> int:
    timestamp_ms = parse_timestamp(text, field="endingTimestamp")
    try:
        return tables.delta.version_at_or_before(storage, timestamp_ms)
    except BeforeHistoryError as error:
        raise _too_early(error, table) from None
    except AfterHistoryError:
        return latest


def _too_early(error: BeforeHistoryError, table: Table) -> InvalidParameterError:
    if error.version < table.start_version:  # what came before is not told
        return InvalidParameterError(f"You can only query table changes since version {table.start_version}.")
    edge = moment(error.edge_ms)
    return InvalidParameterError(
        f"The provided timestamp ({moment(error.timestamp_ms)}) is before the earliest version available to this "
        f"table ({edge}). Please use a timestamp at or after {edge}."
    )


def _recorded(commits: Iterable[Commit], asked: tuple[int, int]) -> Iterator[Commit]:
    for commit in commits:
        if commit.metadata:
            _require_recorded(commit.metadata, commit.version, asked)
        yield commit


def _require_recorded(metadata: Metadata, version: int, asked: tuple[int, int]) -> None:
    if metadata.configuration.get(CHANGE_FEED_PROPERTY) != "true":
        start, end = asked
        raise InvalidParameterError(
            f"Error getting change data for range [{start}, {end}] as change data was not recorded "
            f"for version [{version}]"
        )


def _changes(commit: Commit) -> list[FileAction]:
    recorded: list[FileAction] = [file for file in commit.files if isinstance(file, Cdc)]
    if recorded or commit.changes_no_row:
        return recorded
    return data_changes(commit)
