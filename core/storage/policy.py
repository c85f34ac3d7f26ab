"""Session policies, which limit the credentials of a recipient to a part of the storage role's permissions.

A session has the permissions that both its role and its policy allow. The policy is never empty: STS treats an empty
policy as none, and the session would have all permissions of the role.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from core.storage.location import S3Location

Statement = dict[str, Any]

# The limit of STS for the plain text. The packed size has a separate limit that only STS can check.
MAX_CHARACTERS = 2048
DENY_EVERYTHING: Statement = {"Effect": "Deny", "Action": "*", "Resource": "*"}

_GLOB = re.compile(r"[*?$]")


def reading_policy(locations: Sequence[S3Location], *, partition: str, kms_key_arn: str | None = None) -> str:
    """A policy that allows reading and listing the objects in these locations."""
    statements = [statement for location in locations for statement in _reading(location, partition)]
    if statements and kms_key_arn is not None:
        statements.append(_decrypting(kms_key_arn))
    document = {"Version": "2012-10-17", "Statement": statements or [DENY_EVERYTHING]}
    # ASCII with JSON escapes, because STS accepts no character above U+00FF. If STS refuses an escaped character, no
    # credentials are issued. Replacing it with a wildcard would open the directories of other tables.
    return json.dumps(document, separators=(",", ":"))


def _reading(location: S3Location, partition: str) -> Iterator[Statement]:
    bucket = f"arn:{partition}:s3:::{location.bucket}"
    below = _literal(location.key("")) + "*"
    yield {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{bucket}/{below}"}
    listing: Statement = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": bucket}
    if location.prefix:
        # The prefix keeps its slash: without it, listing `t1` would show the objects of `t10`.
        listing["Condition"] = {"StringLike": {"s3:prefix": below}}
    yield listing


def _decrypting(key_arn: str) -> Statement:
    """Allows decryption only through S3."""
    return {
        "Effect": "Allow",
        "Action": "kms:Decrypt",
        "Resource": key_arn,
        "Condition": {"StringLike": {"kms:ViaService": "s3.*"}},
    }


def _literal(text: str) -> str:
    """Escapes a prefix for IAM, so that `*` is not a wildcard and `${…}` is not a variable."""
    return _GLOB.sub(lambda found: f"${{{found[0]}}}", text)
