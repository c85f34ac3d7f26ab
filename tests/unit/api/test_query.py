"""The body of a query, and the error for each invalid field."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.requests.query import QueryRequest
from core.api.requests.request import Request
from core.errors import InvalidParameterError, MalformedRequestError, SharingError


def parse(**fields: object) -> QueryRequest:
    return parse_body(json.dumps(fields).encode())


def parse_body(body: bytes, capabilities: str = "") -> QueryRequest:
    return QueryRequest.parse(Request("POST", headers={"delta-sharing-capabilities": capabilities}, body=body))


def test_every_field_is_parsed() -> None:
    assert parse(
        predicateHints=["a = 1"],
        jsonPredicateHints="{}",
        limitHint=10,
        maxFiles=5,
        includeRefreshToken=True,
        includeHistoricalProtocol=True,
        idempotencyKey="k",
    ) == QueryRequest(
        predicate_hints=("a = 1",),
        json_predicate_hints="{}",
        limit_hint=10,
        max_files=5,
        include_refresh_token=True,
        include_historical_protocol=True,
        idempotency_key="k",
    )


def test_unknown_fields_and_nulls_are_ignored() -> None:
    assert parse(surprise={"deep": [1]}, queryDeltaLog=True, version=None, predicateHints=None) == QueryRequest()


def test_the_idempotency_key_may_be_in_snake_case_as_spark_sends_it() -> None:
    assert parse(idempotency_key="k").idempotency_key == "k"


@pytest.mark.parametrize("number", [3, "3", 3.0, "03"])
def test_whole_numbers_may_be_strings(number: object) -> None:
    assert parse(version=number).version == 3


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "No content to map due to end-of-input"),
        (b"  \n", "No content to map due to end-of-input"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "Expected a JSON object"),
        (b'"text"', "Expected a JSON object"),
        (
            b'{"predicateHints": "a = 1"}',
            "Expected an array for repeated field predicateHints of QueryTableRequest",
        ),
        (b'{"predicateHints": [1]}', "Expected strings in repeated field predicateHints"),
        (b'{"jsonPredicateHints": {}}', "Expected a string for field jsonPredicateHints"),
        (b'{"version": "x3"}', "Not a numeric value: x3"),
        (b'{"version": 1.5}', "Not a numeric value: 1.5"),
        (b'{"version": true}', "Not a numeric value: True"),
        (b'{"maxFiles": ' + b"[" * 1_000 + b"]" * 1_000 + b"}", "Not a numeric value: a list"),
        (b'{"version": 99999999999999999999}', "Not an int64 value"),
        (b'{"version": "%s"}' % (b"9" * 10_000), "Not an int64 value"),
        (b'{"maxFiles": 3000000000}', "Not an int32 value"),
        (b'{"includeRefreshToken": "maybe"}', "Expected true or false for field includeRefreshToken"),
    ],
)
def test_an_invalid_body_is_a_malformed_request(body: bytes, message: str) -> None:
    with pytest.raises(MalformedRequestError) as caught:
        parse_body(body)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 1, "timestamp": "t"}, "Please only provide one of: version,timestamp,startingVersion"),
        (
            {"version": -1, "startingVersion": 1},
            "Please only provide one of: version,timestamp,startingVersion",
        ),
        ({"version": -1}, "table version cannot be negative."),
        ({"startingVersion": -1}, "startingVersion cannot be negative."),
        ({"maxFiles": 0}, "maxFiles must be positive."),
        (
            {"version": 1, "includeRefreshToken": True},
            "includeRefreshToken cannot be used when querying a specific version.",
        ),
        (
            {"pageToken": "p", "includeRefreshToken": True},
            "includeRefreshToken must be used in the first page request.",
        ),
        (
            {"timestamp": "t", "refreshToken": "r"},
            "refreshToken cannot be used when querying a specific version.",
        ),
        ({"pageToken": "p", "refreshToken": "r"}, "refreshToken must be used in the first page request."),
        ({"limitHint": -5}, "limitHint cannot be negative."),
    ],
)
def test_invalid_fields_get_the_reference_servers_error_texts(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        parse(**fields)
    assert caught.value.message == message


def test_an_asynchronous_query_requires_an_idempotency_key() -> None:
    with pytest.raises(InvalidParameterError, match="idempotency_key is required for async query."):
        parse_body(b"{}", "asyncquery=true")
    assert parse_body(b'{"idempotency_key": "k"}', "asyncquery=true").idempotency_key == "k"


FIELDS = st.sampled_from(
    [
        "predicateHints",
        "jsonPredicateHints",
        "limitHint",
        "version",
        "timestamp",
        "maxFiles",
        "includeRefreshToken",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(FIELDS, VALUES) | VALUES)
def test_every_body_is_a_query_or_a_400(document: object) -> None:
    try:
        parse_body(json.dumps(document).encode())
    except SharingError as error:
        assert error.status == 400
