"""A small cache for catalog items, so that a warm function need not ask DynamoDB at each request.

An entry lives for a fixed time from when it was *read*, however often it is used: a revocation works within
that time.
"""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Bounded: the entry that was used least recently goes first. Safe to use from several threads."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[K, tuple[V, float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, now: float) -> V | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            value, read_at, seconds = entry
            # A clock that was set back must not lengthen an entry's life.
            if not 0 <= now - read_at < seconds:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V, *, read_at: float, seconds: float) -> None:
        if seconds <= 0:
            return
        with self._lock:
            self._entries[key] = (value, read_at, seconds)
            self._entries.move_to_end(key)
            if len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
