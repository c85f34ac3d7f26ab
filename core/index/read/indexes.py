"""The indexes of the tables that this process serves. Caches heads and the roots it read last."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.layout.root import Root
from core.index.read.store import IndexStore
from core.index.read.table_index import StoredIndex

# A cached head is read again after this time.
HEAD_SECONDS = 10
# The log is read instead of a failed index for this time.
DISTRUST_SECONDS = 300
MAX_ROOTS = 16


class StoredIndexes:
    def __init__(self, store: IndexStore, *, now: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._now = now
        self._lock = threading.Lock()
        self._heads: dict[str, tuple[float, Head | None]] = {}
        self._indexes: OrderedDict[str, StoredIndex] = OrderedDict()
        self._distrusted_until: dict[str, float] = {}

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
                if len(self._indexes) > MAX_ROOTS:
                    self._indexes.popitem(last=False)
        return index

    def distrust(self, location_uri: str) -> None:
        """Stops using the table's index for a while."""
        self._distrusted_until[table_of(location_uri)] = self._now() + DISTRUST_SECONDS

    def _head(self, table: str) -> Head | None:
        read_at, head = self._heads.get(table, (float("-inf"), None))
        if self._now() - read_at >= HEAD_SECONDS:
            head = self._store.head(table)
            self._heads[table] = self._now(), head
        return head
