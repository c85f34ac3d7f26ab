"""`make compatibility`: writes `docs/compatibility.md`, one line for each golden table and format."""

import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

from tests.conftest import GOLDEN_TABLES
from tests.golden.folder import GoldenTable, folders_without_a_log, tables_in
from tests.golden.plain_log import BrokenLogError
from tests.golden.served import serving
from tests.golden.verdicts import FORMATS, Verdict, verdicts

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"
INTRODUCTION = """\
# Compatibility

What the published Python client gets of [Delta Lake](https://github.com/delta-io/delta)'s golden tables, which Spark
wrote over many of its versions, when `sluice serve` shares them. One line for each table and format. Written by
`make compatibility`; a test keeps it true, and streams the tables and reads their change feeds too.

- **read**: the rows are those that `deltalake` reads from the same files (pyarrow, where it lacks the feature).
- **listed**: the answer is what the log says, but data files are not there: they were vacuumed, or never written.
- **answered**: the answer is what the log says, but the Python client does not read such a table in that format.
- **refused**: a 400 with this text, because the log is broken for every reader, or the format cannot carry the table.
"""
COLUMNS = ("Table", "Latest version", "Files", "Format", "Result", "Older versions")
BROKEN, WITHOUT_LOG = "Broken logs", "No log"


def document(folder: Path, verdicts_of: Callable[[GoldenTable], list[Verdict]]) -> str:
    sections = [(_heading(table), table) for table in tables_in(folder)]
    parts = [INTRODUCTION]
    for heading, members in groupby(sorted(sections, key=_order), key=lambda section: section[0]):
        rows = [row for _, table in members for row in _rows(table, verdicts_of(table))]
        parts.append("\n".join((f"## {heading}", "", _row(COLUMNS), _row(["---"] * len(COLUMNS)), *rows, "")))
    if without_log := folders_without_a_log(folder):
        names = ", ".join(f"`{path.name}`" for path in without_log)
        parts.append(f"## {WITHOUT_LOG}\n\nA folder without a `_delta_log` cannot be shared at all: {names}.\n")
    return "\n".join(parts)


def tables_of(document: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", document, re.MULTILINE))


def _heading(table: GoldenTable) -> str:
    """The features that the latest version asks of a reader."""
    try:
        protocol = table.log.state(table.log.versions[-1]).protocol
    except BrokenLogError:
        return BROKEN
    if protocol["minReaderVersion"] == 2:
        return "columnMapping (reader version 2)"
    if protocol["minReaderVersion"] not in (1, 3):
        return BROKEN
    return ", ".join(sorted(protocol.get("readerFeatures", ()))) or "No reader feature"


def _order(section: tuple[str, GoldenTable]) -> tuple[bool, bool, str, str]:
    heading, table = section
    return heading == BROKEN, heading != "No reader feature", heading, table.name


def _rows(table: GoldenTable, of_table: list[Verdict]) -> Iterator[str]:
    latest = table.log.versions[-1]
    try:
        files = f"{len(table.log.state(latest).files):,}"
    except BrokenLogError:
        files = ""
    for answer_format in FORMATS:
        first, *older = (verdict for verdict in of_table if verdict.answer_format == answer_format)
        kinds = Counter(verdict.kind for verdict in older)
        summary = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        yield _row((f"`{table.name}`", str(latest), files, answer_format, first.outcome, summary))


def _row(cells: list[str] | tuple[str, ...]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def main() -> int:
    warnings.simplefilter("ignore")  # the client's own
    tables = tables_in(GOLDEN_TABLES)
    with tempfile.TemporaryDirectory() as scratch, serving(tables, Path(scratch)) as served:
        verdicts_of = cache(lambda table: list(verdicts(served, table)))
        DOCUMENT.write_text(document(GOLDEN_TABLES, verdicts_of))
        problems = [verdict for table in tables for verdict in verdicts_of(table) if verdict.problem]
    for problem in problems:
        print(problem, file=sys.stderr)  # noqa: T201
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
