"""The store, the clock and the retries that both parts of the administration share.

One revision guards a share with its schemas and tables, and one guards a recipient with its grants and tokens. A
change reads the entry and writes it in one transaction, which fails if the revision has changed. It is then retried.
"""

import contextlib
import random
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from core.api.tokens import SigningKey
from core.catalog import items
from core.catalog.admin.checks import DAY_SECONDS, MAX_TOKEN_SECONDS
from core.catalog.errors import ConflictError
from core.catalog.store import CatalogStore, RetryableWriteError
from core.settings import DEFAULT_MAX_TOKEN_DAYS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

Outcome = Literal["created", "updated", "unchanged"]

ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Written(Generic[T]):
    """An entry as written. If it already existed with the same content, the outcome is `unchanged`."""

    value: T
    outcome: Outcome


class Administration:
    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        *,
        max_token_seconds: int = DEFAULT_MAX_TOKEN_DAYS * DAY_SECONDS,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`max_token_seconds` is the longest lifetime of new tokens, at most 10 years."""
        self._client = client
        self._table_name = table_name
        self._store = CatalogStore(client, table_name, sleep=sleep)
        self._now = now
        self._sleep = sleep
        self.max_token_seconds = min(max_token_seconds, MAX_TOKEN_SECONDS)

    def _retry(self, change: Callable[[], T]) -> T:
        for attempt in range(ATTEMPTS):
            try:
                return change()
            except RetryableWriteError:
                self._sleep(random.uniform(0, min(0.5, 0.02 * 2**attempt)))  # noqa: S311
        raise ConflictError("the entry is being changed concurrently: try again in a moment")

    def _ensure_signing_keys(self) -> None:
        if not self._store.get([items.SIGNING_KEYS]):
            keys = (self._new_signing_key(),)
            with contextlib.suppress(RetryableWriteError):
                self._store.write([self._store.create(items.signing_keys_item(keys, revision=0))])

    def _new_signing_key(self) -> SigningKey:
        return SigningKey(secrets.token_bytes(32), int(self._now()))


def new_id() -> str:
    return str(uuid.uuid4())
