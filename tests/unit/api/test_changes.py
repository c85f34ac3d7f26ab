"""The parameters of the change data feed, and the error texts that clients compare."""

import pytest

from core.api.requests.changes import ChangesRequest, MaxFiles
from core.api.requests.request import Request
from core.errors import InvalidParameterError


def parse(**query: str) -> ChangesRequest:
    return ChangesRequest.parse(Request("GET", query=query))


def refusal(**query: str) -> str:
    with pytest.raises(InvalidParameterError) as caught:
        parse(**query)
    return caught.value.message


def test_versions_are_parsed_and_timestamps_stay_text() -> None:
    changes = parse(startingVersion="-1", endingTimestamp="2022-01-01T00:00:00Z")
    assert (changes.starting_version, changes.starting_timestamp) == (-1, None)
    assert (changes.ending_version, changes.ending_timestamp) == (None, "2022-01-01T00:00:00Z")


@pytest.mark.parametrize("edge", ["starting", "ending"])
def test_a_start_or_end_cannot_be_both_a_version_and_a_timestamp(edge: str) -> None:
    both = {"startingVersion": "0", f"{edge}Version": "0", f"{edge}Timestamp": "x"}
    assert refusal(**both) == (
        f"Multiple {edge} arguments provided for CDF read. "
        f"Please provide one of either {edge}Timestamp or {edge}Version."
    )


def test_a_start_is_required() -> None:
    for query in ({}, {"endingVersion": "1"}):
        assert refusal(**query) == "No startingVersion or startingTimestamp provided for CDF read."


@pytest.mark.parametrize("text", ["", "x", "1.5", "0x1", "9" * 5000, "\u0661"])
def test_a_version_must_be_a_number(text: str) -> None:
    assert refusal(startingVersion=text) == "startingVersion is not a valid number."
    assert refusal(startingVersion="0", endingVersion=text) == "endingVersion is not a valid number."


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), ("True", True), ("TRUE", True), ("false", False), ("yes", False), ("", False)],
)
def test_a_flag_is_set_by_true_in_any_case(text: str, expected: bool) -> None:
    changes = parse(startingVersion="0", includeHistoricalMetadata=text, includeHistoricalProtocol=text)
    assert (changes.include_historical_metadata, changes.include_historical_protocol) == (expected, expected)
    assert not parse(startingVersion="0").include_historical_metadata


def test_unknown_parameters_are_ignored() -> None:
    assert parse(startingVersion="0", readChangeFeed="true") == parse(startingVersion="0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "maxFiles must be positive."),
        ("-5", "maxFiles must be positive."),
        ("x", "expected a number but the string didn't have the appropriate format"),
    ],
)
def test_max_files_must_be_a_positive_number(text: str, message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        MaxFiles.parse(Request("GET", query={"maxFiles": text}))
    assert caught.value.message == message


def test_the_page_size_is_limited_to_10_000_files() -> None:
    assert parse(startingVersion="0", maxFiles="7").page_size == 7
    assert parse(startingVersion="0", maxFiles="70000").page_size == 10_000
    assert parse(startingVersion="0").page_size is None
