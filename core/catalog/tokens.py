"""Bearer tokens: 256 random bits, shown once. The catalog stores only their SHA-256."""

import hashlib
import re
import secrets

PREFIX = "slc_"

_SHAPE = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}")


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def looks_like_token(text: str) -> bool:
    """A cheap check that avoids reading DynamoDB for malformed tokens."""
    return _SHAPE.fullmatch(text) is not None


def sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
