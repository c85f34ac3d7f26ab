"""The parameters of the listing routes."""

from dataclasses import dataclass

from core.api.requests.request import Request
from core.errors import InvalidParameterError

MAX_RESULTS = 500


@dataclass(frozen=True, slots=True)
class ListRequest:
    max_results: int
    page_token: str | None

    @classmethod
    def parse(cls, request: Request) -> "ListRequest":
        number = request.number("maxResults")
        if number is not None and not 0 <= number <= MAX_RESULTS:
            raise InvalidParameterError(
                f"Acceptable values of 'maxResults' are 0 to {MAX_RESULTS}, inclusive. (Default: {MAX_RESULTS})"
            )
        return cls(MAX_RESULTS if number is None else number, request.query.get("pageToken"))
