"""Stops a command: the first signal unwinds the stack, later ones do not interrupt the cleanup."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_SECONDS = 0.5
INTERRUPTED = 130
"""The exit code of a command that a signal stopped."""


class StoppedError(BaseException):
    """Raised in the main thread at any point. Not an Exception, so error handlers do not catch it."""


class Stop:
    """Whether a signal has arrived."""

    def __init__(self) -> None:
        self.requested = False

    def request(self, _signal: int, _frame: FrameType | None) -> None:
        # Later signals are ignored, so they cannot interrupt the cleanup. The handlers are not set to
        # SIG_IGN: Python drops the exception of the first signal if a second one is pending and now ignored.
        if not self.requested:
            self.requested = True
            raise StoppedError

    def wait(self, check: Callable[[], None] = lambda: None) -> None:
        """Waits for a signal or until `check` raises. Polls, because Python may have dropped the signal's exception."""
        while not self.requested:
            check()
            time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def until_stopped() -> Iterator[Stop]:
    """Leaves the block at the first Ctrl-C or SIGTERM."""
    stop = Stop()
    previous = {number: signal.signal(number, stop.request) for number in SIGNALS}
    try:
        yield stop
    except StoppedError:
        pass
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defers signals until the end of the block, for example until a started process is registered for cleanup."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers only in the main thread
        return
    deferred: list[int] = []

    def defer(number: int, _frame: FrameType | None) -> None:
        deferred.append(number)

    previous = {number: signal.signal(number, defer) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for deferred_number in deferred:
            signal.raise_signal(deferred_number)
