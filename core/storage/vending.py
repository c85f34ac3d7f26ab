"""Credentials with which a recipient reads a directory by itself.

They are a session of the directory's storage role, narrowed by a policy to that directory and named after who
reads what, so that the bucket owner's own logs tell. Once handed out they work until they end, within an hour:
nothing can call them back.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from core.errors import UnsupportedOperationError
from core.storage.location import S3Location
from core.storage.policy import MAX_CHARACTERS, reading_policy
from core.storage.roles import Credentials, CredentialsCache, StorageRole, assume_role

if TYPE_CHECKING:
    from mypy_boto3_sts import STSClient

MAX_CACHED_SESSIONS = 1024
POLICY_REFUSALS = frozenset({"MalformedPolicyDocument", "PackedPolicyTooLarge"})
UNSUITED = (
    "Temporary table credentials cannot be issued for this location: "
    "its path is too long, or has characters that AWS does not take in a policy."
)

_NOT_IN_SESSION_NAMES = re.compile(r"[^\w+=,.@-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class DirectoryReader:
    """Who reads which directory, and how: whatever differs here gets credentials of its own."""

    recipient_id: str
    recipient: str
    table_id: str
    table: str
    location: S3Location
    role: StorageRole
    kms_key_arn: str | None = None

    @property
    def session_name(self) -> str:
        """Of a long name the part that tells more: a recipient's beginning, and a table's end."""
        recipient, table = (_NOT_IN_SESSION_NAMES.sub("-", name) for name in (self.recipient, self.table))
        return f"{recipient[:29]}@{table[-34:]}"


class DirectoryCredentials:
    """Kept until half of their life, so that those handed out have at least the other half."""

    def __init__(self, sts: Callable[[], "STSClient"], *, now: Callable[[], float] = time.time) -> None:
        self._sts = sts
        self._cache: CredentialsCache[DirectoryReader] = CredentialsCache(
            self._assume, max_entries=MAX_CACHED_SESSIONS, now=now
        )

    def credentials(self, reader: DirectoryReader) -> Credentials:
        return self._cache.get(reader)

    def _assume(self, reader: DirectoryReader) -> Credentials:
        role = reader.role
        policy = reading_policy([reader.location], partition=role.partition, kms_key_arn=reader.kms_key_arn)
        if len(policy) > MAX_CHARACTERS:
            raise UnsupportedOperationError(UNSUITED)
        try:
            return assume_role(self._sts(), role, session_name=reader.session_name, policy=policy)
        except ClientError as error:
            if error.response["Error"]["Code"] in POLICY_REFUSALS:
                raise UnsupportedOperationError(UNSUITED) from error
            raise
