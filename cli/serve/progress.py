"""Shows the steps of a start: a spinner in a terminal, otherwise lines for a step that takes long."""

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from cli.common.output import console

if TYPE_CHECKING:
    from rich.status import Status

LINE_SECONDS = 2.0


class PlainLines(contextlib.AbstractContextManager["PlainLines"]):
    """Writes a line every few seconds while a step such as `Copying orders: 5 of 9 files` reports its count."""

    def __init__(
        self, stream: TextIO, line_seconds: float = LINE_SECONDS, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._line_seconds = line_seconds
        self._now = now
        self._step = ""
        self._since = 0.0

    def __exit__(self, *_: object) -> None:
        self.stop()

    def update(self, text: str) -> None:
        step = text.rpartition(": ")[0] or text
        if step != self._step:
            self._step, self._since = step, self._now()
        elif self._now() - self._since >= self._line_seconds:
            self._since = self._now()
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def stop(self) -> None:
        self._step = ""


def start_progress(stream: TextIO) -> "PlainLines | Status":
    return console(stream).status("") if stream.isatty() else PlainLines(stream)
