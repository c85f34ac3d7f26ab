"""The indexes of the tables that this process serves.

Caches their heads. An index with its root is shared as long as a cached table or a request uses it. The cache of tables
counts its memory, so it is not kept here.
"""

import threading
import time
from collections.abc import Callable
from weakref import WeakValueDictionary

from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.layout.root import Root
from core.index.read.store import IndexStore
from core.index.read.table_index import StoredIndex

# A cached head is read again after this time.
HEAD_SECONDS = 10
# The log is read instead of a failed index for this time.
DISTRUST_SECONDS = 300
MAX_HEADS = 1000


class StoredIndexes:
    def __init__(self, store: IndexStore, *, now: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._now = now
        self._lock = threading.Lock()
        self._heads: dict[str, tuple[float, Head | None]] = {}
        self._indexes: WeakValueDictionary[str, StoredIndex] = WeakValueDictionary()
        self._distrusted_until: dict[str, float] = {}

    @property
    def cache_bytes(self) -> int:
        """The most memory that cached chunks use. Roots count with the tables that use them."""
        return self._store.max_cache_bytes

    def latest(self, location_uri: str) -> StoredIndex | None:
        """The live index of a table. Returns None if it has none, or if its index is distrusted."""
        table = table_of(location_uri)
        if self._now() < self._distrusted_until.get(table, 0):
            return None
        head = self._head(table)
        return None if head is None else self.of_build(location_uri, head.build)

    def of_build(self, location_uri: str, build: str) -> StoredIndex:
        """The index of a build, live or not. Raises `UnusableIndexError` if it does not exist."""
        table = table_of(location_uri)
        with self._lock:
            index = self._indexes.get(build)
        if index is None:
            index = StoredIndex(self._store, table, build, Root.unpack(self._store.root(table, build)))
            with self._lock:
                self._indexes[build] = index
        return index

    def distrust(self, location_uri: str) -> None:
        """Stops using the table's index for a while."""
        self._distrusted_until[table_of(location_uri)] = self._now() + DISTRUST_SECONDS

    def _head(self, table: str) -> Head | None:
        read_at, head = self._heads.get(table, (float("-inf"), None))
        if self._now() - read_at >= HEAD_SECONDS:
            head = self._store.head(table)
            if len(self._heads) >= MAX_HEADS:
                self._heads = {}
            self._heads[table] = self._now(), head
        return head
