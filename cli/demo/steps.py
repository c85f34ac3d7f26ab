"""Progress of the demo: shows each step while it runs, then as one line with its duration."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.common.output import Output

if TYPE_CHECKING:
    from pandas import DataFrame

TITLE_WIDTH = 52


@dataclass(slots=True)
class Step:
    title: str
    result: str = ""
    seconds: float = 0.0
    progress: Callable[[str], None] = field(default=lambda _: None, repr=False)


class Story:
    def __init__(
        self, output: Output, *, started: float | None = None, now: Callable[[], float] = time.perf_counter
    ) -> None:
        """`started` is the time on the clock `now` from which the total counts. Default: now."""
        self._output = output
        self._now = now
        self._started = now() if started is None else started
        self._steps: list[Step] = []

    def begin(self, sentence: str) -> None:
        """Prints what will happen, before the first slow step."""
        if not self._output.as_json:
            self._output.print(sentence)

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Step]:
        step = Step(title)
        started = self._now()
        with Console(stderr=True).status(title) as status:
            step.progress = lambda text: status.update(f"{title}: {text}")
            yield step
        step.seconds = round(self._now() - started, 2)
        self._steps.append(step)
        if not self._output.as_json:
            line = Text.assemble(("✓ ", "bold green"), title.ljust(TITLE_WIDTH), (f"{step.seconds:6.2f} s  ", "dim"))
            self._output.print(line + Text(step.result, style="bold"))

    def rows(self, frame: "DataFrame", title: str) -> None:
        if self._output.as_json:
            return
        table = Table(title=title, title_justify="left", header_style="bold")
        for column, dtype in frame.dtypes.items():
            table.add_column(str(column), justify="right" if dtype.kind in "if" else "left")
        for row in frame.itertuples(index=False):
            table.add_row(*map(str, row))
        self._output.print(table)

    def end(self, **facts: Any) -> None:
        """Prints the time since the start; with `--json`, all steps and facts as one document."""
        seconds = self._now() - self._started
        if self._output.as_json:
            steps = [{"step": step.title, "result": step.result, "seconds": step.seconds} for step in self._steps]
            self._output.document({"steps": steps, "seconds": round(seconds, 2), **facts})
        else:
            self._output.print(f"Shared and read in {seconds:.1f} s, from the start of the command.")
