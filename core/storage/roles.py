"""The storage roles that read tables and sign their URLs.

A role is always assumed, because only then is the end of its credentials known: those that a function runs
with hide theirs. They are kept until half of their life; requests that need one role at once share one call.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError, ParamValidationError

from core.errors import TableFilesError
from core.settings import MIN_URL_SECONDS

if TYPE_CHECKING:
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


class StorageRoles:
    """Credentials of storage roles, for all threads of a process."""

    def __init__(self, sts: Callable[[], "STSClient"], *, now: Callable[[], float] = time.time) -> None:
        self._sts = sts
        self._now = now
        self._lock = threading.Lock()
        self._cached: dict[StorageRole, tuple[Credentials, float]] = {}
        self._pending: dict[StorageRole, Future[Credentials]] = {}

    def credentials(self, role: StorageRole) -> Credentials:
        with self._lock:
            cached, renew_at = self._cached.get(role, (None, 0.0))
            if cached and self._now() < renew_at:
                return cached
            another_asks = role in self._pending
            promise = self._pending.setdefault(role, Future())
        return promise.result() if another_asks else self._renew(role, promise)

    def _renew(self, role: StorageRole, promise: "Future[Credentials]") -> Credentials:
        started_at = self._now()
        try:
            credentials = self._assume(role)
        except BaseException as error:
            with self._lock:
                del self._pending[role]
            promise.set_exception(error)
            raise
        half_of_life = (credentials.expires_at - started_at) / 2
        renew_at = credentials.expires_at - max(half_of_life, MIN_URL_SECONDS + MARGIN_SECONDS)
        with self._lock:
            del self._pending[role]
            self._cached.pop(role, None)  # so that the dict stays in the order of age
            self._cached[role] = credentials, renew_at
            if len(self._cached) > MAX_CACHED_ROLES:
                del self._cached[next(iter(self._cached))]
        promise.set_result(credentials)
        return credentials

    def _assume(self, role: StorageRole) -> Credentials:
        request: AssumeRoleRequestTypeDef = {
            "RoleArn": role.arn,
            "RoleSessionName": SESSION_NAME,
            "DurationSeconds": SESSION_SECONDS,
        }
        if role.external_id is not None:
            request["ExternalId"] = role.external_id
        try:
            answer = self._sts().assume_role(**request)["Credentials"]
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
