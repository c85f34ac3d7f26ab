"""Reads a version of a table with the published Python client and checks the result against the table's own files."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.golden.expectation import DELTA, PARQUET, client_refusal, missing_files, unreadable_by_python
from tests.golden.folder import GoldenTable
from tests.golden.lines import snapshot_difference
from tests.golden.plain_log import BrokenLogError, State
from tests.golden.rows import difference, expected_rows
from tests.golden.served import Answer, ServedTables

FORMATS = (PARQUET, DELTA)
READ, LISTED, ANSWERED, REFUSED = "read", "listed", "answered", "refused"
BROKEN_LOG, UNSUPPORTED = "TABLE_UNREADABLE", "UNSUPPORTED_OPERATION"


@dataclass(frozen=True)
class Outcome:
    table: str
    version: int
    answer_format: str
    kind: str
    """One of read, listed, answered and refused."""
    detail: str = ""
    problem: str | None = None
    """How the result differs from the expectation, if it does."""

    @property
    def summary(self) -> str:
        return f"{self.kind}{self.detail}"

    def __str__(self) -> str:
        return f"{self.table} at version {self.version} in {self.answer_format} format: {self.problem}"


def outcomes(served: ServedTables, table: GoldenTable) -> Iterator[Outcome]:
    """Yields the outcomes of all versions in both formats, latest version first."""
    for version in reversed(table.log.versions):
        for answer_format in FORMATS:
            yield Outcome(table.name, version, answer_format, *_check(served, table, version, answer_format))


def _check(served: ServedTables, table: GoldenTable, version: int, answer_format: str) -> tuple[str, str, str | None]:
    """Returns the kind of outcome, a detail, and the problem if there is one."""
    answer = served.query(table, answer_format, **_version_parameter(table, version))
    try:
        state = table.log.state(version)
    except BrokenLogError as broken:
        return REFUSED, f" ({broken}): {answer.message}", _refusal_problem(answer, BROKEN_LOG, str(broken))
    if reason := client_refusal(state, answer_format):
        return REFUSED, f": {answer.message}", _refusal_problem(answer, UNSUPPORTED, reason)
    if answer.version != version:
        return REFUSED, f": {answer.message}", f"{answer.status} for version {answer.version}: {answer.message}"
    if problem := snapshot_difference(answer, state, answer_format):
        return ANSWERED, "", problem
    if missing := missing_files(table.directory, state):
        return LISTED, f": {len(missing)} of {len(state.files)} data files are missing", None
    return _read(served, table, state, answer_format)


def _version_parameter(table: GoldenTable, version: int) -> dict[str, int]:
    """Leaves out the latest version, which is the default."""
    return {} if version == table.log.versions[-1] else {"version": version}


def _refusal_problem(answer: Answer, error_code: str, reason: str) -> str | None:
    """Returns what is wrong with an answer that must be a refusal, if anything."""
    if answer.status == 200:
        return f"answered, although {reason}"
    if answer.status != 400 or answer.error_code != error_code:
        return f"{answer.status} {answer.error_code} instead of {error_code}, because {reason}: {answer.message}"
    if "_delta_log" in answer.message or "://" in answer.message:
        return f"the message shows a storage path: {answer.message}"
    return None


def _read(served: ServedTables, table: GoldenTable, state: State, answer_format: str) -> tuple[str, str, str | None]:
    expected = expected_rows(table.directory, state)
    unreadable = unreadable_by_python(state, answer_format, expected.num_rows)
    try:
        frame = served.read(table, answer_format, **_version_parameter(table, state.version))
    except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds
        return ANSWERED, f", but {unreadable}", None if unreadable else f"the client failed: {error!r}"
    return READ, f": {len(frame):,} row{'s'[: len(frame) != 1]}", difference(frame, expected)
