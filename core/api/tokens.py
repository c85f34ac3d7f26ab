"""Tokens that a client gets only to hand them back: signed, bound to a scope, and good for a time.

What a token says can be read by anyone, but only changed by us: it is signed together with its *scope* (what it is for,
and for whom), which it does not say itself, so it is of no use anywhere else.
"""

import base64
import binascii
import hmac
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

Scope = tuple[str, ...]

PAGE_LIFETIME_SECONDS = 3 * 24 * 3600
# A new key signs only after every process that caches keys has had the time to learn of it.
SETTLING_SECONDS = 600

_MAC_BYTES = 16
_EXPIRY = struct.Struct(">Q")
_HEADER_BYTES = _MAC_BYTES + _EXPIRY.size


class InvalidTokenError(ValueError):
    """It was not issued for this scope, or is not as it was issued."""


class ExpiredTokenError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class SigningKey:
    secret: bytes = field(repr=False)
    created_at: int


@dataclass(frozen=True, slots=True)
class SignedTokens:
    """Those that one request brings and takes along."""

    keys: Sequence[SigningKey]
    """The newest first; each of them is accepted."""
    now: float

    def issue(self, scope: Scope, content: bytes, *, lifetime_seconds: int) -> str:
        settled = (key for key in self.keys if key.created_at + SETTLING_SECONDS <= self.now)
        key = next(settled, self.keys[-1])
        payload = _EXPIRY.pack(int(self.now) + lifetime_seconds) + content
        return _encode(_mac(key, scope, payload) + payload)

    def read(self, token: str, scope: Scope) -> bytes:
        """The content of a token that was issued for this scope."""
        decoded = _decode(token)
        mac, payload = decoded[:_MAC_BYTES], decoded[_MAC_BYTES:]
        if not any(hmac.compare_digest(mac, _mac(key, scope, payload)) for key in self.keys):
            raise InvalidTokenError
        (expires_at,) = _EXPIRY.unpack_from(payload)
        if expires_at <= self.now:
            raise ExpiredTokenError
        return payload[_EXPIRY.size :]


def _mac(key: SigningKey, scope: Scope, payload: bytes) -> bytes:
    # A JSON array shows where it ends, so no two pairs of scope and payload give the same message.
    return hmac.digest(key.secret, json.dumps(scope).encode() + payload, "sha256")[:_MAC_BYTES]


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(token: str) -> bytes:
    try:
        content = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidTokenError from None
    # base64 has several spellings of the same bytes; only the one that was issued counts.
    if len(content) < _HEADER_BYTES or _encode(content) != token:
        raise InvalidTokenError
    return content
