"""Pages of a listing and the tokens that lead from one to the next.

A page token is the key of the last entry returned, with an expiry, signed together with the *scope* of the
listing (kind, recipient, share, schema): it is of no use for any other. A key, not an offset, keeps pages
right while entries come and go.
"""

import base64
import binascii
import hmac
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from core.api.request import Request
from core.errors import InvalidParameterError

T = TypeVar("T")
Scope = tuple[str, ...]

MAX_RESULTS = 500
LIFETIME_SECONDS = 3 * 24 * 3600
# A new key signs only after every process that caches keys has had the time to learn of it.
SETTLING_SECONDS = 600

_MAC_BYTES = 16
_EXPIRY = struct.Struct(">Q")
_HEADER_BYTES = _MAC_BYTES + _EXPIRY.size


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


@dataclass(frozen=True, slots=True)
class SigningKey:
    secret: bytes = field(repr=False)
    created_at: int


class PageTokens:
    def __init__(self, keys: Sequence[SigningKey]) -> None:
        """`keys`: the newest first; each of them is accepted."""
        self._keys = keys

    def issue(self, scope: Scope, position: str, now: float) -> str:
        settled = (key for key in self._keys if key.created_at + SETTLING_SECONDS <= now)
        key = next(settled, self._keys[-1])
        payload = _EXPIRY.pack(int(now) + LIFETIME_SECONDS) + position.encode()
        return _encode(_mac(key, scope, payload) + payload)

    def read(self, token: str, scope: Scope, now: float) -> str:
        content = _decode(token)
        mac, payload = content[:_MAC_BYTES], content[_MAC_BYTES:]
        if not any(hmac.compare_digest(mac, _mac(key, scope, payload)) for key in self._keys):
            raise InvalidParameterError("invalid 'nextPageToken'")
        (expires_at,) = _EXPIRY.unpack_from(payload)
        if expires_at <= now:
            raise InvalidParameterError("the 'nextPageToken' has expired: restart the listing without a page token")
        return payload[_EXPIRY.size :].decode()


class Cursor:
    """Where a listing stands: it goes on after `position` with at most `limit` entries."""

    def __init__(self, page: Page, scope: Scope, tokens: PageTokens, now: float) -> None:
        self.limit = page.max_results
        self.position = "" if page.token is None else tokens.read(page.token, scope, now)
        self._scope, self._tokens, self._now = scope, tokens, now

    def next_page_token(self, ahead: Sequence[str]) -> str | None:
        """`ahead`: the keys after the position, at least one more than the limit if there are so many."""
        if len(ahead) <= self.limit:
            return None
        last = ahead[self.limit - 1] if self.limit else self.position
        return self._tokens.issue(self._scope, last, self._now)


def _mac(key: SigningKey, scope: Scope, payload: bytes) -> bytes:
    # A JSON array shows where it ends, so no two pairs of scope and payload give the same message.
    return hmac.digest(key.secret, json.dumps(scope).encode() + payload, "sha256")[:_MAC_BYTES]


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(token: str) -> bytes:
    try:
        content = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    # base64 has several spellings of the same bytes; only the one that was issued counts.
    if len(content) < _HEADER_BYTES or _encode(content) != token:
        raise InvalidParameterError("invalid 'nextPageToken'")
    return content
