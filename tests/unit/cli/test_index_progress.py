"""The progress of a build, in a terminal and in a pipe."""

import threading
from io import StringIO

import pytest

from cli.index.progress import reported

TABLE = "sales.retail.orders"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Pipe(StringIO):
    """Blocks the writer after each line until `next_line` has read it."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.was_read = threading.Event(), threading.Event()

    def flush(self) -> None:
        self.written.set()
        assert self.was_read.wait(60)

    def next_line(self) -> str:
        assert self.written.wait(60)
        line = self.getvalue().splitlines()[-1]
        self.written.clear()
        self.was_read.set()
        return line


@pytest.mark.parametrize(
    ("done", "total", "line"),
    [(0, None, "packing"), (1500, None, "packing, 1,500"), (1500, 4000, "packing, 1,500 of 4,000")],
)
def test_a_pipe_gets_a_line_every_few_seconds_even_without_progress(done, total, line):
    pipe = Pipe()
    with reported(TABLE, pipe, line_seconds=0.01) as report:
        report("packing", done, total)
        pipe.next_line()  # this one may be older than the report
        assert pipe.next_line() == f"{TABLE}: {line}"


def test_a_quick_build_prints_no_progress():
    stream = StringIO()
    with reported(TABLE, stream) as report:
        report("packing", 0, None)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("total", [None, 4000])
def test_a_terminal_shows_a_bar_with_the_current_stage(monkeypatch, total):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()

    with reported(TABLE, stream) as report:
        report("reading the log", 0, None)
        report("writing", 1500, total)

    shown = stream.getvalue()
    assert f"{TABLE}: writing" in shown
    assert ("1,500 of 4,000" in shown) == (total is not None)
