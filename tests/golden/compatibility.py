"""Writes `docs/compatibility.md`, with one line per golden table and format: `make compatibility`."""

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
from tests.golden.outcomes import FORMATS, Outcome, outcomes
from tests.golden.plain_log import BrokenLogError
from tests.golden.served import serving

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"
INTRODUCTION = """\
# Compatibility

How the published Python client reads the golden tables of [Delta Lake](https://github.com/delta-io/delta) when
`sluice serve` shares them. Many versions of Spark wrote these tables. Each table has one line per format.
`make compatibility` writes this page. Tests keep it up to date, and also read the tables as streams and change feeds.

- **read**: the client reads the same rows as `deltalake`, or as pyarrow if `deltalake` lacks a feature.
- **listed**: the response matches the log, but data files are missing: they were vacuumed or never written.
- **answered**: the response matches the log, but the Python client cannot read such a table in this format.
- **refused**: a 400 with this text, because the log is broken for every reader or the format cannot express the table.

## Differences from the reference server

Clients of the reference server work with Sluice: routes, fields, headers, and the error texts that clients look for are
the same. Sluice differs on purpose in these points:

- **More fields.** `metaData` has `size` and `numFiles`, and a file with a deletion vector has `deletionVectorFileId`.
  Spark's connector for delta format does not work without `size` and `deletionVectorFileId`.
- **Sorted answers.** Shares, schemas and tables are listed by name, as they were registered. The reference server lists
  them in the order of its file. Reader and writer features are sorted by name, and reader features that an answer does
  not need are left out. Files of a version have the same order on all pages and in all refreshes with a limit.
- **Sound hints.** A predicate never leaves out a matching row: NOT, `isNull` and missing statistics are evaluated in
  three-valued logic. SQL hints are on. `limitHint` works with predicates and pages, and counts only rows that match.
- **Deletion vectors and column mapping** work with pages, streams, change feeds and SQL hints.
- **Timestamps.** `startingTimestamp` of `version` gives the first version at or after it, even if a commit has exactly
  this time. In-commit timestamps are used. A timestamp outside the history is `INVALID_PARAMETER_VALUE` on all routes.
- **Restricted history.** `startVersion` also applies to `metadata`, and errors say nothing about earlier versions.
- **Errors** have no storage paths and are always JSON. A damaged or missing table is a 4xx, because clients repeat a
  request after a 5xx.
- **Tokens** of pages and refreshes are signed and belong to one recipient, table and query. A refresh reads the version
  of the first answer.
- **Directory access** needs the access mode `dir`. In the reference server, shared history is enough.
"""
COLUMNS = ("Table", "Latest version", "Files", "Format", "Result", "Older versions")
BROKEN, WITHOUT_LOG = "Broken logs", "No log"


def document(folder: Path, outcomes_of: Callable[[GoldenTable], list[Outcome]]) -> str:
    sections = [(_heading(table), table) for table in tables_in(folder)]
    parts = [INTRODUCTION]
    for heading, members in groupby(sorted(sections, key=_order), key=lambda section: section[0]):
        rows = [row for _, table in members for row in _rows(table, outcomes_of(table))]
        parts.append("\n".join((f"## {heading}", "", _row(COLUMNS), _row(["---"] * len(COLUMNS)), *rows, "")))
    if without_log := folders_without_a_log(folder):
        names = ", ".join(f"`{path.name}`" for path in without_log)
        parts.append(f"## {WITHOUT_LOG}\n\nA folder without a `_delta_log` cannot be shared: {names}.\n")
    return "\n".join(parts)


def tables_of(document: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", document, re.MULTILINE))


def _heading(table: GoldenTable) -> str:
    """Returns the reader features of the latest version."""
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


def _rows(table: GoldenTable, found: list[Outcome]) -> Iterator[str]:
    latest = table.log.versions[-1]
    try:
        files = f"{len(table.log.state(latest).files):,}"
    except BrokenLogError:
        files = ""
    for answer_format in FORMATS:
        first, *older = (outcome for outcome in found if outcome.answer_format == answer_format)
        kinds = Counter(outcome.kind for outcome in older)
        older_kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        yield _row((f"`{table.name}`", str(latest), files, answer_format, first.summary, older_kinds))


def _row(cells: list[str] | tuple[str, ...]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def main() -> int:
    warnings.simplefilter("ignore")  # warnings of the client
    tables = tables_in(GOLDEN_TABLES)
    with tempfile.TemporaryDirectory() as scratch, serving(tables, Path(scratch)) as served:
        outcomes_of = cache(lambda table: list(outcomes(served, table)))
        DOCUMENT.write_text(document(GOLDEN_TABLES, outcomes_of))
        problems = [outcome for table in tables for outcome in outcomes_of(table) if outcome.problem]
    for problem in problems:
        print(problem, file=sys.stderr)  # noqa: T201
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
