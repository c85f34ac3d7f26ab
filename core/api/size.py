"""The size of an answer that cannot end early, so that a front end knows before the first byte whether it can send it.

Only a front end knows its limit and how an answer is encoded. It projects the size from the first lines. If the answer
would be too large, statistics can shrink to the number of records: the protocol calls statistics optional.
"""

from collections.abc import Callable


class AnswerSize:
    """How much of an answer has been written, in any unit: files of a snapshot, or bytes of commits."""

    __slots__ = ("_count", "reduced", "total", "written")

    def __init__(self) -> None:
        self.written = 0.0
        self.total = 0.0
        """At least this much is written in the end. 0 if the answer lists no files."""
        self.reduced = False
        """Whether the lines from now on have reduced statistics. Set by the front end."""
        self._count: Callable[[], int] | None = None

    def expect(self, total: float, count: Callable[[], int] | None = None) -> None:
        """`count` returns the exact total with some effort. `total` is then an upper bound."""
        self.total = total
        self._count = count

    def make_exact(self) -> bool:
        """Replaces an upper bound with the exact total. Returns False if the total was exact."""
        if self._count is None:
            return False
        self.total, self._count = self._count(), None
        return True
