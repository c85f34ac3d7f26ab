"""Which version a moment means, and what to say when there is none.

The texts are the ones that clients know from the reference server, without the storage path in front.
"""

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta

from core.delta.log import Log
from core.errors import MalformedRequestError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def check_version(log: Log, version: int) -> None:
    if version > log.version:
        raise MalformedRequestError(
            f"Cannot load table version {version} as it does not exist. The latest available version is {log.version}."
        )
    if version < log.earliest_version:
        raise MalformedRequestError(
            f"Cannot load table version {version} as the transaction log has been truncated due to manual "
            "deletion or the log/checkpoint retention policy. "
            f"The earliest available version is {log.earliest_version}."
        )


def version_at_or_before(log: Log, timestamp_ms: int) -> int:
    """The version that was current at a moment; after the last commit there is no telling yet."""
    versions, timestamps = _readable_history(log)
    if timestamp_ms < timestamps[0]:
        raise MalformedRequestError(
            f"The provided timestamp {_moment(timestamp_ms)} is before the earliest available version "
            f"{versions[0]}. Please use a timestamp greater than or equal to {_moment(timestamps[0])}."
        )
    _check_not_after(timestamp_ms, versions[-1], timestamps[-1])
    return versions[bisect_right(timestamps, timestamp_ms) - 1]


def version_at_or_after(log: Log, timestamp_ms: int) -> int:
    versions, timestamps = _readable_history(log)
    _check_not_after(timestamp_ms, versions[-1], timestamps[-1])
    return versions[bisect_left(timestamps, timestamp_ms)]


def _readable_history(log: Log) -> tuple[list[int], list[int]]:
    earliest = log.earliest_version
    readable = {version: moment for version, moment in log.timestamps().items() if version >= earliest}
    return list(readable), list(readable.values())


def _check_not_after(timestamp_ms: int, latest_version: int, latest_ms: int) -> None:
    if timestamp_ms > latest_ms:
        raise MalformedRequestError(
            f"The provided timestamp {_moment(timestamp_ms)} is after the latest available version "
            f"{latest_version}. Please use a timestamp less than or equal to {_moment(latest_ms)}."
        )


def _moment(timestamp_ms: int) -> str:
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    precision = "milliseconds" if timestamp_ms % 1000 else "seconds"
    return f"{timestamp_ms} ms ({moment.replace(tzinfo=None).isoformat(timespec=precision)}Z)"
