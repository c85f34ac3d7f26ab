"""How far a build has come: a bar in a terminal, and elsewhere a line every few seconds."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TextIO, TypeAlias

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cli.output import console

LINE_SECONDS = 5.0

Report: TypeAlias = Callable[[str, int, int | None], None]
"""What is being done, how much of it is done, and of how much, if that is known."""


@contextlib.contextmanager
def reported(table: str, stream: TextIO, *, line_seconds: float = LINE_SECONDS) -> Iterator[Report]:
    if not stream.isatty():
        with _lines(table, stream, line_seconds) as report:
            yield report
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    with Progress(*columns, console=console(stream), transient=True) as bars:
        yield _bar(table, bars)


@contextlib.contextmanager
def _lines(table: str, stream: TextIO, seconds: float) -> Iterator[Report]:
    """By a clock of their own, because Spark may say nothing for longer."""
    latest, ended = table, threading.Event()

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal latest
        latest = ", ".join(filter(None, (f"{table}: {stage}", _count(done, total))))

    def write() -> None:
        while not ended.wait(seconds):
            stream.write(f"{latest}\n")
            stream.flush()

    writer = threading.Thread(target=write, name="progress", daemon=True)
    writer.start()
    try:
        yield report
    finally:
        ended.set()
        writer.join()


def _bar(table: str, bars: Progress) -> Report:
    shown: tuple[str, TaskID] | None = None

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal shown
        if shown is None or shown[0] != stage:
            if shown is not None:
                bars.remove_task(shown[1])
            shown = stage, bars.add_task(f"{table}: {stage}", total=total, count="")
        bars.update(shown[1], completed=done, total=total, count=_count(done, total))

    return report


def _count(done: int, total: int | None) -> str:
    if total is None:
        return f"{done:,}" if done else ""
    return f"{done:,} of {total:,}"
