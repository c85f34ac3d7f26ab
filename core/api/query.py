"""The body of `POST …/query`, and the checks that need no table.

The checks, their order and their texts are the reference server's: clients and their tests look for them. Unknown
fields are ignored, null is absent, and whole numbers may come as strings.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from core.errors import InvalidParameterError, MalformedRequestError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class QueryRequest:
    predicate_hints: tuple[str, ...] = ()
    json_predicate_hints: str | None = None
    limit_hint: int | None = None
    version: int | None = None
    timestamp: str | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    max_files: int | None = None
    page_token: str | None = None
    include_refresh_token: bool = False
    refresh_token: str | None = None
    idempotency_key: str | None = None

    @property
    def travels(self) -> bool:
        """Whether it asks for anything but the latest version, which needs history sharing."""
        return any(value is not None for value in (self.version, self.timestamp, self.starting_version))


def parse_query(body: bytes, *, async_query: bool) -> QueryRequest:
    fields = _Fields(_document(body))
    query = QueryRequest(
        predicate_hints=fields.texts("predicateHints"),
        json_predicate_hints=fields.text("jsonPredicateHints"),
        limit_hint=fields.number("limitHint"),
        version=fields.number("version"),
        timestamp=fields.text("timestamp"),
        starting_version=fields.number("startingVersion"),
        ending_version=fields.number("endingVersion"),
        max_files=fields.number("maxFiles", largest=INT32_MAX),
        page_token=fields.text("pageToken"),
        include_refresh_token=fields.flag("includeRefreshToken"),
        refresh_token=fields.text("refreshToken"),
        idempotency_key=fields.text("idempotencyKey") or fields.text("idempotency_key"),
    )
    _check(query, async_query=async_query)
    return query


def _check(query: QueryRequest, *, async_query: bool) -> None:
    points = (query.version, query.timestamp, query.starting_version)
    paged, refreshed = query.page_token is not None, query.refresh_token is not None
    rules = (
        (
            sum(point is not None for point in points) > 1,
            "Please only provide one of: version,timestamp,startingVersion",
        ),
        (_negative(query.version), "table version cannot be negative."),
        (_negative(query.starting_version), "startingVersion cannot be negative."),
        (query.max_files is not None and query.max_files <= 0, "maxFiles must be positive."),
        (
            query.travels and query.include_refresh_token,
            "includeRefreshToken cannot be used when querying a specific version.",
        ),
        (
            paged and query.include_refresh_token,
            "includeRefreshToken must be used in the first page request.",
        ),
        (query.travels and refreshed, "refreshToken cannot be used when querying a specific version."),
        (paged and refreshed, "refreshToken must be used in the first page request."),
        (async_query and not query.idempotency_key, "idempotency_key is required for async query."),
        (_negative(query.limit_hint), "limitHint cannot be negative."),
    )
    for broken, message in rules:
        if broken:
            raise InvalidParameterError(message)


def _negative(number: int | None) -> bool:
    return number is not None and number < 0


def _document(body: bytes) -> dict[str, Any]:
    if not body.strip():
        raise MalformedRequestError("No content to map due to end-of-input")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedRequestError(f"The request body is not valid JSON: {error.msg}") from None
    if not isinstance(document, dict):
        raise MalformedRequestError("Expected a JSON object for QueryTableRequest")
    return document


class _Fields:
    """Typed access to the fields of a body."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def text(self, name: str) -> str | None:
        value = self._document.get(name)
        if value is not None and not isinstance(value, str):
            raise MalformedRequestError(f"Expected a string for field {name} of QueryTableRequest")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._document.get(name)
        if values is None:
            return ()
        if not isinstance(values, list):
            raise MalformedRequestError(f"Expected an array for repeated field {name} of QueryTableRequest")
        if not all(isinstance(value, str) for value in values):
            raise MalformedRequestError(f"Expected strings in repeated field {name} of QueryTableRequest")
        return tuple(values)

    def flag(self, name: str) -> bool:
        value = self._document.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        if value in ("true", "false"):
            return bool(value == "true")
        raise MalformedRequestError(f"Expected true or false for field {name} of QueryTableRequest")

    def number(self, name: str, *, largest: int = INT64_MAX) -> int | None:
        value = self._document.get(name)
        if value is None:
            return None
        number = _whole(value)
        if number is None:
            raise MalformedRequestError(f"Not a numeric value: {str(value)[:100]}")
        if not -largest - 1 <= number <= largest:
            raise MalformedRequestError("Not an int32 value" if largest == INT32_MAX else "Not an int64 value")
        return number


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii():
        # Python refuses to turn thousands of digits into a number; such a one is out of range anyway.
        return int(value) if len(value) <= 4000 else INT64_MAX + 1
    return None
