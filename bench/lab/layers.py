"""Measures the CPU time of each layer of a listing: read, prune, sign, write, compress.

Wraps the functions of the layers, which costs a little time. So the timed runs do without it. Threads count separately:
the time of a call is the CPU time of its thread, and what one layer waits for another does not count.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

READ, PRUNE, SIGN, WRITE, COMPRESS = "read", "prune", "sign", "write", "compress"
LAYERS = (READ, PRUNE, SIGN, WRITE, COMPRESS)


class Layers:
    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._inner = threading.local()

    def install(self) -> None:
        """Wraps the layers of the query function. Call before its handler is imported."""
        from core.delta.log.checkpoint import Checkpoint
        from core.delta.log.rows import FileRows
        from core.index.layout.chunk import Chunk
        from core.index.read.store import IndexStore
        from core.index.read.table_index import StoredIndex
        from core.runtime.compression import GzipEncoder
        from core.sharing.answers import table_answer
        from core.sharing.selection import Selection
        from core.storage.presign import UrlSigner

        self._calls(UrlSigner, "sign_all", SIGN)
        self._calls(table_answer.TableAnswer, "_ids", SIGN)
        self._calls(GzipEncoder, "encode", COMPRESS)
        self._calls(GzipEncoder, "finish", COMPRESS)
        self._calls(table_answer, "with_reduced_stats", WRITE)
        self._calls(IndexStore, "_get", READ)
        self._properties(Chunk, "files", READ)
        self._properties(FileRows, "paths", READ)
        self._iterations(Checkpoint, "batches", READ)
        self._iterations(StoredIndex, "batches", READ)
        self._iterations(Selection, "kept", PRUNE)
        self._iterations(table_answer, "file_lines", WRITE)

    def reset(self) -> None:
        self.seconds.clear()

    def _calls(self, owner: Any, name: str, layer: str) -> None:
        setattr(owner, name, self._wrapped(getattr(owner, name), layer))

    def _properties(self, owner: Any, name: str, layer: str) -> None:
        cached = owner.__dict__[name]
        cached.func = self._wrapped(cached.func, layer)

    def _wrapped(self, function: Callable[..., Any], layer: str) -> Callable[..., Any]:
        @wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            return self._timed(layer, lambda: function(*arguments, **options))

        return timed

    def _iterations(self, owner: Any, name: str, layer: str) -> None:
        function = getattr(owner, name)

        @wraps(function)
        def timed(*arguments: Any, **options: Any) -> Iterator[Any]:
            items = function(*arguments, **options)
            end = object()
            while (item := self._timed(layer, lambda: next(items, end))) is not end:
                yield item

        setattr(owner, name, timed)

    def _timed(self, layer: str, call: Callable[[], Any]) -> Any:
        """Counts the time of a call without that of the layers that it calls."""
        outer = getattr(self._inner, "seconds", 0.0)
        self._inner.seconds = 0.0
        started = time.thread_time()
        try:
            return call()
        finally:
            taken = time.thread_time() - started
            with self._lock:
                self.seconds[layer] += taken - self._inner.seconds
            self._inner.seconds = outer + taken
