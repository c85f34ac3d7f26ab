"""Finds the version at a timestamp.

The time of a commit is its in-commit timestamp if it has one, otherwise the modification time of its object. The two
must not be mixed, because objects may have been copied long after the commit. The first commit with an in-commit
timestamp therefore divides the history, and a search stays on one side of it. Error messages are those of the reference
server, without the storage path.

A search may start at a version (`since`). Its errors then name that version and later ones only, because a recipient
must not learn about the versions before.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache

from core.delta.log.segment import Log
from core.errors import InvalidParameterError, MalformedRequestError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ReadTimestamp = Callable[[int], int | None]
"""Returns the in-commit timestamp of a version, or None if it has none."""


class OutsideHistoryError(InvalidParameterError):
    """A timestamp outside the history. `version` and `edge_ms` describe the nearest end of the history."""

    def __init__(self, message: str, *, timestamp_ms: int, version: int, edge_ms: int | None) -> None:
        super().__init__(message)
        self.timestamp_ms, self.version, self.edge_ms = timestamp_ms, version, edge_ms


class BeforeHistoryError(OutsideHistoryError):
    def __init__(self, timestamp_ms: int, version: int, edge_ms: int | None) -> None:
        """`edge_ms` is None if the earliest version that a recipient may read does not exist yet."""
        message = (
            f"The provided timestamp {format_timestamp(timestamp_ms)} is before the earliest available version "
            f"{version}.{use_later(edge_ms)}"
        )
        super().__init__(message, timestamp_ms=timestamp_ms, version=version, edge_ms=edge_ms)


class AfterHistoryError(OutsideHistoryError):
    def __init__(self, timestamp_ms: int, version: int, edge_ms: int) -> None:
        message = (
            f"The provided timestamp {format_timestamp(timestamp_ms)} is after the latest available version {version}."
            f"{use_earlier(edge_ms)}"
        )
        super().__init__(message, timestamp_ms=timestamp_ms, version=version, edge_ms=edge_ms)


def use_later(edge_ms: int | None) -> str:
    """Returns the advice at the end of a message; clients and their tests compare its beginning."""
    return (
        f" Please use a timestamp greater than or equal to {format_timestamp(edge_ms)}." if edge_ms is not None else ""
    )


def use_earlier(edge_ms: int | None) -> str:
    return f" Please use a timestamp less than or equal to {format_timestamp(edge_ms)}." if edge_ms is not None else ""


def check_version(log: Log, version: int) -> None:
    if version > log.version:
        raise MalformedRequestError(
            f"Cannot load table version {version} as it does not exist. The latest available version is {log.version}."
        )
    if version < log.earliest_version:
        raise _truncated(version, log.earliest_version)


def check_commits(log: Log, start: int) -> None:
    """Raises if the log no longer has the commits from `start` on."""
    check_version(log, start)
    if log.commits and start < min(log.commits):
        raise _truncated(start, min(log.commits))


def _truncated(version: int, earliest: int) -> MalformedRequestError:
    return MalformedRequestError(
        f"Cannot load table version {version} as the transaction log has been truncated due to manual "
        f"deletion or the log/checkpoint retention policy. The earliest available version is {earliest}."
    )


class History:
    def __init__(self, log: Log, in_commit_timestamp: ReadTimestamp) -> None:
        """`log` must be the whole log. `in_commit_timestamp` reads a commit, so it is called as rarely as possible."""
        self._in_commit_timestamp = cache(in_commit_timestamp)
        earliest = log.earliest_version
        times = {version: time for version, time in log.timestamps.items() if version >= earliest}
        self._versions, self._file_times = list(times), list(times.values())
        self._indices = range(len(self._versions))
        self._divide = self._first_with_in_commit_timestamp()

    def at_or_before(self, timestamp_ms: int, since: int = 0) -> int:
        """Returns the version that was current at a timestamp.

        Raises if that is before `since`, or if the timestamp is after the last commit.
        """
        side = self._side(timestamp_ms, since)
        found = bisect_right(self._indices, timestamp_ms, *side, key=self._time) - 1
        if found < 0 or self._versions[found] < since:
            raise self._too_early(timestamp_ms, since)
        return self._versions[found]

    def at_or_after(self, timestamp_ms: int, since: int = 0) -> int:
        """Returns the first version at or after a timestamp. Raises like `at_or_before`."""
        side = self._side(timestamp_ms, since)
        found = self._versions[bisect_left(self._indices, timestamp_ms, *side, key=self._time)]
        if found < since:
            raise self._too_early(timestamp_ms, since)
        return found

    def _too_early(self, timestamp_ms: int, since: int) -> BeforeHistoryError:
        first = bisect_left(self._versions, since)
        if first == len(self._versions):
            return BeforeHistoryError(timestamp_ms, since, None)
        return BeforeHistoryError(timestamp_ms, self._versions[first], self._time(first))

    def _first_with_in_commit_timestamp(self) -> int:
        """Returns an index, which is past the end if no commit has one."""
        if self._in_commit_timestamp(self._versions[-1]) is None:
            return len(self._versions)
        return bisect_left(self._versions, True, key=lambda version: self._in_commit_timestamp(version) is not None)

    def _side(self, timestamp_ms: int, since: int) -> tuple[int, int]:
        """Returns the range of indices to search for a timestamp."""
        last = self._indices[-1]
        if self._versions[last] < since:
            raise self._too_early(timestamp_ms, since)
        if timestamp_ms > self._time(last):
            raise AfterHistoryError(timestamp_ms, self._versions[last], self._time(last))
        if self._divide <= last and timestamp_ms >= self._time(self._divide):
            return self._divide, last + 1
        return 0, self._divide

    def _time(self, index: int) -> int:
        timestamp = self._in_commit_timestamp(self._versions[index]) if index >= self._divide else None
        return self._file_times[index] if timestamp is None else timestamp


def format_timestamp(timestamp_ms: int) -> str:
    """Formats a timestamp for error messages: in milliseconds and in ISO 8601."""
    try:
        shown = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    precision = "milliseconds" if timestamp_ms % 1000 else "seconds"
    return f"{timestamp_ms} ms ({shown.replace(tzinfo=None).isoformat(timespec=precision)}Z)"
