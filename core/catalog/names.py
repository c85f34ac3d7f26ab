"""Names of shares, schemas, tables and recipients: the protocol's rules, and their DynamoDB keys.

Names are case-insensitive and case-preserving: the catalog looks them up by `key(name)` and returns the stored name.
"""

import hashlib
import re
from typing import Literal

Kind = Literal["share", "schema", "table", "recipient"]

MAX_LENGTH = 255
# A DynamoDB sort key has at most 1,024 bytes. This fits two keys of 4-byte characters, each with a hash.
MAX_KEY_LENGTH = 100

_FORBIDDEN = re.compile(r"[\s/\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def problem(kind: Kind, name: str) -> str | None:
    """Returns why a name is invalid, as a clause for an error message, or None if it is valid."""
    if not name:
        return "must not be empty"
    if len(name) > MAX_LENGTH:
        return f"must have at most {MAX_LENGTH} characters"
    if found := _FORBIDDEN.search(name):
        return f"must not contain {found.group()!a} (no white space, '/' or control characters)"
    if kind in ("schema", "table") and "." in name:
        return "must not contain '.'"
    if name in (".", ".."):  # HTTP clients resolve these in paths, so no request could name the entry
        return "must not be '.' or '..'"
    return None


def key(name: str) -> str:
    """Returns the same key for all spellings of a name, and different keys for different names. Its length is bounded.

    Invalid names get a key that no entry has, so a lookup finds nothing.
    """
    if not name or _FORBIDDEN.search(name):
        return " "
    folded = name.casefold()
    if len(folded) <= MAX_KEY_LENGTH:
        return folded
    return f"{folded[:MAX_KEY_LENGTH]}~{hashlib.sha256(folded.encode()).hexdigest()}"
