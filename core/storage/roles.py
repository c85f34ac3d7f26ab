"""Credentials of storage roles, which read tables, sign URLs and issue credentials for directory access.

Roles are always assumed, because the expiry of a function's own credentials is unknown. Credentials are cached for half
of their lifetime. Concurrent requests for the same credentials share one call.
"""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from botocore.config import Config
from botocore.exceptions import ClientError, ParamValidationError

from core.errors import TableFilesError
from core.settings import MIN_URL_SECONDS, Settings

if TYPE_CHECKING:
    from botocore.session import Session
    from mypy_boto3_sts import STSClient
    from mypy_boto3_sts.type_defs import AssumeRoleRequestTypeDef

SESSION_NAME = "sluice"
# A function already runs as a role, and AWS limits role chaining to one hour.
SESSION_SECONDS = 3600
# The time that a request may take between getting credentials and signing its first URL.
MARGIN_SECONDS = 60
MAX_CACHED_ROLES = 256
# STS returns AccessDenied also for an unknown role, and ValidationError for an invalid ARN.
REFUSALS = frozenset({"AccessDenied", "ValidationError"})
CLIENT_CONFIG = Config(connect_timeout=2, read_timeout=10, retries={"mode": "standard"})

Key = TypeVar("Key", bound=Hashable)


NO_STORAGE_ROLE = "The server has no storage role to read this table. Please contact your share provider."


class NoStorageRoleError(TableFilesError):
    """Neither the table nor the server names a role. Its cause, which is logged, names the setting."""


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(repr=False)
    expires_at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class StorageRole:
    arn: str
    external_id: str | None = None

    @classmethod
    def of(cls, settings: Settings, arn: str | None, external_id: str | None) -> "StorageRole":
        """The table's role, or else the server's. The server's external id is never sent to a table's own role."""
        if arn:
            return cls(arn, external_id)
        if settings.storage_role_arn:
            return cls(settings.storage_role_arn, settings.storage_external_id)
        setting = "no storage role: set SLUICE_STORAGE_ROLE_ARN, or a role for the table"
        raise NoStorageRoleError(NO_STORAGE_ROLE) from RuntimeError(setting)

    @property
    def partition(self) -> str:
        """The AWS partition of the role and its buckets: `aws`, `aws-cn`, `aws-us-gov` …"""
        return self.arn.partition(":")[2].partition(":")[0]


class CredentialsCache(Generic[Key]):
    """A thread-safe cache of credentials. The key must include everything that the credentials depend on."""

    def __init__(
        self,
        obtain: Callable[[Key], Credentials],
        *,
        max_entries: int,
        min_seconds_left: float = 0.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Cached credentials have at least half of their lifetime left, and at least `min_seconds_left`."""
        self._obtain = obtain
        self._max_entries = max_entries
        self._min_seconds_left = min_seconds_left
        self._now = now
        self._lock = threading.Lock()
        self._cached: dict[Key, tuple[Credentials, float]] = {}
        self._pending: dict[Key, Future[Credentials]] = {}

    def get(self, key: Key) -> Credentials:
        with self._lock:
            cached, renew_at = self._cached.get(key, (None, 0.0))
            if cached and self._now() < renew_at:
                return cached
            is_pending = key in self._pending
            promise = self._pending.setdefault(key, Future())
        return promise.result() if is_pending else self._renew(key, promise)

    def _renew(self, key: Key, promise: "Future[Credentials]") -> Credentials:
        started_at = self._now()
        try:
            credentials = self._obtain(key)
        except BaseException as error:
            with self._lock:
                del self._pending[key]
            promise.set_exception(error)
            raise
        half_of_life = (credentials.expires_at - started_at) / 2
        renew_at = credentials.expires_at - max(half_of_life, self._min_seconds_left)
        with self._lock:
            del self._pending[key]
            self._cached.pop(key, None)  # keeps the dict ordered by age
            self._cached[key] = credentials, renew_at
            if len(self._cached) > self._max_entries:
                del self._cached[next(iter(self._cached))]
        promise.set_result(credentials)
        return credentials


class StorageRoles:
    """Credentials with all permissions of a storage role. They never leave the server."""

    def __init__(self, sts: Callable[[], "STSClient"], *, now: Callable[[], float] = time.time) -> None:
        self._sts = sts
        self._cache: CredentialsCache[StorageRole] = CredentialsCache(
            self._assume, max_entries=MAX_CACHED_ROLES, min_seconds_left=MIN_URL_SECONDS + MARGIN_SECONDS, now=now
        )

    def credentials(self, role: StorageRole) -> Credentials:
        return self._cache.get(role)

    def _assume(self, role: StorageRole) -> Credentials:
        return assume_role(self._sts(), role, session_name=SESSION_NAME)


def sts_client(settings: Settings, botocore_session: "Session") -> "STSClient":
    """An STS client with the credentials that this process runs with."""
    return cast("STSClient", botocore_session.create_client("sts", region_name=settings.region, config=CLIENT_CONFIG))


def assume_role(sts: "STSClient", role: StorageRole, *, session_name: str, policy: str | None = None) -> Credentials:
    request: AssumeRoleRequestTypeDef = {
        "RoleArn": role.arn,
        "RoleSessionName": session_name,
        "DurationSeconds": SESSION_SECONDS,
    }
    if role.external_id is not None:
        request["ExternalId"] = role.external_id
    if policy is not None:
        request["Policy"] = policy
    try:
        answer = sts.assume_role(**request)["Credentials"]
    except ParamValidationError as error:
        raise TableFilesError("permission denied") from error
    except ClientError as error:
        if error.response["Error"]["Code"] in REFUSALS:
            raise TableFilesError("permission denied") from error
        raise
    return Credentials(
        access_key_id=answer["AccessKeyId"],
        secret_access_key=answer["SecretAccessKey"],
        session_token=answer["SessionToken"],
        expires_at=answer["Expiration"].timestamp(),
    )
