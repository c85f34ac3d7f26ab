"""Hands blocks of an answer from the thread that writes them to the thread that sends them.

At most `MAX_BYTES` wait in between, so a slow client does not make an answer pile up in memory.
"""

import threading
from collections import deque
from typing import NamedTuple

from core.runtime.deadline import StoppedError

MAX_BYTES = 1024 * 1024


class Block(NamedTuple):
    lines: bytes
    written: float
    """How much of the answer has been written with these lines, as `AnswerSize.written`."""


class Handover:
    def __init__(self) -> None:
        self._blocks: deque[Block] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._ended = False
        self.stopped = threading.Event()

    @property
    def empty(self) -> bool:
        return not self._blocks

    def put(self, block: Block) -> None:
        """Waits for room. Raises an error if nobody wants the answer any more."""
        with self._changed:
            self._changed.wait_for(lambda: self.stopped.is_set() or self._bytes == 0 or self._fits(block))
            if self.stopped.is_set():
                raise StoppedError
            self._blocks.append(block)
            self._bytes += len(block.lines)
            self._changed.notify_all()

    def _fits(self, block: Block) -> bool:
        return self._bytes + len(block.lines) <= MAX_BYTES

    def end(self) -> None:
        """Reports that no block follows."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Waits for the next block or the end. Returns False if neither comes in time."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._blocks) or self._ended, seconds)

    def take(self) -> Block | None:
        """Returns the next block, or None at the end. Call `wait` before."""
        with self._changed:
            if not self._blocks:
                return None
            block = self._blocks.popleft()
            self._bytes -= len(block.lines)
            self._changed.notify_all()
            return block

    def stop(self) -> None:
        """Reports that nobody wants the rest. The writing thread learns it at its next block."""
        with self._changed:
            self.stopped.set()
            self._ended = True
            self._blocks.clear()
            self._changed.notify_all()
