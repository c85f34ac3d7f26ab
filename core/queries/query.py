"""An asynchronous query, as DynamoDB stores it between the requests of its client.

    pk            sk      item
    QUERY#<key>   #QUERY  the query, until `expires_at`

The key is a hash of the recipient, the table, the parameters and the client's idempotency key, so that a submission
that is sent again finds the same item. The id that the client gets has a random secret after the key: nobody else can
know it, and it is compared in constant time.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

import orjson

from core.api.requests.query import QueryRequest
from core.api.table_tokens import CHAIN_SECONDS, checksum
from core.catalog.model import Table

PENDING, DONE, FAILED = "pending", "done", "failed"
PK_PREFIX = "QUERY#"
SK = "#QUERY"
KEY_CHARACTERS = SECRET_CHARACTERS = 32
# A worker renews its lease three times as often.
LEASE_SECONDS = 60
MAX_ATTEMPTS = 3
# A poll asks for a worker again if none has taken the query for this long.
RESEND_SECONDS = 60
# The longest run of the index job (infra/index.yaml, TimeoutMinutes), and the time until it starts.
JOB_SECONDS = 5 * 3600

# The parameters of a request that a poll does not repeat.
PARAMETERS = (
    "predicate_hints",
    "json_predicate_hints",
    "limit_hint",
    "version",
    "timestamp",
    "include_refresh_token",
)


@dataclass(frozen=True, slots=True)
class Source:
    """What the worker needs to know about the table."""

    name: str
    """share.schema.table"""
    location: str
    role_arn: str | None = None
    external_id: str | None = None
    region: str | None = None

    @classmethod
    def of(cls, table: Table) -> "Source":
        return cls(table.full_name, table.location, table.role_arn, table.external_id, table.region)


@dataclass(frozen=True, slots=True)
class AsyncQuery:
    purpose: ClassVar[str] = "async-query-1"

    key: str
    secret: str = field(repr=False)
    recipient_id: str
    table_id: str
    """The id of the share and that of the table."""
    source: Source
    request: QueryRequest
    version: int
    """The version to answer. If it is not pinned, it may rise until the query is done."""
    tip: str
    chain_start: int
    """When the first answer of the chain of pages and refreshes was given, in seconds since 1970."""
    pinned: int
    """1 if exactly this version was requested, 0 if the latest one was."""
    expires_at: int
    sent_at: int
    """When the worker was last asked to prepare the query."""
    status: str = PENDING
    checkpoint_id: str | None = None
    """The index to answer from, once the query is done."""
    message: str | None = None
    """Why the query failed."""
    attempts: int = 0
    leased_until: int = 0
    job_at: int | None = None
    """When the index job was asked for the index, which then has to appear."""

    @classmethod
    def submitted(
        cls,
        recipient_id: str,
        table_id: str,
        table: Table,
        request: QueryRequest,
        version: int,
        tip: str,
        *,
        now: float,
        chain_start: int | None = None,
    ) -> "AsyncQuery":
        """`chain_start` is that of the refresh token, if the request has one."""
        started = int(now) if chain_start is None else chain_start
        # A refresh names its version itself. Without one, a repeated submission may find a newer version.
        refreshed = None if chain_start is None else (version, tip)
        identity = (recipient_id, table_id, request.idempotency_key, request.checksum, request.include_refresh_token)
        return cls(
            key=checksum(*identity, refreshed),
            secret=secrets.token_hex(SECRET_CHARACTERS // 2),
            recipient_id=recipient_id,
            table_id=table_id,
            source=Source.of(table),
            request=QueryRequest(**{name: getattr(request, name) for name in PARAMETERS}),
            version=version,
            tip=tip,
            chain_start=started,
            pinned=int(request.reads_history or chain_start is not None),
            expires_at=started + CHAIN_SECONDS,
            sent_at=int(now),
        )

    @property
    def id(self) -> str:
        return self.key + self.secret

    @property
    def checksum(self) -> str:
        """Binds the page tokens to this query. The key depends on all its parameters."""
        return self.key

    def belongs_to(self, query_id: str, recipient_id: str, table_id: str) -> bool:
        is_id = hmac.compare_digest(self.id.encode(), query_id.encode(errors="surrogatepass"))
        return is_id and (self.recipient_id, self.table_id) == (recipient_id, table_id)

    def failure(self, now: float) -> str | None:
        """Returns why the query failed, or None. A worker that was killed cannot record that itself."""
        if self.status == FAILED:
            return self.message or "The query failed."
        if self.status != PENDING:
            return None
        if self.job_at is not None:
            return JOB_FAILED if self.job_at + JOB_SECONDS <= now else None
        return KILLED if self.attempts >= MAX_ATTEMPTS and self.leased_until <= now else None

    def is_unattended(self, now: float) -> bool:
        """Whether no worker has the query, and none will come: one was killed, or the message was lost."""
        return (
            self.status == PENDING
            and self.job_at is None
            and self.attempts < MAX_ATTEMPTS
            and self.leased_until <= now
            and self.sent_at + RESEND_SECONDS <= now
        )


KILLED = (
    f"The server could not prepare the query in {MAX_ATTEMPTS} attempts. Please run the query again later. If that "
    "does not help, ask your share provider to index the table with `sluice index`."
)
JOB_FAILED = (
    "The index of the table was not built in time. Please ask your share provider to look at the index job and run the "
    "query again later."
)


def key_of(query_id: str) -> str | None:
    """Returns the key of an id, or None if it cannot be one."""
    return query_id[:KEY_CHARACTERS] if len(query_id) == KEY_CHARACTERS + SECRET_CHARACTERS else None


def item_key(key: str) -> dict[str, Any]:
    return {"pk": {"S": f"{PK_PREFIX}{key}"}, "sk": {"S": SK}}


def item_of(query: AsyncQuery) -> dict[str, Any]:
    document = asdict(query)
    document.pop("key")
    document |= {
        "source": orjson.dumps(query.source).decode(),
        "request": orjson.dumps({name: getattr(query.request, name) for name in PARAMETERS}).decode(),
    }
    return item_key(query.key) | {name: attribute(value) for name, value in document.items() if value is not None}


def attribute(value: str | int) -> dict[str, str]:
    return {"S": value} if isinstance(value, str) else {"N": str(value)}


def query_of(item: Mapping[str, Any]) -> AsyncQuery:
    stored = {each.name: item[each.name] for each in fields(AsyncQuery) if each.name in item}
    values: dict[str, Any] = {name: value["S"] if "S" in value else int(value["N"]) for name, value in stored.items()}
    parameters = orjson.loads(values.pop("request"))
    return AsyncQuery(
        key=item["pk"]["S"].removeprefix(PK_PREFIX),
        source=Source(**orjson.loads(values.pop("source"))),
        request=QueryRequest(**{**parameters, "predicate_hints": tuple(parameters["predicate_hints"])}),
        **values,
    )
