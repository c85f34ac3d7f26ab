"""The body of `POST …/query`, and the checks that do not need the table.

The checks, their order and their texts match the reference server because clients and their tests compare them.
"""

from dataclasses import dataclass
from typing import ClassVar

from core.api.requests.body import INT32_MAX, Body
from core.api.requests.capabilities import Capabilities
from core.api.requests.request import Request
from core.api.table_tokens import checksum
from core.errors import InvalidParameterError

MAX_FILES_NOT_POSITIVE = "maxFiles must be positive."
MAX_PAGE_FILES = 10_000


@dataclass(frozen=True, slots=True)
class QueryRequest:
    purpose: ClassVar[str] = "query-3"

    predicate_hints: tuple[str, ...] = ()
    json_predicate_hints: str | None = None
    limit_hint: int | None = None
    version: int | None = None
    timestamp: str | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    include_historical_protocol: bool = False
    max_files: int | None = None
    page_token: str | None = None
    include_refresh_token: bool = False
    refresh_token: str | None = None
    idempotency_key: str | None = None

    @classmethod
    def parse(cls, request: Request) -> "QueryRequest":
        """Reports errors in the capabilities before errors in the body."""
        capabilities = Capabilities.parse(request)
        fields = Body.parse(request, "QueryTableRequest")
        query = cls(
            predicate_hints=fields.texts("predicateHints"),
            json_predicate_hints=fields.text("jsonPredicateHints"),
            limit_hint=fields.number("limitHint"),
            version=fields.number("version"),
            timestamp=fields.text("timestamp"),
            starting_version=fields.number("startingVersion"),
            ending_version=fields.number("endingVersion"),
            include_historical_protocol=fields.flag("includeHistoricalProtocol"),
            max_files=fields.number("maxFiles", largest=INT32_MAX),
            page_token=fields.text("pageToken"),
            include_refresh_token=fields.flag("includeRefreshToken"),
            refresh_token=fields.text("refreshToken"),
            idempotency_key=fields.text("idempotencyKey") or fields.text("idempotency_key"),
        )
        _check(query, async_query=capabilities.async_query)
        return query

    @property
    def reads_history(self) -> bool:
        """Whether the request names a point in time, which requires a table with shared history."""
        return any(value is not None for value in (self.version, self.timestamp, self.starting_version))

    @property
    def page_size(self) -> int | None:
        return page_size(self.max_files)

    @property
    def checksum(self) -> str:
        return checksum(
            self.predicate_hints,
            self.json_predicate_hints,
            self.limit_hint,
            self.version,
            self.timestamp,
            self.starting_version,
            self.ending_version,
            self.include_historical_protocol,
        )


def page_size(max_files: int | None) -> int | None:
    """The number of files on a page; None puts all files on one page."""
    return None if max_files is None else min(max_files, MAX_PAGE_FILES)


def _check(query: QueryRequest, *, async_query: bool) -> None:
    points_in_time = (query.version, query.timestamp, query.starting_version)
    is_next_page, is_refresh = query.page_token is not None, query.refresh_token is not None
    rules = (
        (
            sum(point is not None for point in points_in_time) > 1,
            "Please only provide one of: version,timestamp,startingVersion",
        ),
        (_is_negative(query.version), "table version cannot be negative."),
        (_is_negative(query.starting_version), "startingVersion cannot be negative."),
        (query.max_files is not None and query.max_files <= 0, MAX_FILES_NOT_POSITIVE),
        (
            query.reads_history and query.include_refresh_token,
            "includeRefreshToken cannot be used when querying a specific version.",
        ),
        (
            is_next_page and query.include_refresh_token,
            "includeRefreshToken must be used in the first page request.",
        ),
        (query.reads_history and is_refresh, "refreshToken cannot be used when querying a specific version."),
        (is_next_page and is_refresh, "refreshToken must be used in the first page request."),
        (async_query and not query.idempotency_key, "idempotency_key is required for async query."),
        (_is_negative(query.limit_hint), "limitHint cannot be negative."),
    )
    for is_broken, message in rules:
        if is_broken:
            raise InvalidParameterError(message)


def _is_negative(number: int | None) -> bool:
    return number is not None and number < 0
