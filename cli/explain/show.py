"""What became of the files, for a person: a bar for each group of them, and a line for each part of the predicate.

For a script, the same as one JSON document, with exact numbers.
"""

from collections.abc import Iterator
from typing import Any

from rich.bar import Bar
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from cli.explain.funnel import Count, Fate, Funnel
from core.pruning.compiler import Note

BAR_WIDTH = 20
BAR_STEPS = 8 * BAR_WIDTH  # a character shows eighths
# In the order in which a query meets them: where one bar ends, the next begins.
LEFT_OUT = {
    Fate.LEFT_OUT_BY_PARTITION: "left out by partition",
    Fate.LEFT_OUT_BY_STATISTICS: "left out by statistics",
}
KEPT = {
    Fate.EVERY_ROW_MATCHES: "  every row matches",
    Fate.SOME_ROW_MAY_MATCH: "  some row may match",
    Fate.UNKNOWN: "  unknown",
}


def document(table: str, funnel: Funnel) -> dict[str, Any]:
    fates, total, listed = funnel.fates, funnel.total, funnel.listed
    return {
        "table": table,
        "version": funnel.version,
        "total": _numbers(total),
        "leftOutByPartition": _numbers(fates[Fate.LEFT_OUT_BY_PARTITION]),
        "leftOutByStatistics": _numbers(fates[Fate.LEFT_OUT_BY_STATISTICS]),
        "kept": _numbers(funnel.kept),
        "everyRowMatches": _numbers(fates[Fate.EVERY_ROW_MATCHES]),
        "someRowMayMatch": _numbers(fates[Fate.SOME_ROW_MAY_MATCH]),
        "unknown": _numbers(fates[Fate.UNKNOWN]),
        "listed": _numbers(listed),
        "saved": {"files": total.files - listed.files, "bytes": total.bytes - listed.bytes},
        "predicate": [
            {"part": note.text, "usedBy": note.used_by, "ignoredBecause": note.ignored_because} for note in funnel.parts
        ],
    }


def _numbers(count: Count) -> dict[str, int]:
    return {
        "files": count.files,
        "bytes": count.bytes,
        "rows": count.rows,
        "filesWithoutRowCount": count.files_without_row_count,
    }


def picture(table: str, funnel: Funnel) -> Iterator[str | Text | Table]:
    yield Text.assemble((table, "bold"), f" at version {funnel.version}\n")
    yield _bars(funnel)
    if funnel.parts:
        yield ""
        yield _parts(funnel.parts)
    yield f"\n{_summary(funnel.total, funnel.listed)}"
    if advice := _advice(funnel):
        yield f"→ {advice}"


def _bars(funnel: Funnel) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for heading in ("FILES", "BYTES", "ROWS"):
        table.add_column(heading, justify="right", no_wrap=True)
    total = funnel.total.files

    def add(label: str, count: Count, begin: int, color: str, *, bold: bool = False) -> int:
        if not count.files:
            table.add_row(label, "", "0", style="dim")
            return begin
        visible = max(count.files, total / BAR_STEPS)
        bar = Bar(total, begin, begin + visible, width=BAR_WIDTH, color=color)
        rows = f"{'≥ ' if count.files_without_row_count else ''}{count.rows:,}"
        table.add_row(label, bar, f"{count.files:,}", decimal(count.bytes), rows, style="bold" if bold else "")
        return begin + count.files

    add("all", funnel.total, 0, "default", bold=True)
    place = 0
    if funnel.parts:
        for fate, label in LEFT_OUT.items():
            place = add(label, funnel.fates[fate], place, "green")
        add("kept", funnel.kept, place, "cyan", bold=True)
        begin = place
        for fate, label in KEPT.items():
            begin = add(label, funnel.fates[fate], begin, "yellow" if fate is Fate.UNKNOWN else "cyan")
    if funnel.limited is not None:
        add("listed up to the limit", funnel.limited, place, "cyan", bold=True)
    return table


def _parts(notes: tuple[Note, ...]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for note in notes:
        sign = Text("✓", style="green") if note.used_by else Text("!", style="yellow")
        fate = f"by {note.used_by}" if note.used_by else f"ignored: {note.ignored_because}"
        table.add_row(sign, Text(note.text, style="bold"), Text(fate))
    return table


def _summary(total: Count, listed: Count) -> str:
    if listed.files == total.files:
        return f"A query lists every file: {total.files:,}, {decimal(total.bytes)}."
    saved = total.bytes - listed.bytes
    share = 100 * saved // max(total.bytes, 1)
    size = f"{decimal(saved)} of {decimal(total.bytes)}"
    return f"A query lists {listed.files:,} of {total.files:,} files, and saves {size} ({share} %)."


def _advice(funnel: Funnel) -> str | None:
    if not funnel.fates[Fate.UNKNOWN].files:
        return None
    if not any(note.used_by for note in funnel.parts):
        return "No part of the predicate can be used, so nothing is known of any file."
    return "Unknown: no statistics of a column in the predicate. Let a writer that collects them rewrite these files."
