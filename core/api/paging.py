"""Pages of a listing, and the page tokens that link them.

A page token holds the key of the last entry returned and is bound to the listing (kind, recipient, share, schema).
Because it holds a key instead of an offset, pages stay correct while entries are added and removed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from core.api.requests.listing import ListRequest
from core.api.tokens import PAGE_LIFETIME_SECONDS, ExpiredTokenError, InvalidTokenError, Scope, SignedTokens
from core.errors import InvalidParameterError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: tuple[T, ...]
    next_page_token: str | None


class Cursor:
    """A page of a listing: at most `limit` entries, starting after the key `position`."""

    def __init__(self, request: ListRequest, scope: Scope, tokens: SignedTokens) -> None:
        self.limit = request.max_results
        self._scope, self._tokens = scope, tokens
        self.position = "" if request.page_token is None else self._read(request.page_token)

    def next_page_token(self, ahead: Sequence[str]) -> str | None:
        """Returns None on the last page. `ahead` holds the keys after the position, up to one more than the limit."""
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
