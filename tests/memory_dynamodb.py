"""An in-memory DynamoDB client with the operations that an index uses, the service's limits, and faults on demand."""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from botocore.exceptions import ClientError

ITEM_BYTES = 400 * 1024
PAGE_BYTES = 1024 * 1024
BATCH_BYTES = 16 * 1024 * 1024


class MemoryDynamoDB:
    def __init__(self) -> None:
        self.items: dict[tuple[str, str], dict[str, Any]] = {}
        self.requests: list[str] = []
        self.before: Callable[[str], object] = lambda _: None
        """Called with the name of each operation before it runs. An exception makes the operation fail."""
        self.unprocessed: Callable[[str], bool] = lambda _: False
        """Whether the named batch operation leaves half of its items unprocessed."""

    def get_item(self, *, TableName: str, Key: Any, ConsistentRead: bool = False) -> dict[str, Any]:  # noqa: N803
        self._called("GetItem")
        item = self.items.get(_key(Key))
        return {"Item": item} if item else {}

    def query(
        self,
        *,
        TableName: str,  # noqa: N803
        KeyConditionExpression: str,  # noqa: N803
        ExpressionAttributeValues: Any,  # noqa: N803
        ExclusiveStartKey: Any = None,  # noqa: N803
        **_: Any,
    ) -> dict[str, Any]:
        assert KeyConditionExpression == "pk = :pk"
        self._called("Query")
        pk = ExpressionAttributeValues[":pk"]["S"]
        after = _key(ExclusiveStartKey)[1] if ExclusiveStartKey else ""
        page: list[dict[str, Any]] = []
        size = 0
        present = list(self.items)  # a copy: another thread may write
        for key in sorted(key for key in present if key[0] == pk and key[1] > after):
            page.append(self.items[key])
            size += _size(self.items[key])
            if size >= PAGE_BYTES:
                return {"Items": page, "LastEvaluatedKey": {name: page[-1][name] for name in ("pk", "sk")}}
        return {"Items": page}

    def batch_get_item(self, *, RequestItems: Any) -> dict[str, Any]:  # noqa: N803
        self._called("BatchGetItem")
        ((table, wanted),) = RequestItems.items()
        keys = wanted["Keys"]
        assert 0 < len(keys) <= 100
        assert len({_key(key) for key in keys}) == len(keys)
        answered = keys[: len(keys) // 2] if self.unprocessed("BatchGetItem") else keys
        sizes = accumulate(_size(self.items.get(_key(key), {})) for key in answered)
        answered = [key for key, size in zip(answered, sizes, strict=True) if size <= BATCH_BYTES]
        found = [self.items[_key(key)] for key in answered if _key(key) in self.items]
        left = keys[len(answered) :]
        return {"Responses": {table: found}, "UnprocessedKeys": {table: {"Keys": left}} if left else {}}

    def batch_write_item(self, *, RequestItems: Any) -> dict[str, Any]:  # noqa: N803
        self._called("BatchWriteItem")
        ((table, requests),) = RequestItems.items()
        assert 0 < len(requests) <= 25
        assert (
            sum(_size(request["PutRequest"]["Item"]) for request in requests if "PutRequest" in request) <= BATCH_BYTES
        )
        done = requests[: len(requests) // 2] if self.unprocessed("BatchWriteItem") else requests
        for request in done:
            if "PutRequest" in request:
                item = request["PutRequest"]["Item"]
                assert _size(item) <= ITEM_BYTES
                self.items[_key(item)] = item
            else:
                self.items.pop(_key(request["DeleteRequest"]["Key"]), None)
        left = requests[len(done) :]
        return {"UnprocessedItems": {table: left} if left else {}}

    def put_item(
        self,
        *,
        TableName: str,  # noqa: N803
        Item: Any,  # noqa: N803
        ConditionExpression: str,  # noqa: N803
        ExpressionAttributeNames: Any = None,  # noqa: N803
        ExpressionAttributeValues: Any = None,  # noqa: N803
    ) -> dict[str, Any]:
        self._called("PutItem")
        present = self.items.get(_key(Item))
        if ConditionExpression == "attribute_not_exists(pk)":
            allowed = present is None
        else:
            assert ConditionExpression == "#build = :expected"
            allowed = present is not None and present["build"] == ExpressionAttributeValues[":expected"]
        if not allowed:
            raise error("ConditionalCheckFailedException", 400)
        self.items[_key(Item)] = Item
        return {}

    def get_paginator(self, operation: str) -> "MemoryDynamoDB":
        assert operation == "query"
        return self

    def paginate(self, **request: Any) -> Iterator[dict[str, Any]]:
        while True:
            page = self.query(**request)
            yield page
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _called(self, operation: str) -> None:
        self.requests.append(operation)
        self.before(operation)


def error(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Any")


def _key(item: Any) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def _size(item: Any) -> int:
    return sum(len(name) + len(next(iter(value.values()))) for name, value in item.items())
