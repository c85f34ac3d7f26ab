"""Timestamps in requests, to the millisecond."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.timestamps import parse_timestamp
from core.errors import InvalidParameterError


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2022-01-01T00:00:00Z", 1_640_995_200_000),
        ("2022-01-01T00:00:00.123Z", 1_640_995_200_123),
        ("2021-12-31T16:00:00-08:00", 1_640_995_200_000),
        ("2022-01-01 00:00:00", 1_640_995_200_000),
        ("1969-12-31T23:59:59.999999Z", -1),
    ],
)
def test_iso_8601_is_parsed(text: str, milliseconds: int) -> None:
    assert parse_timestamp(text, field="timestamp") == milliseconds


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_timestamp_is_rounded_down_to_the_millisecond(moment: datetime) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // (datetime.resolution * 1000)
    assert parse_timestamp(moment.isoformat(), field="timestamp") == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2022-13-01T00:00:00Z", "1640995200000", "2022-01-01T25:00:00Z", "\0"]
)
def test_the_error_for_other_text_names_the_field(text: str) -> None:
    with pytest.raises(InvalidParameterError, match="Invalid startingTimestamp"):
        parse_timestamp(text, field="startingTimestamp")
