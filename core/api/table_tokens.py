"""Page tokens and refresh tokens of a table.

A page token leads to the next page of a response; a refresh token returns the same files with new URLs. Both pin a
version, and the log tip that identifies the log of that version. The texts and the order of the checks match the
reference server. Tokens name their table and query, so that using one for another gets a specific error.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from core.api.tokens import PAGE_LIFETIME_SECONDS, ExpiredTokenError, InvalidTokenError, SignedTokens
from core.errors import InvalidParameterError

REFRESH_LIFETIME_SECONDS = 3600
# Counted from the first token, so that recipients without history access cannot keep an old version for ever.
REFRESHES_SECONDS = 24 * 3600
REFRESH = "refresh"
MAX_SHOWN = 100


class SnapshotPage(NamedTuple):
    """The position in the files of a snapshot where the next page starts."""

    version: int
    checkpoint_id: str
    """The checkpoint that the snapshot was read from. The order of the files depends on it."""
    tip: str
    """The log tip of the version."""
    place: int
    rows: int


class RangePage(NamedTuple):
    """The position in a range of commits where the next page starts: after the first `files` files of `version`."""

    start: int
    end: int
    tip: str
    """The log tip of the end version."""
    head: int
    """The version whose metadata the response starts with."""
    version: int
    files: int


class Refresh(NamedTuple):
    """A response that can be requested again."""

    version: int
    checkpoint_id: str
    tip: str
    first_issued_at: int
    """When the first token of this chain of refreshes was issued, in seconds since 1970."""


class PagedRequest(Protocol):
    @property
    def purpose(self) -> str:
        """What its page tokens are for. Must change whenever the fields of the tokens change."""

    @property
    def checksum(self) -> str:
        """A checksum of the parameters that must not change between pages."""


def checksum(*fields: object) -> str:
    """128 bits, so that nobody can find two queries with the same checksum."""
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class TableTokens:
    tokens: SignedTokens
    recipient_id: str
    table_id: str

    def issue_page(self, request: PagedRequest, page: SnapshotPage | RangePage) -> str:
        return self._issue(request.purpose, [request.checksum, *page], PAGE_LIFETIME_SECONDS)

    def read_page(self, request: PagedRequest, token: str) -> list[Any]:
        """The fields of a page token that was issued for this request."""
        query, *page = self._read(request.purpose, token, "page token", undecodable="Error decoding the page token")
        if query != request.checksum:
            raise InvalidParameterError(
                "Query parameter mismatch detected for the next page query. The query parameter\n"
                "cannot change when querying the next page results."
            )
        return page

    def issue_refresh(self, version: int, checkpoint_id: str, tip: str, *, after: Refresh | None = None) -> str:
        """`after` is the refresh token that the current response was requested with."""
        now = int(self.tokens.now)
        refresh = Refresh(version, checkpoint_id, tip, after.first_issued_at if after else now)
        left = refresh.first_issued_at + REFRESHES_SECONDS - now
        return self._issue(REFRESH, [*refresh], min(REFRESH_LIFETIME_SECONDS, left))

    def read_refresh(self, token: str) -> Refresh:
        return Refresh(*self._read(REFRESH, token, "refresh token", undecodable="Error decoding refresh token"))

    def _issue(self, purpose: str, fields: list[Any], lifetime_seconds: int) -> str:
        content = json.dumps([self.table_id, *fields], separators=(",", ":")).encode()
        return self.tokens.issue((purpose, self.recipient_id), content, lifetime_seconds=lifetime_seconds)

    def _read(self, purpose: str, token: str, name: str, *, undecodable: str) -> list[Any]:
        try:
            table_id, *fields = list(json.loads(self.tokens.read(token, (purpose, self.recipient_id))))
        except InvalidTokenError:
            raise InvalidParameterError(f"{undecodable}: {token[:MAX_SHOWN]}.") from None
        except ExpiredTokenError:
            raise InvalidParameterError(f"The {name} has expired. Please restart the query.") from None
        if table_id != self.table_id:
            raise InvalidParameterError(f"The table specified in the {name} does not match the table being queried.")
        return fields
