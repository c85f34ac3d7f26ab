"""Names of shares, schemas, tables and recipients: the protocol's rules, and how a name becomes a key.

Names are case-insensitive and keep their spelling: the catalog looks them up by `key(name)` and shows the
stored name.
"""

import hashlib
import re
from typing import Literal

Kind = Literal["share", "schema", "table", "recipient"]

MAX_LENGTH = 255
# A DynamoDB sort key holds 1,024 bytes: two keys of this many 4-byte characters, each with a hash, fit.
MAX_KEY_LENGTH = 100

_FORBIDDEN = re.compile(r"[\s/\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def problem(kind: Kind, name: str) -> str | None:
    """What is wrong with a name, as a clause for a message; None if nothing is."""
    if not name:
        return "must not be empty"
    if len(name) > MAX_LENGTH:
        return f"must have at most {MAX_LENGTH} characters"
    if found := _FORBIDDEN.search(name):
        return f"must not contain {found.group()!a} (no white space, '/' or control characters)"
    if kind in ("schema", "table") and "." in name:
        return "must not contain '.'"
    if name in (".", ".."):  # HTTP clients resolve these away, so no request could ever name it
        return "must not be '.' or '..'"
    return None


def key(name: str) -> str:
    """The same for all spellings of a name, different for different names, and of bounded length.

    A name that could not be part of a DynamoDB key gets one that no entry has: looking it up finds nothing.
    """
    if not name or _FORBIDDEN.search(name):
        return " "
    folded = name.casefold()
    if len(folded) <= MAX_KEY_LENGTH:
        return folded
    return f"{folded[:MAX_KEY_LENGTH]}~{hashlib.sha256(folded.encode()).hexdigest()}"
