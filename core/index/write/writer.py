"""Writes an index to DynamoDB: the chunks, buckets and root of a build, and then the head that makes it live.

Failed and unprocessed writes are retried with exponential backoff. An optional limit on write units per second keeps a
build from using the capacity that readers need.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, HTTPClientError

from core.index.layout.head import Head, head_of, item_of
from core.index.layout.items import (
    CONTENT,
    CONTENT_BYTES,
    MARKER,
    ItemKey,
    attributes,
    head_key,
    marker_key,
    root_key,
    root_pk,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Limits of BatchWriteItem: 25 items and 16 MB of JSON. Base64 adds a third to binary content.
ITEMS_PER_WRITE = 25
BYTES_PER_WRITE = 8 * 1024 * 1024
UNIT_BYTES = 1024
ATTEMPTS = 12
MAX_WAIT_SECONDS = 20.0
THROTTLED = frozenset(
    {"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "InternalServerError"}
)
KEEP_UNTIL = "keep_until"
CONDITION_FAILED = "ConditionalCheckFailedException"
SERVER_ERROR = 500


class WriteFailedError(Exception):
    """A request to DynamoDB failed in all attempts."""


class IndexWriter:
    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        *,
        units_per_second: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self.table_name = table_name
        self.units_per_second = units_per_second
        self._sleep = sleep
        self._now = now
        self._free_at = now()
        self._lock = threading.Lock()
        self.units = 0
        """Write units used so far. A unit is 1 KB or less."""

    def put(self, items: Iterable[tuple[ItemKey, bytes]]) -> None:
        for batch in _batches(items):
            requests = [
                {"PutRequest": {"Item": {**attributes(key), CONTENT: {"B": content}}}} for key, content in batch
            ]
            self._write(requests, [_units(content) for _, content in batch])

    def put_root(self, table: str, build: str, content: bytes) -> None:
        parts = (content[begin : begin + CONTENT_BYTES] for begin in range(0, len(content), CONTENT_BYTES))
        self.put((root_key(table, build, number), part) for number, part in enumerate(parts))

    def mark(self, table: str, build: str, keep_until: float) -> None:
        """Writes or replaces the marker of a build, so that its items are found and deleted after `keep_until`."""
        item = {**attributes(marker_key(table, build)), KEEP_UNTIL: {"N": str(keep_until)}}
        self._write([{"PutRequest": {"Item": item}}], [1])

    def head(self, table: str) -> Head | None:
        """The current head, by a consistent read."""
        found = self._item(head_key(table))
        return head_of(found) if found else None

    def root(self, table: str, build: str) -> bytes:
        """The packed root of a build; empty if it has none."""
        return b"".join(item[CONTENT]["B"] for item in self._items(root_pk(table, build)))

    def move_head(self, table: str, head: Head, expected: str | None) -> Head | None:
        """Makes a build live if `expected` is still the live one. Otherwise returns the head of the build that is."""
        item = item_of(table, head)
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(pk)"}
        if expected is not None:
            condition = {
                "ConditionExpression": "#build = :expected",
                "ExpressionAttributeNames": {"#build": "build"},
                "ExpressionAttributeValues": {":expected": {"S": expected}},
            }
        try:
            self._retry(partial(self._client.put_item, TableName=self.table_name, Item=item, **condition))
        except ClientError as error:
            winner = self.head(table)
            if error.response["Error"]["Code"] != CONDITION_FAILED or winner is None:
                raise
            # The winner is this build if an earlier attempt succeeded and its response was lost.
            return None if winner.build == head.build else winner
        return None

    def keys(self, pk: str) -> Iterator[ItemKey]:
        """The keys of all items with this partition key."""
        for item in self._items(pk, ProjectionExpression="pk, sk"):
            yield ItemKey(item["pk"]["S"], item["sk"]["S"])

    def builds(self, table: str) -> Iterator[tuple[str, float]]:
        """The builds that have a marker, each with the time until which it is kept."""
        for item in self._items(table, ProjectionExpression=f"sk, {KEEP_UNTIL}"):
            if item["sk"]["S"].startswith(MARKER):
                yield item["sk"]["S"].removeprefix(MARKER), float(item.get(KEEP_UNTIL, {"N": "0"})["N"])

    def _item(self, key: ItemKey) -> Any:
        request: Any = {"TableName": self.table_name, "Key": attributes(key), "ConsistentRead": True}
        return self._retry(partial(self._client.get_item, **request)).get("Item")

    def _items(self, pk: str, **options: str) -> Iterator[Any]:
        request: Any = {
            "TableName": self.table_name,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": pk}},
            **options,
        }
        while True:
            page = self._retry(partial(self._client.query, **request))
            yield from page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def delete(self, keys: Iterable[ItemKey]) -> None:
        waiting = list(keys)
        for begin in range(0, len(waiting), ITEMS_PER_WRITE):
            requests = [{"DeleteRequest": {"Key": attributes(key)}} for key in waiting[begin : begin + ITEMS_PER_WRITE]]
            self._write(requests, [1] * len(requests))

    def _write(self, requests: list[Any], units: list[int]) -> None:
        self._wait_for_capacity(sum(units))
        for seconds in self._waits():
            answer = self._retry(partial(self._client.batch_write_item, RequestItems={self.table_name: requests}))
            requests = list(answer.get("UnprocessedItems", {}).get(self.table_name, ()))
            if not requests:
                return
            self._sleep(seconds)
        raise WriteFailedError("DynamoDB throttles the index writes. Set a lower --write-rate, or try again later.")

    def _retry(self, call: Callable[[], Any]) -> Any:
        for seconds in self._waits():
            try:
                return call()
            except ClientError as error:
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
                if error.response["Error"]["Code"] not in THROTTLED and status < SERVER_ERROR:
                    raise
            except (HTTPClientError, ConnectionError):  # a broken connection
                pass
            self._sleep(seconds)
        raise WriteFailedError("DynamoDB is throttled or unreachable. Check the connection, and try again later.")

    def _waits(self) -> Iterator[float]:
        for attempt in range(ATTEMPTS):
            yield random.uniform(0.5, 1) * min(0.1 * 2**attempt, MAX_WAIT_SECONDS)  # noqa: S311

    def _wait_for_capacity(self, units: int) -> None:
        with self._lock:
            self.units += units
            if self.units_per_second is None:
                return
            now = self._now()
            begin = max(self._free_at, now)
            self._free_at = begin + units / self.units_per_second
        if begin > now:
            self._sleep(begin - now)


def _batches(items: Iterable[tuple[ItemKey, bytes]]) -> Iterator[list[tuple[ItemKey, bytes]]]:
    batch: list[tuple[ItemKey, bytes]] = []
    size = 0
    for key, content in items:
        if batch and (len(batch) == ITEMS_PER_WRITE or size + len(content) > BYTES_PER_WRITE):
            yield batch
            batch, size = [], 0
        batch.append((key, content))
        size += len(content)
    if batch:
        yield batch


def _units(content: bytes) -> int:
    return -(-len(content) // UNIT_BYTES)
