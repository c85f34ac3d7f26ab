"""Shows the progress of a build: a bar in a terminal, otherwise a line every few seconds."""

import contextlib
from collections.abc import Iterator
from typing import TextIO

from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from cli.common.output import console
from pipeline.indexing import Progress
from pipeline.report import LINE_SECONDS, count_text, progress_lines


@contextlib.contextmanager
def reported(table: str, stream: TextIO, *, line_seconds: float = LINE_SECONDS) -> Iterator[Progress]:
    if not stream.isatty():
        with progress_lines(table, stream, line_seconds) as report:
            yield report
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    with Bars(*columns, console=console(stream), transient=True) as bars:
        yield _bar(table, bars)


def _bar(table: str, bars: Bars) -> Progress:
    shown: tuple[str, TaskID] | None = None

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal shown
        if shown is None or shown[0] != stage:
            if shown is not None:
                bars.remove_task(shown[1])
            shown = stage, bars.add_task(f"{table}: {stage}", total=total, count="")
        bars.update(shown[1], completed=done, total=total, count=count_text(done, total))

    return report
