"""`sluice explain` next to a running server: it counts exactly the files that a recipient gets."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from cli.main import run
from tests.conftest import GOLDEN_TABLES
from tests.golden.expectation import DELTA
from tests.golden.served import HEADERS
from tests.server import ROOT, Server, running_server
from tests.tables import events, many_files, people

MAPPED = "data-skipping-basic-stats-all-types-columnmapping-name"
FEWER_STATS = "data-skipping-change-stats-collected-across-versions"
PARTITIONED = "data-skipping-partition-and-data-column"
DELETED = "dv-partitioned-with-checkpoint"
DELETED_AND_MAPPED = "dv-with-columnmapping"
GOLDEN = (MAPPED, FEWER_STATS, PARTITIONED, DELETED, DELETED_AND_MAPPED)


class Case(NamedTuple):
    table: str
    where: tuple[str, ...]
    json_hint: str | None
    limit: int | None
    expected: str
    """The group of the explanation that must contain files."""


def less_than(column: str, value: int) -> str:
    operands = [
        {"op": "column", "name": column, "valueType": "int"},
        {"op": "literal", "value": str(value), "valueType": "int"},
    ]
    return json.dumps({"op": "lessThan", "children": operands})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server. Sets the environment in which the command reaches its embedded AWS."""
    folder = tmp_path_factory.mktemp("explained")
    events(folder / "events")
    many_files(folder / "many")
    people(folder / "people")
    locations = {name: folder / name for name in ("events", "many", "people")}
    locations |= {name: GOLDEN_TABLES / name for name in GOLDEN if GOLDEN_TABLES.is_dir()}
    tables = [{"name": name, "location": str(path), "historyShared": True} for name, path in locations.items()]
    shares = {"version": 1, "shares": [{"name": "own", "schemas": [{"name": "t", "tables": tables}]}]}
    variables = folder / "admin.env"
    with (
        running_server(folder, shares, "--admin-env-out", str(variables)) as running,
        pytest.MonkeyPatch.context() as environment,
    ):
        for line in variables.read_text().splitlines():
            match shlex.split(line):
                case ["export", assignment]:
                    environment.setenv(*assignment.split("=", 1))
                case ["unset", *names]:
                    for name in names:
                        environment.delenv(name, raising=False)
        yield running


@pytest.fixture
def explain(server: Server, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def call(table: str, *options: str) -> dict[str, Any]:
        assert run(["explain", f"own.t.{table}", *options, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def query(server: Server) -> Callable[..., list[int]]:
    def call(table: str, **body: Any) -> list[int]:
        """Returns the sizes of the files that a recipient gets."""
        path = f"/shares/own/schemas/t/tables/{table}/query"
        answer = server.call("POST", path, json=body, headers=HEADERS[DELTA])
        assert answer.status_code == 200, answer.text
        lines = map(json.loads, answer.text.splitlines())
        return [line["file"]["deltaSingleAction"]["add"]["size"] for line in lines if "file" in line]

    return call


@pytest.fixture
def check(explain, query) -> Callable[[Case], None]:
    def call(case: Case) -> None:
        options = [option for hint in case.where for option in ("--where", hint)]
        body: dict[str, Any] = {"predicateHints": case.where}
        if case.json_hint is not None:
            options += ["--json-predicate", case.json_hint]
            body["jsonPredicateHints"] = case.json_hint
        if case.limit is not None:
            options += ["--limit", str(case.limit)]
            body["limitHint"] = case.limit
        explained, listed, everything = explain(case.table, *options), query(case.table, **body), query(case.table)
        assert (explained["listed"]["files"], explained["listed"]["bytes"]) == (len(listed), sum(listed))
        assert (explained["total"]["files"], explained["total"]["bytes"]) == (len(everything), sum(everything))
        # An index may skip a whole chunk without looking at its files.
        assert explained[case.expected]["files"] + explained["leftOutUnread"]["files"] > 0

    return call


OWN_CASES = [
    Case("events", ("day >= '2024-01-04'", "kind <> 'a b'"), None, None, "leftOutByPartition"),
    Case("events", ("value BETWEEN 7 AND 21",), None, None, "leftOutByStatistics"),
    Case("events", ("day >= '2024-01-04' AND value > 30",), None, 5, "leftOutByStatistics"),
    Case("many", ("id = 5",), None, None, "unknown"),
    Case("many", (), None, 20, "everyRowMatches"),
]
GOLDEN_CASES = [
    Case(MAPPED, ("as_int < 0",), None, None, "leftOutByStatistics"),
    Case(FEWER_STATS, ("col1 = 1 AND col2 < 3",), None, None, "unknown"),
    Case(PARTITIONED, ("part = 1 OR id = 2",), None, None, "everyRowMatches"),
    Case(DELETED, ("part IN (1, 4)",), less_than("col1", 12), None, "leftOutByPartition"),
    Case(DELETED, ("part = 3",), None, 1, "everyRowMatches"),
    Case(DELETED_AND_MAPPED, ("part = 3 AND length(col2) > 1",), None, None, "someRowMayMatch"),
    Case(DELETED_AND_MAPPED, (), less_than("col1", 12), 1, "leftOutByStatistics"),
]


@pytest.mark.parametrize("case", OWN_CASES)
def test_it_counts_the_files_that_a_recipient_gets(check, case):
    check(case)


@pytest.mark.parametrize("case", GOLDEN_CASES)
@pytest.mark.usefixtures("golden_tables")
def test_it_counts_files_with_deletion_vectors_mapped_columns_and_few_statistics(check, case):
    check(case)


def test_it_counts_the_files_of_an_older_version(explain, query):
    assert explain("people")["total"]["files"] == 1
    assert explain("people", "--version", "1")["total"]["files"] == len(query("people", version=1)) == 2


@pytest.fixture(scope="module")
def indexes(server: Server) -> None:
    """Builds the index of every table. The server may have read their logs before."""
    subprocess.run([sys.executable, "-m", "cli.main", "index", "--all", "--no-footers"], cwd=ROOT, check=True)


def unlimited(cases: list[Case]) -> list[Case]:
    """Removes limits: which files fill a limit depends on their order, which may be that of the log or of the index."""
    return [case._replace(limit=None) for case in cases]


@pytest.mark.parametrize("case", unlimited(OWN_CASES))
def test_with_an_index_it_counts_the_files_that_a_recipient_gets(indexes, check, explain, case):
    assert explain(case.table)["index"] is not None
    check(case)


@pytest.mark.parametrize("case", unlimited(GOLDEN_CASES))
@pytest.mark.usefixtures("golden_tables")
def test_with_an_index_it_counts_the_files_of_unusual_tables(indexes, check, explain, case):
    assert explain(case.table)["index"] is not None
    check(case)
