"""Pages of a listing and the tokens that lead from one to the next.

A page token is the key of the last entry returned; its scope is the listing (kind, recipient, share, schema). A key,
not an offset, keeps pages right while entries come and go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from core.api.request import Request
from core.api.tokens import PAGE_LIFETIME_SECONDS, ExpiredTokenError, InvalidTokenError, Scope, SignedTokens
from core.errors import InvalidParameterError

T = TypeVar("T")

MAX_RESULTS = 500


@dataclass(frozen=True, slots=True)
class Page:
    """What a request asks for. It is checked when it is used, not before: authentication comes first."""

    request: Request

    @property
    def max_results(self) -> int:
        number = self.request.number("maxResults")
        if number is None:
            return MAX_RESULTS
        if not 0 <= number <= MAX_RESULTS:
            raise InvalidParameterError(
                f"Acceptable values of 'maxResults' are 0 to {MAX_RESULTS}, inclusive. (Default: {MAX_RESULTS})"
            )
        return number

    @property
    def token(self) -> str | None:
        return self.request.query.get("pageToken")

    def check(self) -> None:
        """A bad `maxResults` is told before a share is looked for, a bad token only after."""
        _ = self.max_results


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: tuple[T, ...]
    next_page_token: str | None
    recipient: str
    """Who asked, for the log."""


class Cursor:
    """Where a listing stands: it goes on after `position` with at most `limit` entries."""

    def __init__(self, page: Page, scope: Scope, tokens: SignedTokens) -> None:
        self.limit = page.max_results
        self._scope, self._tokens = scope, tokens
        self.position = "" if page.token is None else self._read(page.token)

    def next_page_token(self, ahead: Sequence[str]) -> str | None:
        """`ahead`: the keys after the position, at least one more than the limit if there are so many."""
        if len(ahead) <= self.limit:
            return None
        last = ahead[self.limit - 1] if self.limit else self.position
        return self._tokens.issue(self._scope, last.encode(), lifetime_seconds=PAGE_LIFETIME_SECONDS)

    def _read(self, token: str) -> str:
        try:
            return self._tokens.read(token, self._scope).decode()
        except InvalidTokenError:
            raise InvalidParameterError("invalid 'nextPageToken'") from None
        except ExpiredTokenError:
            raise InvalidParameterError(
                "the 'nextPageToken' has expired: restart the listing without a page token"
            ) from None
