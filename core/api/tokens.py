"""Opaque tokens that a client returns to the server: signed, bound to a scope, and valid for a limited time.

The content of a token is readable but cannot be changed. The signature also covers the *scope* (the purpose and the
recipient), which the token does not contain, so a token is invalid in any other scope.
"""

import base64
import binascii
import hmac
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Scope = tuple[str, ...]

# Of listings. The page tokens of a table expire with their chain (`table_tokens`).
PAGE_LIFETIME_SECONDS = 3 * 24 * 3600
# A new key signs only after every process has had time to refresh its cached keys.
SETTLING_SECONDS = 600

_MAC_BYTES = 16
_EXPIRY = struct.Struct(">Q")
_HEADER_BYTES = _MAC_BYTES + _EXPIRY.size


class InvalidTokenError(ValueError):
    """The token was altered, or was not issued for this scope."""


class ExpiredTokenError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class SigningKey:
    secret: bytes = field(repr=False)
    created_at: int


@dataclass(slots=True)
class SignedTokens:
    """Issues and reads tokens during one request. `now` is the time of the request."""

    keys: Sequence[SigningKey]
    """Newest first. Tokens signed with any of them are accepted."""
    now: float
    look_up_keys: Callable[[], Sequence[SigningKey]] = tuple
    """Returns the current keys, for a token that none of `keys` has signed. May return none, to limit lookups."""

    def issue(self, scope: Scope, content: bytes, *, lifetime_seconds: int) -> str:
        settled = (key for key in self.keys if key.created_at + SETTLING_SECONDS <= self.now)
        key = next(settled, self.keys[-1])
        payload = _EXPIRY.pack(int(self.now) + lifetime_seconds) + content
        return _encode(_mac(key, scope, payload) + payload)

    def read(self, token: str, scope: Scope) -> bytes:
        """Returns the content of a token that was issued for this scope."""
        decoded = _decode(token)
        mac, payload = decoded[:_MAC_BYTES], decoded[_MAC_BYTES:]
        if not _is_signed(mac, scope, payload, self.keys):
            # `keys` may be older than the token: two rotations replace all of them.
            keys = self.look_up_keys()
            if not _is_signed(mac, scope, payload, keys):
                raise InvalidTokenError
            self.keys = keys
        (expires_at,) = _EXPIRY.unpack_from(payload)
        if expires_at <= self.now:
            raise ExpiredTokenError
        return payload[_EXPIRY.size :]


def _is_signed(mac: bytes, scope: Scope, payload: bytes, keys: Sequence[SigningKey]) -> bool:
    return any(hmac.compare_digest(mac, _mac(key, scope, payload)) for key in keys)


def _mac(key: SigningKey, scope: Scope, payload: bytes) -> bytes:
    # A JSON array is self-delimiting, so different pairs of scope and payload never produce the same message.
    return hmac.digest(key.secret, json.dumps(scope).encode() + payload, "sha256")[:_MAC_BYTES]


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(token: str) -> bytes:
    try:
        content = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidTokenError from None
    # base64 can encode the same bytes in several ways. Accept only the form that was issued.
    if len(content) < _HEADER_BYTES or _encode(content) != token:
        raise InvalidTokenError
    return content
