"""The published Python client reads every golden table through `sluice serve`: rows, ranges and change feeds.

The expectations are derived from the files of each table. `docs/compatibility.md` is written from the same outcomes.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cli.apply.shares_file import SharesFileError, load
from tests.conftest import GOLDEN_TABLES
from tests.golden import compatibility
from tests.golden.folder import GoldenTable, folders_without_a_log, table_parameters, tables_in
from tests.golden.lines import range_difference
from tests.golden.outcomes import FORMATS, READ, Outcome, outcomes
from tests.golden.ranges import (
    actions_from,
    changed,
    feed_is_off,
    is_plain,
    python_reads_changes,
    range_refusal,
    streamed,
)
from tests.golden.rows import changed_rows, difference
from tests.golden.served import Answer, ServedTables, serving

pytestmark = pytest.mark.filterwarnings("ignore")
OutcomesOf = Callable[[GoldenTable], list[Outcome]]


@pytest.fixture(scope="module")
def served(golden_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTables]:
    with serving(tables_in(golden_tables), tmp_path_factory.mktemp("golden")) as running:
        yield running


@pytest.fixture(scope="module")
def outcomes_of(served: ServedTables) -> OutcomesOf:
    return cache(lambda table: list(outcomes(served, table)))


@pytest.fixture(params=table_parameters(GOLDEN_TABLES))
def table(request: pytest.FixtureRequest) -> GoldenTable:
    return request.param


@pytest.fixture(params=FORMATS)
def answer_format(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_version_is_read_correctly_or_refused(table: GoldenTable, outcomes_of: OutcomesOf) -> None:
    assert [str(outcome) for outcome in outcomes_of(table) if outcome.problem] == []


def test_metadata_equals_the_head_of_a_query_or_is_refused_likewise(
    table: GoldenTable, answer_format: str, served: ServedTables
) -> None:
    query, metadata = served.query(table, answer_format), served.metadata(table, answer_format)
    if metadata.status == 200 and "absolute paths" in query.message:
        return  # a metadata request reads no files
    assert metadata == replace(query, lines=query.lines[:2])


def test_the_client_can_read_the_format_that_it_chooses_itself(
    table: GoldenTable, served: ServedTables, outcomes_of: OutcomesOf
) -> None:
    latest = {outcome.answer_format: outcome for outcome in outcomes_of(table)[: len(FORMATS)]}
    if any(outcome.kind == READ for outcome in latest.values()):
        assert latest[served.resolved_format(table)].kind == READ


def test_a_streaming_read_returns_the_files_that_changed_data(
    table: GoldenTable, answer_format: str, served: ServedTables
) -> None:
    for start in starts(table):
        answer = served.query(table, answer_format, startingVersion=start)
        refused = range_refusal(table, start, streamed, answer_format)
        if not check_refused(answer, refused):
            actions = actions_from(table.log, start, streamed)
            assert range_difference(answer, actions, answer_format) is None


def test_a_change_feed_returns_the_changed_rows_if_it_is_enabled(
    table: GoldenTable, answer_format: str, served: ServedTables
) -> None:
    for start in starts(table):
        answer = served.changes(table, answer_format, startingVersion=start)
        refused = range_refusal(table, start, changed, answer_format)
        if refused is None and feed_is_off(table.log, start):
            refused = "change data was not recorded"
            assert refused in answer.message
        if not check_refused(answer, refused):
            actions = actions_from(table.log, start, changed)
            assert range_difference(answer, actions, answer_format) is None
            if is_plain(table, start, actions) and python_reads_changes(table, start, answer_format):
                frame = served.read_changes(table, answer_format, start).drop(columns="_commit_timestamp")
                latest = table.log.state(table.log.versions[-1])
                assert difference(frame, changed_rows(table.directory, latest, actions)) is None


@pytest.mark.parametrize("size", [1, 3])
def test_pages_together_are_the_whole_answer(
    table: GoldenTable, answer_format: str, served: ServedTables, size: int
) -> None:
    everything = {"startingVersion": table.log.versions[0]}
    for ask, asked in ((served.query, {}), (served.query, everything), (served.changes, everything)):
        whole = ask(table, answer_format, **asked)
        if whole.status != 200:
            continue
        found, page_token = [], {}
        while page_token is not None:
            page = ask(table, answer_format, maxFiles=size, **asked, **page_token)
            *lines, ended = page.lines
            assert (page.version, lines[:2]) == (whole.version, whole.lines[:2])
            found += lines[2:]
            token = ended["endStreamAction"].get("nextPageToken")
            page_token = {"pageToken": token} if token else None
        assert list(map(unsigned, found)) == list(map(unsigned, whole.lines[2:]))


def unsigned(line: dict[str, Any]) -> str:
    """Returns the line without signatures and expiry, which depend on the time of the request."""
    return re.sub(r'\?X-Amz-[^"]*|"expirationTimestamp": \d+', "", json.dumps(line))


def starts(table: GoldenTable) -> list[int]:
    versions = table.log.versions
    return sorted({versions[0], versions[len(versions) // 2]})


def check_refused(answer: Answer, reason: str | None) -> bool:
    """Checks that the answer is a refusal if and only if there is a reason. Returns whether it is."""
    assert answer.status == (400 if reason else 200), (reason, answer.message)
    assert "://" not in answer.message
    return reason is not None


def test_a_folder_without_a_log_cannot_be_shared(golden_tables: Path, tmp_path: Path) -> None:
    for number, folder in enumerate(folders_without_a_log(golden_tables)):
        table = f"{{name: t, location: {folder}}}"
        shares = tmp_path / f"{number}.yaml"
        shares.write_text(f"version: 1\nshares: [{{name: a, schemas: [{{name: b, tables: [{table}]}}]}}]\n")
        with pytest.raises(SharesFileError, match="it has no _delta_log folder"):
            load(shares, local_tables=True)


@pytest.mark.slow(reason="reads every version of every table")
def test_the_compatibility_page_is_up_to_date(golden_tables: Path, outcomes_of: OutcomesOf) -> None:
    document = compatibility.DOCUMENT.read_text()
    if compatibility.tables_of(document) != {table.name for table in tables_in(golden_tables)}:
        pytest.skip("the page was written for other tables")
    assert document == compatibility.document(golden_tables, outcomes_of), "run `make compatibility`"
