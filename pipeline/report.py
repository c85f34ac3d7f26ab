"""Progress and outcome of builds as text, for `sluice index` and the job."""

import contextlib
import threading
from collections.abc import Iterator
from typing import TextIO

from pipeline.costs import build_cost, query_costs
from pipeline.indexing import Outcome, Progress

LINE_SECONDS = 5.0
UP_TO_DATE = "up to date"
SENTENCES = {
    UP_TO_DATE: "is up to date, at version {}",
    "later": "was brought up to version {}",
    "built": "was indexed at version {}",
    "lost": "was already indexed by another build, at version {}",
}


def outcome_sentence(outcome: Outcome) -> str:
    """Describes the outcome without the table's name: `was indexed at version 5`."""
    return SENTENCES[outcome.what].format(outcome.head.version)


def outcome_details(outcome: Outcome) -> list[str]:
    """Returns lines with the size and the costs of the index. Empty if it was up to date."""
    if outcome.what == UP_TO_DATE:
        return []
    head = outcome.head
    full, selective = map(dollars, query_costs(head))
    return [
        f"  files: {head.files:,}, chunks: {head.chunks:,}, size: {bytes_text(head.content_bytes)}",
        f"  this build: {outcome.units:,} write units, about {dollars(build_cost(outcome.units))}",
        f"  a query of all files: about {full}, of a few: about {selective}",
    ]


def summary(outcome: Outcome) -> str:
    first = f"{outcome.table} {outcome_sentence(outcome)} ({outcome.seconds:.1f} s)"
    return "\n".join([first, *outcome_details(outcome)])


@contextlib.contextmanager
def progress_lines(table: str, stream: TextIO, seconds: float = LINE_SECONDS) -> Iterator[Progress]:
    """Writes the latest progress every `seconds` seconds, even if nothing new was reported."""
    latest, ended = table, threading.Event()

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal latest
        latest = ", ".join(filter(None, (f"{table}: {stage}", count_text(done, total))))

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


def count_text(done: int, total: int | None) -> str:
    if total is None:
        return f"{done:,}" if done else ""
    return f"{done:,} of {total:,}"


def dollars(amount: float) -> str:
    """Formats an amount with two significant digits, and with two to nine decimal places."""
    digits = next((digits for digits in range(2, 9) if amount >= 10 ** (1 - digits)), 9)
    return f"${amount:.{digits}f}"


def bytes_text(size: float) -> str:
    """Formats a size in decimal units, for example `1.5 MB`."""
    if size < 1000:
        return "1 byte" if size == 1 else f"{size:,} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:,.1f} {unit}"
    return f"{size / 1000:,.1f} TB"
