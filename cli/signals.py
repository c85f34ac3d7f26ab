"""How a command is stopped: the first signal unwinds what it started, and nothing interrupts a decisive moment."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedError(BaseException):
    """Raised in the main thread, wherever it is. Like KeyboardInterrupt, nothing that handles errors catches it."""


@contextlib.contextmanager
def until_stopped() -> Iterator[None]:
    """Leaves the block at the first Ctrl-C or SIGTERM. A second one cannot cut short the end of what was started."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise StoppedError

    previous = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
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
    previous = {number: signal.signal(number, lambda number, _: came.append(number)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)
