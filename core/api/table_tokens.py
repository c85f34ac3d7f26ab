"""The tokens of a table's answers: a page token leads to the next page, a refresh token to the same files anew.

Both name the version that they are of. The texts and the order of the checks are the reference server's; to find a
token of another table or query out as such, it says itself what it is for.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from core.api.tokens import ExpiredTokenError, InvalidTokenError, SignedTokens
from core.errors import InvalidParameterError

PAGE_LIFETIME_SECONDS = 3 * 24 * 3600
REFRESH_LIFETIME_SECONDS = 3600
REFRESH = "refresh"
MAX_SHOWN = 100


class SnapshotPage(NamedTuple):
    """Where the files of a snapshot go on."""

    version: int
    origin: str
    """From where the version was read, which their order depends on."""
    place: int
    rows: int


class RangePage(NamedTuple):
    """Where the commits of a range go on: after the first so many files of `version`."""

    start: int
    end: int
    head: int | None
    """The version whose metadata the answer begins with; None at first, if it is to be the latest."""
    version: int
    files: int


class PagedRequest(Protocol):
    @property
    def purpose(self) -> str:
        """What its page tokens are for. If ever their fields change, this must too."""

    @property
    def checksum(self) -> str:
        """Of all that must be asked for again with the next page."""


def checksum(*fields: object) -> str:
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class TableTokens:
    tokens: SignedTokens
    recipient_id: str
    table_id: str

    def issue_page(self, request: PagedRequest, page: SnapshotPage | RangePage) -> str:
        return self._issue(request.purpose, [request.checksum, *page], PAGE_LIFETIME_SECONDS)

    def read_page(self, request: PagedRequest, token: str) -> list[Any]:
        """The fields of the page that was issued for this request."""
        query, *page = self._read(request.purpose, token, "the page token")
        if query != request.checksum:
            raise InvalidParameterError(
                "Query parameter mismatch detected for the next page query. The query parameter\n"
                "cannot change when querying the next page results."
            )
        return page

    def issue_refresh(self, version: int) -> str:
        return self._issue(REFRESH, [version], REFRESH_LIFETIME_SECONDS)

    def read_refresh(self, token: str) -> int:
        version: int
        (version,) = self._read(REFRESH, token, "refresh token")
        return version

    def _issue(self, purpose: str, fields: list[Any], lifetime_seconds: int) -> str:
        content = json.dumps([self.table_id, *fields], separators=(",", ":")).encode()
        return self.tokens.issue((purpose, self.recipient_id), content, lifetime_seconds=lifetime_seconds)

    def _read(self, purpose: str, token: str, called: str) -> list[Any]:
        name = called.removeprefix("the ")
        try:
            table_id, *fields = list(json.loads(self.tokens.read(token, (purpose, self.recipient_id))))
        except InvalidTokenError:
            raise InvalidParameterError(f"Error decoding {called}: {token[:MAX_SHOWN]}.") from None
        except ExpiredTokenError:
            raise InvalidParameterError(f"The {name} has expired. Please restart the query.") from None
        if table_id != self.table_id:
            raise InvalidParameterError(f"The table specified in the {name} does not match the table being queried.")
        return fields
