"""The room that a page has, so that a page ends before its answer is too large to send.

Only a front end knows the limit and how an answer is encoded. It sets a meter before it reads the body. Without a meter
there is no limit.
"""

from typing import Protocol


class Meter(Protocol):
    """Measures an answer as it will be sent."""

    def fits(self, lines: bytes) -> bool:
        """Whether the answer certainly stays within the limit with these lines and an endStreamAction."""

    def add(self, lines: bytes) -> None:
        """Counts lines as part of the answer."""


class PageRoom:
    def __init__(self) -> None:
        self._meter: Meter | None = None
        self._files = 0

    def limit(self, meter: Meter) -> None:
        self._meter = meter

    def add(self, lines: bytes) -> None:
        """Counts lines that every page has."""
        if self._meter is not None:
            self._meter.add(lines)

    def take(self, lines: bytes, *, files: int = 1) -> bool:
        """Counts the lines of some files, or returns False if the page must end before them.

        The first file of a page is always taken, because a page without files would repeat itself for ever.
        """
        if self._meter is not None:
            if not self._meter.fits(lines) and (self._files > 0 or files > 1):
                return False
            self._meter.add(lines)
        self._files += files
        return True
