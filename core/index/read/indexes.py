"""The indexes of the tables that this process serves, with the roots and the chunks that it read last."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from core.index.layout.head import Head
from core.index.layout.items import table_of
from core.index.layout.root import Root
from core.index.read.store import IndexStore
from core.index.read.table_index import StoredIndex

# A head is looked at again when a table has changed, but not more often than this.
HEAD_SECONDS = 10
# For so long the log is read in the place of an index that failed.
DISTRUST_SECONDS = 300
MAX_ROOTS = 16


class StoredIndexes:
    def __init__(self, store: IndexStore, *, now: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._now = now
        self._lock = threading.Lock()
        self._heads: dict[str, tuple[float, Head | None]] = {}
        self._roots: OrderedDict[str, StoredIndex] = OrderedDict()
        self._distrusted_until: dict[str, float] = {}

    def latest(self, location_uri: str) -> StoredIndex | None:
        """The newest index of a table, if there is one that can be used."""
        table = table_of(location_uri)
        if self._now() < self._distrusted_until.get(table, 0):
            return None
        head = self._head(table)
        if head is None:
            return None
        with self._lock:
            known = self._roots.get(head.build)
        if known is None:
            known = StoredIndex(self._store, table, head.build, Root.unpack(self._store.root(table, head.build)))
            with self._lock:
                self._roots[head.build] = known
                if len(self._roots) > MAX_ROOTS:
                    self._roots.popitem(last=False)
        return known

    def distrust(self, location_uri: str) -> None:
        """Not to be used again for a while."""
        self._distrusted_until[table_of(location_uri)] = self._now() + DISTRUST_SECONDS

    def _head(self, table: str) -> Head | None:
        looked_at, head = self._heads.get(table, (float("-inf"), None))
        if self._now() - looked_at >= HEAD_SECONDS:
            head = self._store.head(table)
            self._heads[table] = self._now(), head
        return head
