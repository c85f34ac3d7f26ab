"""The change data feed: rows that were inserted, updated and deleted between two versions.

If a commit contains `cdc` files, these hold its changed rows. In any other commit, all rows of an added file are
inserts and all rows of a removed file are deletes.
"""

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial

from core.api.requests.changes import ChangesRequest
from core.api.response import Response
from core.api.table_tokens import RangePage, TableTokens
from core.api.timestamps import parse_timestamp
from core.catalog.model import Table
from core.delta.features import CHANGE_FEED_PROPERTY
from core.delta.history import (
    AfterHistoryError,
    BeforeHistoryError,
    OutsideHistoryError,
    format_timestamp,
    use_earlier,
    use_later,
)
from core.delta.model import Cdc, Commit, FileAction, Metadata
from core.errors import InvalidParameterError
from core.sharing.answers.table_answer import AnswerOptions
from core.sharing.ranges import Range, answer_range, data_changes, summary_at_end, summary_before_page
from core.sharing.tables import SharedTables, require_urls
from core.storage.session import StorageSession


def require_change_feed(table: Table) -> None:
    require_urls(table)
    if not table.history_shared:
        raise InvalidParameterError(f"cdf is not enabled on table {table.full_name}")


def answer_changes(
    tables: SharedTables, table: Table, changes: ChangesRequest, options: AnswerOptions, tokens: TableTokens
) -> Response:
    storage = tables.open(table)
    if changes.page_token is None:
        page = _first_page(tables, table, storage, changes)
    else:
        page = RangePage(*tokens.read_page(changes, changes.page_token))
        _require_started(table, page.start)
        tables.delta.check_tip(storage, page.end, page.tip)
    first = tables.delta.summary(storage, page.start)
    _require_recorded(first.metadata, page.start, page)
    before = summary_before_page(tables, storage, first, page)
    if changes.include_historical_metadata:
        head, last = first, summary_at_end(tables, storage, options, first, page.end)
    else:
        head = last = tables.delta.summary(storage, page.head)
    commit_range = Range(
        page,
        first,
        last,
        head,
        before,
        with_metadata=changes.include_historical_metadata,
        with_protocol=changes.include_historical_protocol,
        page_size=changes.page_size,
    )
    commits = _check_recorded(tables.delta.commits(storage, page.version, page.end), page)
    return answer_range(table, storage, options, commit_range, commits, _changes, partial(tokens.issue_page, changes))


def _first_page(tables: SharedTables, table: Table, storage: StorageSession, changes: ChangesRequest) -> RangePage:
    """Returns the first page of the requested range, which ends at the latest version at most."""
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
        end = _version_at_or_before(tables, table, storage, changes.ending_timestamp)
    if end < start:
        raise InvalidParameterError(
            f"CDF range from start {start} to end {end} was invalid. End cannot be before start."
        )
    _require_started(table, start)
    end = min(end, latest)
    head = start if changes.include_historical_metadata else latest
    return RangePage(start, end, tables.delta.tip(storage, end), head, version=start, files=0)


def _require_started(table: Table, version: int) -> None:
    if version < table.start_version:
        raise InvalidParameterError(_not_started(table))


def _not_started(table: Table) -> str:
    return f"You can only query table changes since version {table.start_version}."


def _version_at_or_after(tables: SharedTables, table: Table, storage: StorageSession, text: str) -> int:
    timestamp_ms = parse_timestamp(text, field="startingTimestamp")
    with _outside_history(table):
        version = tables.delta.version_at_or_after(storage, timestamp_ms, table.start_version)
        tables.delta.version_at_or_before(storage, timestamp_ms)  # raises if the timestamp is before the first commit
        return version


def _version_at_or_before(tables: SharedTables, table: Table, storage: StorageSession, text: str) -> int:
    """Raises for a timestamp after the last commit, because the same request would return more later."""
    timestamp_ms = parse_timestamp(text, field="endingTimestamp")
    with _outside_history(table):
        return tables.delta.version_at_or_before(storage, timestamp_ms, table.start_version)


@contextlib.contextmanager
def _outside_history(table: Table) -> Iterator[None]:
    """Changes the messages about a timestamp outside the history to those of the reference server for this route."""
    try:
        yield
    except BeforeHistoryError as error:
        started = f"{_not_started(table)} " if error.version == table.start_version > 0 else ""
        moment, edge = format_timestamp(error.timestamp_ms), _edge(error)
        raise InvalidParameterError(
            f"{started}The provided timestamp ({moment}) is before the earliest version available to this table{edge}."
            f"{use_later(error.edge_ms)}"
        ) from None
    except AfterHistoryError as error:
        moment, edge = format_timestamp(error.timestamp_ms), _edge(error)
        raise InvalidParameterError(
            f"The provided timestamp ({moment}) is after the latest version available to this table{edge}."
            f"{use_earlier(error.edge_ms)}"
        ) from None


def _edge(error: OutsideHistoryError) -> str:
    return "" if error.edge_ms is None else f" ({format_timestamp(error.edge_ms)})"


def _check_recorded(commits: Iterable[Commit], page: RangePage) -> Iterator[Commit]:
    for commit in commits:
        if commit.metadata:
            _require_recorded(commit.metadata, commit.version, page)
        yield commit


def _require_recorded(metadata: Metadata, version: int, page: RangePage) -> None:
    if metadata.configuration.get(CHANGE_FEED_PROPERTY) != "true":
        raise InvalidParameterError(
            f"Error getting change data for range [{page.start}, {page.end}] as change data was not recorded "
            f"for version [{version}]"
        )


def _changes(commit: Commit) -> list[FileAction]:
    recorded: list[FileAction] = [file for file in commit.files if isinstance(file, Cdc)]
    if recorded or commit.changes_no_row:
        return recorded
    return data_changes(commit)
