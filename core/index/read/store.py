"""Reads the items of an index from DynamoDB.

Reads are eventually consistent, which costs half as much. This is safe: the items of a build never change, and a stale
head names an older index that is still complete.
"""

import contextlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from core.delta.index import UnusableIndexError
from core.index.layout.head import Head, head_of
from core.index.layout.items import CONTENT, ItemKey, Place, attributes, bucket_key, chunk_key, head_key, root_pk

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BACK_OFF_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
# BatchGetItem returns at most 100 items and 16 MB. Smaller requests limit memory: the answer, its JSON and its content
# take five times as much until the content is decoded.
KEYS_PER_GET = 100
BYTES_PER_GET = 3 * 512 * 1024
GETS_AHEAD = 3
# Largest size of the cache of recently read chunks. A query that reads more than half its size bypasses it.
CACHE_BYTES = 24 * 1024 * 1024


@dataclass(slots=True)
class Traffic:
    """The requests made so far, and what they returned."""

    requests: int = 0
    items: int = 0
    content_bytes: int = 0


class IndexStore:
    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        *,
        max_cache_bytes: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._table_name = table_name
        self._sleep = sleep
        self._pool = ThreadPoolExecutor(GETS_AHEAD)
        self._lock = threading.Lock()
        self._cache: OrderedDict[ItemKey, bytes] = OrderedDict()
        self._cache_bytes = 0
        self.max_cache_bytes = CACHE_BYTES if max_cache_bytes is None else min(max_cache_bytes, CACHE_BYTES)
        self.traffic = Traffic()

    def head(self, table: str) -> Head | None:
        with _errors_as_unusable():
            found: Any = self._client.get_item(TableName=self._table_name, Key=attributes(head_key(table))).get("Item")
            self.traffic.requests += 1
            return head_of(found) if found else None

    def root(self, table: str, build: str) -> bytes:
        request: Any = {
            "TableName": self._table_name,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": root_pk(table, build)}},
        }
        parts: list[bytes] = []
        with _errors_as_unusable():
            while True:
                answer = self._client.query(**request)
                self.traffic.requests += 1
                parts += [item[CONTENT]["B"] for item in answer["Items"]]
                if "LastEvaluatedKey" not in answer:
                    break
                request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        if not parts:
            raise UnusableIndexError("its root is missing")
        self.traffic.items += len(parts)
        self.traffic.content_bytes += sum(map(len, parts))
        return b"".join(parts)

    def chunks(self, table: str, sizes: Mapping[Place, int]) -> Iterator[bytes]:
        """The chunks in the order of `sizes`, which has the size of each.

        Reads ahead more and more: a page or a limit may need the first chunks only.
        """
        get = self._get_cached if sum(sizes.values()) <= self.max_cache_bytes // 2 else self._get
        waiting = deque(_requests({chunk_key(table, place): size for place, size in sizes.items()}))
        running: deque[Future[list[bytes]]] = deque()
        try:
            if waiting:
                yield from get(waiting.popleft())
            for ahead in chain(range(1, GETS_AHEAD), repeat(GETS_AHEAD)):
                while waiting and len(running) < ahead:
                    running.append(self._pool.submit(get, waiting.popleft()))
                if not running:
                    break
                yield from running.popleft().result()
        finally:
            for future in running:
                future.cancel()

    def buckets(self, table: str, places: Sequence[Place]) -> list[bytes]:
        keys = [bucket_key(table, place) for place in places]
        requests = (keys[begin : begin + KEYS_PER_GET] for begin in range(0, len(keys), KEYS_PER_GET))
        return [content for contents in self._pool.map(self._get, requests) for content in contents]

    def _get_cached(self, keys: Sequence[ItemKey]) -> list[bytes]:
        with self._lock:
            found = {key: self._cache[key] for key in keys if key in self._cache}
        missing = [key for key in keys if key not in found]
        found |= zip(missing, self._get(missing) if missing else (), strict=True)
        with self._lock:
            for key in keys:
                self._cache_bytes += 0 if key in self._cache else len(found[key])
                self._cache[key] = found[key]
                self._cache.move_to_end(key)
            while self._cache_bytes > self.max_cache_bytes:
                _, dropped = self._cache.popitem(last=False)
                self._cache_bytes -= len(dropped)
        return [found[key] for key in keys]

    def _get(self, keys: Sequence[ItemKey]) -> list[bytes]:
        """The contents of up to 100 items, in the order of the keys."""
        found: dict[ItemKey, bytes] = {}
        request: Any = {self._table_name: {"Keys": [attributes(key) for key in keys]}}
        with _errors_as_unusable():
            for seconds in (*BACK_OFF_SECONDS, None):
                answer = self._client.batch_get_item(RequestItems=request)
                self.traffic.requests += 1
                for item in answer["Responses"].get(self._table_name, ()):
                    found[ItemKey(item["pk"]["S"], item["sk"]["S"])] = item[CONTENT]["B"]
                request = answer.get("UnprocessedKeys")
                if not request or seconds is None:
                    break
                self._sleep(seconds)
        self.traffic.items += len(found)
        self.traffic.content_bytes += sum(map(len, found.values()))
        try:
            return [found[key] for key in keys]
        except KeyError as error:
            raise UnusableIndexError("an item is missing") from error


def _requests(sizes: Mapping[ItemKey, int]) -> Iterator[list[ItemKey]]:
    """Groups the keys into requests."""
    keys: list[ItemKey] = []
    room = BYTES_PER_GET
    for key, size in sizes.items():
        if keys and (size > room or len(keys) == KEYS_PER_GET):
            yield keys
            keys, room = [], BYTES_PER_GET
        keys.append(key)
        room -= size
    if keys:
        yield keys


@contextlib.contextmanager
def _errors_as_unusable() -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError, KeyError, ValueError) as error:
        raise UnusableIndexError(f"reading it from DynamoDB failed with {type(error).__name__}") from error
