"""The explanation of a query as text and as a JSON document.

The text has a bar for each group of files and a line for each part of the predicate. If an index was used, it also
shows what was read of it and how long that took. The document has the same numbers, exact.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.bar import Bar
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from cli.explain.funnel import Count, Fate, Funnel
from cli.explain.index import IndexUse, Stage, UnusedIndex
from core.delta.source import Way
from core.pruning.compiler import Note

BAR_WIDTH = 20
BAR_STEPS = 8 * BAR_WIDTH  # block characters show eighths
# In the order of a query. Each bar starts where the previous one ends.
LEFT_OUT = {
    Fate.LEFT_OUT_UNREAD: "left out unread",
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
        "leftOutUnread": _numbers(fates[Fate.LEFT_OUT_UNREAD]),
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
        "source": Way.INDEX if funnel.index else Way.LOG,
        "sourceBecause": funnel.source and funnel.source.reason,
        "index": funnel.index and _index_numbers(funnel.index),
        "unusedIndexVersion": funnel.unused_index and funnel.unused_index.version,
        "unusedIndexBecause": funnel.unused_index and funnel.unused_index.reason,
    }


def _index_numbers(index: IndexUse) -> dict[str, Any]:
    return {
        "version": index.version,
        "chunks": index.chunks,
        "chunksRead": index.chunks_read,
        "files": index.files,
        "filesRead": index.files_read,
        "requests": index.requests,
        "items": index.items,
        "bytes": index.content_bytes,
        "milliseconds": {stage.name.lower(): round(seconds * 1000, 3) for stage, seconds in index.seconds.items()},
    }


def _numbers(count: Count) -> dict[str, int]:
    return {
        "files": count.files,
        "bytes": count.bytes,
        "rows": count.rows,
        "filesWithoutRowCount": count.files_without_row_count,
    }


def chart(table: str, funnel: Funnel) -> Iterator[str | Text | Table]:
    yield Text.assemble((table, "bold"), f" at version {funnel.version}\n")
    yield _bars(funnel)
    if funnel.parts:
        yield ""
        yield _parts(funnel.parts)
    if funnel.index:
        yield ""
        yield from _index_chart(funnel.index)
    yield f"\n{_summary(funnel.total, funnel.listed)}"
    if funnel.source:
        yield f"A process without the table in memory reads the {funnel.source.way}: {funnel.source.reason}."
    if advice := _advice(funnel):
        yield f"→ {advice}"
    if funnel.unused_index is not None:
        yield f"→ {_unused(funnel.unused_index)} Run `sluice index {table}` to update it."


def _unused(index: UnusedIndex) -> str:
    version = "" if index.version is None else f" (version {index.version})"
    return f"The index{version} was not used: {index.reason}."


def _bars(funnel: Funnel) -> Table:
    table = _table_of_bars("FILES", "BYTES", "ROWS")
    total = funnel.total.files

    def add(label: str, count: Count, begin: int, color: str, *, bold: bool = False) -> int:
        """Returns the end of the bar."""
        if not count.files:
            table.add_row(label, "", "0", style="dim")
            return begin
        bar = _bar(total, begin, begin + count.files, color)
        rows = f"{'≥ ' if count.files_without_row_count else ''}{count.rows:,}"
        table.add_row(label, bar, f"{count.files:,}", decimal(count.bytes), rows, style="bold" if bold else "")
        return begin + count.files

    add("all", funnel.total, 0, "default", bold=True)
    end = 0
    if funnel.parts:
        for fate, label in LEFT_OUT.items():
            if fate is Fate.LEFT_OUT_UNREAD and funnel.index is None:
                continue
            end = add(label, funnel.fates[fate], end, "green")
        add("kept", funnel.kept, end, "cyan", bold=True)
        begin = end
        for fate, label in KEPT.items():
            begin = add(label, funnel.fates[fate], begin, "yellow" if fate is Fate.UNKNOWN else "cyan")
    if funnel.limited is not None:
        add("listed up to the limit", funnel.limited, end, "cyan", bold=True)
    return table


def _index_chart(index: IndexUse) -> Iterator[str | Table]:
    yield f"From the index of version {index.version}: {index.requests} requests, {decimal(index.content_bytes)}"
    table = _table_of_bars("CHUNKS", "FILES")
    all_chunks, read = _bar(index.chunks, 0, index.chunks), _bar(index.chunks, 0, index.chunks_read, "cyan")
    table.add_row("all", all_chunks, f"{index.chunks:,}", f"{index.files:,}", style="bold")
    table.add_row("read", read, f"{index.chunks_read:,}", f"{index.files_read:,}")
    yield table
    yield ""
    yield _times(index.seconds)


def _times(seconds: Mapping[Stage, float]) -> Table:
    table = _table_of_bars("MS")
    begin, total = 0.0, sum(seconds.values())
    for stage, taken in seconds.items():
        table.add_row(stage, _bar(total, begin, begin + taken, "magenta"), f"{taken * 1000:.1f}")
        begin += taken
    table.add_row("all", _bar(total, 0, total), f"{total * 1000:.1f}", style="bold")
    return table


def _table_of_bars(*headings: str) -> Table:
    """Returns an empty table. A row is a label, a bar and numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _bar(total: float, begin: float, end: float, color: str = "default") -> Bar:
    """Returns a bar that is visible unless it is empty."""
    visible = max(end, begin + total / BAR_STEPS) if end > begin else end
    return Bar(total, begin, visible, width=BAR_WIDTH, color=color)


def _parts(notes: tuple[Note, ...]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for note in notes:
        sign = Text("✓", style="green") if note.used_by else Text("!", style="yellow")
        use = f"by {note.used_by}" if note.used_by else f"ignored: {note.ignored_because}"
        table.add_row(sign, Text(note.text, style="bold"), Text(use))
    return table


def _summary(total: Count, listed: Count) -> str:
    if listed.files == total.files:
        return f"A query lists every file: {total.files:,}, {decimal(total.bytes)}."
    saved = total.bytes - listed.bytes
    percent = 100 * saved // max(total.bytes, 1)
    size = f"{decimal(saved)} of {decimal(total.bytes)}"
    return f"A query lists {listed.files:,} of {total.files:,} files, and saves {size} ({percent} %)."


def _advice(funnel: Funnel) -> str | None:
    if not funnel.fates[Fate.UNKNOWN].files:
        return None
    if not any(note.used_by for note in funnel.parts):
        return "No part of the predicate can be used, so no file can be left out."
    return "Unknown: no statistics of a column in the predicate. Let a writer that collects them rewrite these files."
