"""How a command is stopped: the first signal unwinds what it started, and nothing interrupts a decisive moment."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_SECONDS = 0.5


class StoppedError(BaseException):
    """Raised in the main thread, wherever it is. Like KeyboardInterrupt, nothing that handles errors catches it."""


class Stop:
    """Whether a signal has come."""

    def __init__(self) -> None:
        self.requested = False

    def request(self, _signal: int, _frame: FrameType | None) -> None:
        # Later signals do nothing, so that they cannot cut short the end of what was started. They are not set to
        # SIG_IGN: Python loses the exception of the first when it finds a second one that is now ignored.
        if not self.requested:
            self.requested = True
            raise StoppedError

    def wait(self, check: Callable[[], None] = lambda: None) -> None:
        """Until a signal comes, or `check` raises. It asks because Python may have swallowed the signal's exception."""
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
    """Signals wait until the end of the block, so that a process cannot start without someone who will end it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers in the main thread only
        return
    came: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    previous = {number: signal.signal(number, remember) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
