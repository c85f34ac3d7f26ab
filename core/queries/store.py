"""Reads and changes asynchronous queries in DynamoDB. Every change is conditional, so that concurrent ones agree."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from core.errors import AnswerTooLargeError
from core.queries.query import (
    DONE,
    FAILED,
    LEASE_SECONDS,
    MAX_ATTEMPTS,
    PENDING,
    AsyncQuery,
    attribute,
    item_key,
    item_of,
    query_of,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CONDITION_FAILED = "ConditionalCheckFailedException"
# A DynamoDB item has at most 400 KB. Nearly all of a large one are its predicate hints.
MAX_REQUEST_CHARACTERS = 300_000


class QueryStore:
    def __init__(self, client: "DynamoDBClient", table_name: str, *, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._table_name = table_name
        self.now = now

    def add(self, query: AsyncQuery) -> AsyncQuery:
        """Stores a submitted query. Returns the stored one if the same query was submitted before."""
        item = item_of(query)
        if len(item["request"]["S"].encode()) > MAX_REQUEST_CHARACTERS:
            raise AnswerTooLargeError("The predicate hints are too long for an asynchronous query.")
        try:
            self._client.put_item(
                TableName=self._table_name,
                Item=item,
                ConditionExpression="attribute_not_exists(pk) OR expires_at <= :now",
                ExpressionAttributeValues={":now": {"N": str(int(self.now()))}},
            )
        except ClientError as error:
            if not _condition_failed(error):
                raise
            return self.find(query.key) or query
        return query

    def find(self, key: str) -> AsyncQuery | None:
        """Returns None for a query that does not exist or has expired. DynamoDB deletes expired items days later."""
        found: Any = self._client.get_item(TableName=self._table_name, Key=item_key(key), ConsistentRead=True).get(
            "Item"
        )
        query = query_of(found) if found else None
        return query if query and query.expires_at > self.now() else None

    def sent_again(self, query: AsyncQuery) -> bool:
        """Records that the worker is asked again. Returns False if another request has done so."""
        condition = "#status = :pending AND sent_at = :seen"
        return self._update(query.key, condition, {":seen": query.sent_at}, sent_at=int(self.now()))

    def lease(self, query: AsyncQuery) -> AsyncQuery | None:
        """Takes the query for a worker. Returns None if another worker has it, or if it needs none."""
        now = int(self.now())
        if query.attempts >= MAX_ATTEMPTS or query.leased_until > now:
            return None
        condition = "#status = :pending AND attempts = :seen AND leased_until <= :now AND expires_at > :now"
        taken = replace(query, attempts=query.attempts + 1, leased_until=now + LEASE_SECONDS)
        changes = {"attempts": taken.attempts, "leased_until": taken.leased_until}
        is_taken = self._update(query.key, condition, {":seen": query.attempts, ":now": now}, **changes)
        return taken if is_taken else None

    def renew(self, query: AsyncQuery) -> bool:
        """Extends the lease of a worker. Returns False if the worker has lost it."""
        return self._as_holder(query, leased_until=int(self.now()) + LEASE_SECONDS)

    def release(self, query: AsyncQuery) -> bool:
        """Ends the lease, so that another worker can try."""
        return self._as_holder(query, leased_until=0, sent_at=0)

    def wait_for_job(self, query: AsyncQuery) -> bool:
        return self._as_holder(query, job_at=int(self.now()), leased_until=0)

    def fail(self, query: AsyncQuery, message: str) -> bool:
        return self._as_holder(query, status=FAILED, message=message)

    def finish(self, query: AsyncQuery, checkpoint_id: str, version: int, tip: str) -> bool:
        """Pins the query to a version and an index. Returns False if the query is no longer pending."""
        return self._update(
            query.key, "#status = :pending", {}, status=DONE, checkpoint_id=checkpoint_id, version=version, tip=tip
        )

    def _as_holder(self, query: AsyncQuery, **changes: str | int) -> bool:
        """Changes a query only if no other worker has taken it since."""
        return self._update(query.key, "#status = :pending AND attempts = :seen", {":seen": query.attempts}, **changes)

    def _update(self, key: str, condition: str, values: dict[str, int], **changes: str | int) -> bool:
        assignments = ", ".join(f"#{name} = :new_{name}" for name in changes)
        try:
            self._client.update_item(
                TableName=self._table_name,
                Key=item_key(key),
                UpdateExpression=f"SET {assignments}",
                ConditionExpression=condition,
                ExpressionAttributeNames={f"#{name}": name for name in {*changes, "status"}},
                ExpressionAttributeValues={
                    ":pending": {"S": PENDING},
                    **{name: attribute(value) for name, value in values.items()},
                    **{f":new_{name}": attribute(value) for name, value in changes.items()},
                },
            )
        except ClientError as error:
            if not _condition_failed(error):
                raise
            return False
        return True


def _condition_failed(error: ClientError) -> bool:
    return bool(error.response["Error"]["Code"] == CONDITION_FAILED)
