"""A small cache of catalog items, so that a warm function does not read DynamoDB for every request.

An entry expires a fixed time after it was read from DynamoDB, however often it is used. A revocation takes effect
within that time.
"""

import math
import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Evicts the least recently used entry when full. Thread-safe."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[K, tuple[V, float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, now: float, *, max_age: float = math.inf) -> V | None:
        """Returns None if the entry is absent, has expired, or is older than `max_age` seconds."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            value, read_at, seconds = entry
            # If the clock was set back, expire the entry instead of keeping it longer.
            if not 0 <= now - read_at < min(seconds, max_age):
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
