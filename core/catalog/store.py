"""The DynamoDB calls of the catalog. Every read is consistent and every write is a transaction.

Entries that may change concurrently have a `revision`. A write succeeds only if the revision is still the one read.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from core.catalog.errors import LimitError
from core.catalog.items import Item, Key, decode, encode

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef as Action

# Limits of DynamoDB.
KEYS_PER_GET = 100
ACTIONS_PER_WRITE = 100
ITEM_BYTES = 400_000
WRITE_BYTES = 4_000_000

BACK_OFF_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)

_RETRYABLE_CODES = {
    "None",
    "ConditionalCheckFailed",
    "TransactionConflict",
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
}


class RetryableWriteError(Exception):
    """A concurrent change won, or DynamoDB throttled the write. Read the entry again and retry."""


class CatalogThrottledError(Exception):
    """DynamoDB still left keys unprocessed after all retries."""


class CatalogStore:
    def __init__(
        self, client: "DynamoDBClient", table_name: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client = client
        self._table_name = table_name
        self._sleep = sleep

    def get(self, keys: Sequence[Key]) -> dict[Key, Item]:
        """Returns the items that exist, with one call per 100 keys."""
        found: dict[Key, Item] = {}
        for start in range(0, len(keys), KEYS_PER_GET):
            for attributes in self._batch_get(keys[start : start + KEYS_PER_GET]):
                item = decode(attributes)
                found[Key(item["pk"], item["sk"])] = item
        return found

    def _batch_get(self, keys: Sequence[Key]) -> Iterator[dict[str, Any]]:
        request: Any = {self._table_name: {"Keys": [encode(key._asdict()) for key in keys], "ConsistentRead": True}}
        for seconds in (*BACK_OFF_SECONDS, None):
            answer = self._client.batch_get_item(RequestItems=request)
            yield from answer["Responses"].get(self._table_name, ())
            request = answer.get("UnprocessedKeys")
            if not request:
                return
            if seconds is not None:
                self._sleep(seconds)
        raise CatalogThrottledError("DynamoDB did not return all keys of a BatchGetItem")

    def query(self, pk: str, prefix: str = "", *, after: str = "", limit: int | None = None) -> list[Item]:
        """Returns items in key order: all of a partition, or those with a prefix and a key above `prefix + after`."""
        condition, values = "pk = :pk", {":pk": pk}
        if prefix:
            # A key condition cannot combine begins_with and greater than. Use the range from the first key after
            # `prefix + after` to the end of the prefix.
            condition += " AND sk BETWEEN :first AND :last"
            values[":first"] = f"{prefix}{after}\0" if after else prefix
            values[":last"] = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        request: Any = {
            "TableName": self._table_name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": encode(values),
            "ConsistentRead": True,
        }
        items: list[Item] = []
        while limit is None or len(items) < limit:
            if limit is not None:
                request["Limit"] = limit - len(items)
            answer = self._client.query(**request)
            items.extend(decode(attributes) for attributes in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        return items

    def create(self, item: Item) -> "Action":
        return self._put(item, {"ConditionExpression": "attribute_not_exists(pk)"})

    def replace(self, item: Item, revision: int) -> "Action":
        return self._put(item, _if_revision(revision))

    def replace_if(self, item: Item, name: str, value: str) -> "Action":
        """Succeeds only if the attribute `name` of the stored item has this value."""
        return self._put(item, _if_equal(name, value))

    def put(self, item: Item) -> "Action":
        return self._put(item, {})

    def _put(self, item: Item, condition: dict[str, Any]) -> "Action":
        put: Any = {"TableName": self._table_name, "Item": encode(item), **condition}
        return {"Put": put}

    def raise_revision(self, key: Key, revision: int) -> "Action":
        update: Any = {
            "TableName": self._table_name,
            "Key": encode(key._asdict()),
            "UpdateExpression": "SET revision = :next",
            "ConditionExpression": "revision = :revision",
            "ExpressionAttributeValues": encode({":revision": revision, ":next": revision + 1}),
        }
        return {"Update": update}

    def delete(self, key: Key, revision: int | None = None) -> "Action":
        condition = {} if revision is None else _if_revision(revision)
        delete: Any = {"TableName": self._table_name, "Key": encode(key._asdict()), **condition}
        return {"Delete": delete}

    def delete_if(self, key: Key, name: str, value: str) -> "Action":
        """Succeeds only if the attribute `name` of the stored item has this value."""
        delete: Any = {"TableName": self._table_name, "Key": encode(key._asdict()), **_if_equal(name, value)}
        return {"Delete": delete}

    def write(self, actions: Sequence["Action"]) -> None:
        """Performs all actions (at most 100) or none."""
        sizes = [_size(action["Put"]["Item"]) for action in actions if "Put" in action]
        if max(sizes, default=0) > ITEM_BYTES or sum(sizes) > WRITE_BYTES:
            raise LimitError("the entry is too large for the catalog: remove grants or tokens, or shorten texts")
        try:
            self._client.transact_write_items(TransactItems=actions)
        except ClientError as error:
            reasons: Any = error.response.get("CancellationReasons", ())
            codes = {reason.get("Code", "None") for reason in reasons}
            if codes and codes <= _RETRYABLE_CODES:
                raise RetryableWriteError from error
            raise


def _if_revision(revision: int) -> dict[str, Any]:
    return {
        "ConditionExpression": "revision = :revision",
        "ExpressionAttributeValues": encode({":revision": revision}),
    }


def _if_equal(name: str, value: str) -> dict[str, Any]:
    return {
        "ConditionExpression": "#name = :value",
        "ExpressionAttributeNames": {"#name": name},
        "ExpressionAttributeValues": encode({":value": value}),
    }


def _size(attributes: Any) -> int:
    """Returns an upper bound of the size that DynamoDB calculates for an item."""
    return len(json.dumps(attributes, ensure_ascii=False, default=str).encode())
