"""The few DynamoDB calls with which an index is read.

Reads are eventually consistent, at half the price: what a build wrote never changes, and a head that is a moment old
names an index that is a moment older.
"""

import contextlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from core.delta.index import UnusableIndexError
from core.index.layout.head import CONTENT, Head, attributes, head_of
from core.index.layout.items import ItemKey, Place, bucket_key, chunk_key, head_key, root_pk

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BACK_OFF_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
# A BatchGetItem gives at most 100 items and 16 MB. More than a few megabytes are not held at once, and at first less is
# asked for: that may be enough.
KEYS_PER_GET = 100
BYTES_PER_GET = 3 * 1024 * 1024
FIRST_BYTES = 3 * 512 * 1024
GETS_AHEAD = 3
# What is kept of the chunks that queries read last, but for queries that read more than half of that.
KEPT_BYTES = 24 * 1024 * 1024


@dataclass(slots=True)
class Traffic:
    """What was read."""

    requests: int = 0
    items: int = 0
    content_bytes: int = 0


class IndexStore:
    def __init__(
        self, client: "DynamoDBClient", table_name: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client = client
        self._table_name = table_name
        self._sleep = sleep
        self._pool = ThreadPoolExecutor(GETS_AHEAD)
        self._lock = threading.Lock()
        self._kept: OrderedDict[ItemKey, bytes] = OrderedDict()
        self._kept_bytes = 0
        self.traffic = Traffic()

    def head(self, table: str) -> Head | None:
        with _usable():
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
        with _usable():
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
        """In order; some are on their way while the ones before them are used, but for a query that needs but a few.

        `sizes`: of each chunk that is asked for.
        """
        get = self._get_or_keep if sum(sizes.values()) <= KEPT_BYTES // 2 else self._get
        waiting = deque(_gets({chunk_key(table, place): size for place, size in sizes.items()}))
        coming: deque[Future[list[bytes]]] = deque()
        try:
            if waiting:
                yield from get(waiting.popleft())
            while waiting or coming:
                while waiting and len(coming) < GETS_AHEAD:
                    coming.append(self._pool.submit(get, waiting.popleft()))
                yield from coming.popleft().result()
        finally:
            for future in coming:
                future.cancel()

    def buckets(self, table: str, places: Sequence[Place]) -> list[bytes]:
        keys = [bucket_key(table, place) for place in places]
        some = (keys[begin : begin + KEYS_PER_GET] for begin in range(0, len(keys), KEYS_PER_GET))
        return [content for contents in self._pool.map(self._get, some) for content in contents]

    def _get_or_keep(self, keys: Sequence[ItemKey]) -> list[bytes]:
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [key for key in keys if key not in found]
        found |= zip(missing, self._get(missing) if missing else (), strict=True)
        with self._lock:
            for key in keys:
                self._kept_bytes += 0 if key in self._kept else len(found[key])
                self._kept[key] = found[key]
                self._kept.move_to_end(key)
            while self._kept_bytes > KEPT_BYTES:
                _, dropped = self._kept.popitem(last=False)
                self._kept_bytes -= len(dropped)
        return [found[key] for key in keys]

    def _get(self, keys: Sequence[ItemKey]) -> list[bytes]:
        """The contents of up to 100 items, in the keys' order."""
        found: dict[ItemKey, bytes] = {}
        request: Any = {self._table_name: {"Keys": [attributes(key) for key in keys]}}
        with _usable():
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


def _gets(sizes: Mapping[ItemKey, int]) -> Iterator[list[ItemKey]]:
    """What is asked for at once."""
    keys: list[ItemKey] = []
    room = FIRST_BYTES
    for key, size in sizes.items():
        if keys and (size > room or len(keys) == KEYS_PER_GET):
            yield keys
            keys, room = [], BYTES_PER_GET
        keys.append(key)
        room -= size
    if keys:
        yield keys


@contextlib.contextmanager
def _usable() -> Iterator[None]:
    """An index that cannot be read is one that is not there."""
    try:
        yield
    except (ClientError, BotoCoreError, KeyError, ValueError) as error:
        raise UnusableIndexError(f"DynamoDB does not give it: {type(error).__name__}") from error
