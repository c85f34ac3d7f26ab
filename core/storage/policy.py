"""Session policies: what of a storage role's rights a recipient gets along with its credentials.

A session may do what both its role and its policy allow. So a policy is written for exactly one use, and never
empty: STS takes an empty one for none, and the session would have all that the role may.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from core.storage.location import S3Location

Statement = dict[str, Any]

# What STS takes as plain text. Its packed form has a limit of its own, which only STS can tell.
MAX_CHARACTERS = 2048
DENY_EVERYTHING: Statement = {"Effect": "Deny", "Action": "*", "Resource": "*"}

_GLOB = re.compile(r"[*?$]")


def reading_policy(locations: Sequence[S3Location], *, partition: str, kms_key_arn: str | None = None) -> str:
    """To read the objects below these locations, and to list them."""
    statements = [statement for location in locations for statement in _reading(location, partition)]
    if statements and kms_key_arn is not None:
        statements.append(_decrypting(kms_key_arn))
    document = {"Version": "2012-10-17", "Statement": statements or [DENY_EVERYTHING]}
    # In ASCII, by JSON's escapes: STS takes no character beyond U+00FF. Should it refuse an escaped one, nothing is
    # issued; a wildcard in its place would open the directories of other tables.
    return json.dumps(document, separators=(",", ":"))


def _reading(location: S3Location, partition: str) -> Iterator[Statement]:
    bucket = f"arn:{partition}:s3:::{location.bucket}"
    below = _literal(location.key("")) + "*"
    yield {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{bucket}/{below}"}
    listing: Statement = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": bucket}
    if location.prefix:
        # Not the prefix without its slash: a listing of `t1` would show what lies in `t10`.
        listing["Condition"] = {"StringLike": {"s3:prefix": below}}
    yield listing


def _decrypting(key_arn: str) -> Statement:
    """Only what S3 decrypts for the reader, whatever else the key may be used for."""
    return {
        "Effect": "Allow",
        "Action": "kms:Decrypt",
        "Resource": key_arn,
        "Condition": {"StringLike": {"kms:ViaService": "s3.*"}},
    }


def _literal(text: str) -> str:
    """As IAM reads it literally: a `*` in a prefix must not become a wildcard, nor `${…}` a variable."""
    return _GLOB.sub(lambda found: f"${{{found[0]}}}", text)
