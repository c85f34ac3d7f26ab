"""The tokens of a table's answers: a page token leads to the next page, a refresh token to the same files anew.

Both name the version that they are of, and by its tip the log that it is a version of. The texts and the order of the
checks are the reference server's; to find a token of another table or query out as such, it says itself what it is for.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from core.api.tokens import PAGE_LIFETIME_SECONDS, ExpiredTokenError, InvalidTokenError, SignedTokens
from core.errors import InvalidParameterError

REFRESH_LIFETIME_SECONDS = 3600
# Counted from the first one: who is to see the latest version only must not hold on to an old one for ever.
REFRESHES_SECONDS = 24 * 3600
REFRESH = "refresh"
MAX_SHOWN = 100


class SnapshotPage(NamedTuple):
    """Where the files of a snapshot go on."""

    version: int
    origin: str
    """From where the version was read, which their order depends on."""
    tip: str
    """The object that stands for the version in its log."""
    place: int
    rows: int


class RangePage(NamedTuple):
    """Where the commits of a range go on: after the first so many files of `version`."""

    start: int
    end: int
    tip: str
    """Of the end."""
    head: int
    """The version whose metadata the answer begins with."""
    version: int
    files: int


class Refresh(NamedTuple):
    """An answer that may be asked for anew."""

    version: int
    origin: str
    tip: str
    first_issued_at: int
    """When the first token was issued, of those that each came with the answer to the one before."""


class PagedRequest(Protocol):
    @property
    def purpose(self) -> str:
        """What its page tokens are for. If ever their fields change, this must too."""

    @property
    def checksum(self) -> str:
        """Of all that must be asked for again with the next page."""


def checksum(*fields: object) -> str:
    """Long enough that nobody finds two queries with the same one: their pages may have other fields."""
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class TableTokens:
    tokens: SignedTokens
    recipient_id: str
    table_id: str

    def issue_page(self, request: PagedRequest, page: SnapshotPage | RangePage) -> str:
        return self._issue(request.purpose, [request.checksum, *page], PAGE_LIFETIME_SECONDS)

    def read_page(self, request: PagedRequest, token: str) -> list[Any]:
        """The fields of the page that was issued for this request."""
        query, *page = self._read(request.purpose, token, "page token", undecodable="Error decoding the page token")
        if query != request.checksum:
            raise InvalidParameterError(
                "Query parameter mismatch detected for the next page query. The query parameter\n"
                "cannot change when querying the next page results."
            )
        return page

    def issue_refresh(self, version: int, origin: str, tip: str, *, after: Refresh | None = None) -> str:
        """`after`: what the answer was refreshed by itself."""
        now = int(self.tokens.now)
        refresh = Refresh(version, origin, tip, after.first_issued_at if after else now)
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
