"""The storage roles that read tables, sign their URLs, and lend their rights to recipients.

A role is always assumed, because only then is the end of its credentials known: those that a function runs
with hide theirs. They are kept until half of their life; requests that need the same at once share one call.
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
# A function runs as a role itself, and AWS caps a session that one role starts from another at one hour.
SESSION_SECONDS = 3600
# What a request may take between getting its credentials and signing its first URL.
MARGIN_SECONDS = 60
MAX_CACHED_ROLES = 256
# STS answers AccessDenied for an unknown role too; ValidationError means that the ARN is none.
REFUSALS = frozenset({"AccessDenied", "ValidationError"})
PATIENCE = Config(connect_timeout=2, read_timeout=10, retries={"mode": "standard"})

Wanted = TypeVar("Wanted", bound=Hashable)


class NoStorageRoleError(RuntimeError):
    """Neither the table nor the server names a role. For the provider's log: recipients see a 500."""


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
        """A table's own, else the server's. An external id belongs to its role: no table's sees the server's."""
        if arn:
            return cls(arn, external_id)
        if settings.storage_role_arn:
            return cls(settings.storage_role_arn, settings.storage_external_id)
        raise NoStorageRoleError("no storage role: set SLUICE_STORAGE_ROLE_ARN, or a role for the table")

    @property
    def partition(self) -> str:
        """`aws`, `aws-cn`, `aws-us-gov` …: where the role is, its buckets are."""
        return self.arn.partition(":")[2].partition(":")[0]


class CredentialsCache(Generic[Wanted]):
    """Credentials by all that they depend on, for all threads of a process."""

    def __init__(
        self,
        obtain: Callable[[Wanted], Credentials],
        *,
        max_entries: int,
        least_seconds: float = 0.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`least_seconds`: the life that kept credentials must have left, should that be more than half of it."""
        self._obtain = obtain
        self._max_entries = max_entries
        self._least_seconds = least_seconds
        self._now = now
        self._lock = threading.Lock()
        self._cached: dict[Wanted, tuple[Credentials, float]] = {}
        self._pending: dict[Wanted, Future[Credentials]] = {}

    def get(self, wanted: Wanted) -> Credentials:
        with self._lock:
            cached, renew_at = self._cached.get(wanted, (None, 0.0))
            if cached and self._now() < renew_at:
                return cached
            another_asks = wanted in self._pending
            promise = self._pending.setdefault(wanted, Future())
        return promise.result() if another_asks else self._renew(wanted, promise)

    def _renew(self, wanted: Wanted, promise: "Future[Credentials]") -> Credentials:
        started_at = self._now()
        try:
            credentials = self._obtain(wanted)
        except BaseException as error:
            with self._lock:
                del self._pending[wanted]
            promise.set_exception(error)
            raise
        half_of_life = (credentials.expires_at - started_at) / 2
        renew_at = credentials.expires_at - max(half_of_life, self._least_seconds)
        with self._lock:
            del self._pending[wanted]
            self._cached.pop(wanted, None)  # so that the dict stays in the order of age
            self._cached[wanted] = credentials, renew_at
            if len(self._cached) > self._max_entries:
                del self._cached[next(iter(self._cached))]
        promise.set_result(credentials)
        return credentials


class StorageRoles:
    """Credentials of storage roles, with all that these may do. They never leave the server."""

    def __init__(self, sts: Callable[[], "STSClient"], *, now: Callable[[], float] = time.time) -> None:
        self._sts = sts
        self._cache: CredentialsCache[StorageRole] = CredentialsCache(
            self._assume, max_entries=MAX_CACHED_ROLES, least_seconds=MIN_URL_SECONDS + MARGIN_SECONDS, now=now
        )

    def credentials(self, role: StorageRole) -> Credentials:
        return self._cache.get(role)

    def _assume(self, role: StorageRole) -> Credentials:
        return assume_role(self._sts(), role, session_name=SESSION_NAME)


def sts_client(settings: Settings, botocore_session: "Session") -> "STSClient":
    """Of whoever this process runs as."""
    return cast("STSClient", botocore_session.create_client("sts", region_name=settings.region, config=PATIENCE))


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
