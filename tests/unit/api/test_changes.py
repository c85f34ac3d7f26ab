"""The parameters of the change feed: one beginning, at most one end, and the texts that clients look for."""

import pytest

from core.api.changes import ChangesRequest, asked_max_files
from core.api.request import Request
from core.errors import InvalidParameterError


def parse(**query: str) -> ChangesRequest:
    request = Request("GET", query=query)
    return ChangesRequest.of(request, asked_max_files(request))


def refusal(**query: str) -> str:
    with pytest.raises(InvalidParameterError) as caught:
        parse(**query)
    return caught.value.message


def test_versions_are_numbers_and_timestamps_stay_texts() -> None:
    changes = parse(startingVersion="-1", endingTimestamp="2022-01-01T00:00:00Z")
    assert (changes.starting_version, changes.starting_timestamp) == (-1, None)
    assert (changes.ending_version, changes.ending_timestamp) == (None, "2022-01-01T00:00:00Z")


@pytest.mark.parametrize("edge", ["starting", "ending"])
def test_an_edge_is_given_once(edge: str) -> None:
    both = {"startingVersion": "0", f"{edge}Version": "0", f"{edge}Timestamp": "x"}
    assert refusal(**both) == (
        f"Multiple {edge} arguments provided for CDF read. "
        f"Please provide one of either {edge}Timestamp or {edge}Version."
    )


def test_a_beginning_is_needed() -> None:
    for query in ({}, {"endingVersion": "1"}):
        assert refusal(**query) == "No startingVersion or startingTimestamp provided for CDF read."


@pytest.mark.parametrize("text", ["", "x", "1.5", "0x1", "9" * 5000, "\u0661"])
def test_a_version_is_a_number(text: str) -> None:
    assert refusal(startingVersion=text) == "startingVersion is not a valid number."
    assert refusal(startingVersion="0", endingVersion=text) == "endingVersion is not a valid number."


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), ("True", True), ("TRUE", True), ("false", False), ("yes", False), ("", False)],
)
def test_a_switch_is_on_when_it_says_true_in_any_case(text: str, expected: bool) -> None:
    changes = parse(startingVersion="0", includeHistoricalMetadata=text, includeHistoricalProtocol=text)
    assert (changes.include_historical_metadata, changes.include_historical_protocol) == (expected, expected)
    assert not parse(startingVersion="0").include_historical_metadata


def test_what_is_not_known_is_ignored() -> None:
    assert parse(startingVersion="0", readChangeFeed="true") == parse(startingVersion="0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "maxFiles must be positive."),
        ("-5", "maxFiles must be positive."),
        ("x", "expected a number but the string didn't have the appropriate format"),
    ],
)
def test_max_files_is_a_positive_number(text: str, message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        asked_max_files(Request("GET", query={"maxFiles": text}))
    assert caught.value.message == message


def test_a_page_has_at_most_as_many_files_as_the_server_allows() -> None:
    assert parse(startingVersion="0", maxFiles="7").page_size == 7
    assert parse(startingVersion="0", maxFiles="70000").page_size == 10_000
    assert parse(startingVersion="0").page_size is None
