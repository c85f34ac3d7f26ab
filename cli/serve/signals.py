"""How a command that runs until it is stopped is stopped: the first signal unwinds it, later ones wait for that."""

import contextlib
import signal
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
