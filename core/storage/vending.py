"""Temporary credentials for directory access.

They are a session of the storage role, limited to the directory by a session policy. The session name contains the
recipient and the table, so that the bucket owner's access logs show who read what. Credentials cannot be revoked: they
are valid until they expire, within an hour.
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
UNSUITABLE = (
    "Temporary table credentials cannot be issued for this location: "
    "its path is too long, or has characters that AWS does not allow in a policy."
)

_NOT_IN_SESSION_NAMES = re.compile(r"[^\w+=,.@-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class DirectoryReader:
    """Who reads which directory, and how. Readers that differ in any field get different credentials."""

    recipient_id: str
    recipient: str
    table_id: str
    table: str
    location: S3Location
    role: StorageRole
    kms_key_arn: str | None = None

    @property
    def session_name(self) -> str:
        """Keeps the start of a long recipient name and the end of a long table name: 64 characters at most."""
        recipient, table = (_NOT_IN_SESSION_NAMES.sub("-", name) for name in (self.recipient, self.table))
        return f"{recipient[:29]}@{table[-34:]}"


class DirectoryCredentials:
    """Caches credentials for half of their lifetime, so that vended credentials have at least the other half left."""

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
            raise UnsupportedOperationError(UNSUITABLE)
        try:
            return assume_role(self._sts(), role, session_name=reader.session_name, policy=policy)
        except ClientError as error:
            if error.response["Error"]["Code"] in POLICY_REFUSALS:
                raise UnsupportedOperationError(UNSUITABLE) from error
            raise
