"""Page tokens and refresh tokens of a table.

A page token returns the next page of an answer; a refresh token returns the same files with new URLs. Both pin a
version and its log tip. They contain the id of their table and a checksum of their query, so that a token of another
table or query gets a specific error. Error texts and the order of the checks match the reference server.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from core.api.tokens import ExpiredTokenError, InvalidTokenError, SignedTokens
from core.errors import InvalidParameterError

REFRESH_LIFETIME_SECONDS = 3600
# How long a chain of pages and refreshes can read its pinned version. Counted from the first answer, so that recipients
# without history access cannot read an old version forever.
CHAIN_SECONDS = 24 * 3600
REFRESH = "refresh"
MAX_SHOWN = 100


class SnapshotPage(NamedTuple):
    """The start of the next page of a snapshot: after file number `last_file`."""

    version: int
    checkpoint_id: str
    """The checkpoint that the snapshot was read from. The order of the files depends on it."""
    tip: str
    """The log tip of the version."""
    last_file: int
    rows: int
    """Number of rows on previous pages that count towards the limit."""
    first_issued_at: int | None = None
    """When the first token of this chain was issued, in seconds since 1970; None on the first page."""


class RangePage(NamedTuple):
    """The start of the next page of a range of commits: after the first `files` files of `version`."""

    start: int
    end: int
    tip: str
    """The log tip of the end version."""
    head: int
    """The version whose metadata the answer starts with."""
    version: int
    files: int
    first_issued_at: int | None = None
    """When the first token of this chain was issued, in seconds since 1970; None on the first page."""


class Refresh(NamedTuple):
    """An answer that can be requested again with new URLs."""

    version: int
    checkpoint_id: str
    tip: str
    first_issued_at: int
    """When the first token of this chain of refreshes was issued, in seconds since 1970."""


class PagedRequest(Protocol):
    @property
    def purpose(self) -> str:
        """Separates the page tokens of different routes. Must change whenever the fields of the tokens change."""

    @property
    def checksum(self) -> str:
        """A checksum of the parameters that must not change between pages."""


def checksum(*fields: object) -> str:
    """Returns 128 bits in hex, enough to make collisions infeasible."""
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class TableTokens:
    tokens: SignedTokens
    recipient_id: str
    table_id: str

    def issue_page(self, request: PagedRequest, page: SnapshotPage | RangePage) -> str:
        """The token expires at the end of the page's chain. The first token starts a chain."""
        chain_start = self._chain_start(page.first_issued_at)
        fields = [request.checksum, *page._replace(first_issued_at=chain_start)]
        return self._issue(request.purpose, fields, self._remaining(chain_start))

    def read_page(self, request: PagedRequest, token: str) -> list[Any]:
        """Returns the fields of a page token that was issued for this request."""
        query, *page = self._read(request.purpose, token, "page token", undecodable="Error decoding the page token")
        if query != request.checksum:
            raise InvalidParameterError(
                "Query parameter mismatch detected for the next page query. The query parameter\n"
                "cannot change when querying the next page results."
            )
        return page

    def issue_refresh(self, version: int, checkpoint_id: str, tip: str, *, after: Refresh | None = None) -> str:
        """`after` is the refresh token of the current request, if it has one."""
        refresh = Refresh(version, checkpoint_id, tip, self._chain_start(after and after.first_issued_at))
        remaining = self._remaining(refresh.first_issued_at)
        return self._issue(REFRESH, [*refresh], min(REFRESH_LIFETIME_SECONDS, remaining))

    def read_refresh(self, token: str) -> Refresh:
        return Refresh(*self._read(REFRESH, token, "refresh token", undecodable="Error decoding refresh token"))

    def _chain_start(self, first_issued_at: int | None) -> int:
        return int(self.tokens.now) if first_issued_at is None else first_issued_at

    def _remaining(self, first_issued_at: int) -> int:
        return first_issued_at + CHAIN_SECONDS - int(self.tokens.now)

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
