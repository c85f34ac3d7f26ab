"""Timestamps in requests: ISO 8601, in UTC unless an offset is given."""

from datetime import UTC, datetime

from core.errors import InvalidParameterError

MAX_SHOWN = 100


def parse_timestamp(text: str, *, field: str) -> int:
    """Returns milliseconds since 1970. `field` is the parameter's name for the error message."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        # Integer arithmetic rounds down even before 1970; floats would be off by one.
        since_1970 = moment - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        # The reference server names `startingTimestamp` also for `timestamp`, and the tests of clients compare it.
        shown_field = "startingTimestamp" if field == "timestamp" else field
        raise InvalidParameterError(
            f"Invalid {shown_field}: {text[:MAX_SHOWN]!r} is not a time in ISO 8601, such as 2022-01-01T00:00:00Z."
        ) from None
    return (since_1970.days * 86_400 + since_1970.seconds) * 1000 + since_1970.microseconds // 1000
