"""Predicates over HTTP: hints of real clients, cases that the reference server gets wrong, and hostile hints."""

import contextlib
import http.client
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.integration.wire.conftest import DELTA, Wire, error, lines
from tests.integration.wire.lake import HandmadeTable
from tests.server import ANSWER_SECONDS, running_server
from tests.unit.pruning.support import column, compare, literal, op

DAYS = [date(2024, 1, day) for day in (1, 2, 5)]
FORMATS = [None, DELTA]
PLAIN = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
VECTORS = {"minReaderVersion": 3, "minWriterVersion": 7}
VECTORS |= {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
ID = column("id", "long")


def days(directory: Path) -> None:
    """One file for each of three days, with three ids and a name."""
    rows = [(day, number * 10 + id_, f"name {number}") for number, day in enumerate(DAYS) for id_ in range(3)]
    columns = dict(zip(("day", "id", "name"), map(list, zip(*rows, strict=True)), strict=True))
    write_deltalake(directory, pa.table(columns), partition_by=["day"])


def bounds(directory: Path) -> None:
    """Files with different statistics for the column `id`; many have none."""
    table = HandmadeTable(directory)
    known = {
        "five_to_ten": stats(5, 10, nulls=0),
        "one_to_four_with_nulls": stats(1, 4, nulls=2),
        "only_nulls": stats(None, None, nulls=5),
        "seven": stats(7, 7, nulls=0),
    }
    unknown = dict.fromkeys([f"unknown_{number}" for number in range(20)], "{}")
    adds = [table.add(name, range(5), stats=text) for name, text in (known | unknown).items()]
    table.commit(PLAIN, table.metadata(), *adds)


def stats(low: int | None, high: int | None, nulls: int) -> str:
    bounds = {name: {"id": value} for name, value in (("minValues", low), ("maxValues", high)) if value is not None}
    return json.dumps({"numRecords": 5, "nullCount": {"id": nulls}} | bounds)


def vectors(directory: Path) -> None:
    table = HandmadeTable(directory)
    deleted = table.deleted_rows(1)
    adds = [
        table.add(name, range(5), stats=stats(low, low + 4, nulls=0), **deleted) for name, low in (("a", 0), ("b", 5))
    ]
    table.commit({"protocol": VECTORS}, table.metadata(), *adds)


@pytest.fixture(scope="module")
def hinted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    folder = tmp_path_factory.mktemp("hinted")
    for make in (days, bounds, vectors):
        make(folder / make.__name__)
    tables = [{"name": make.__name__, "location": str(folder / make.__name__)} for make in (days, bounds, vectors)]
    shares = {"version": 1, "shares": [{"name": "modern", "schemas": [{"name": "tables", "tables": tables}]}]}
    with running_server(folder, shares) as server:
        yield Wire(server, folder)


def listed(wire: Wire, table: str, capabilities: str | None = None, **body: Any) -> list[str]:
    """Returns the names or the days of the listed files."""
    if not isinstance(body.get("jsonPredicateHints", ""), str):
        body["jsonPredicateHints"] = json.dumps(body["jsonPredicateHints"])
    return sorted(map(_name, lines(wire.query(table, capabilities, **body))[2:]))


def _name(line: dict[str, Any]) -> str:
    file = line["file"]
    url = file["url"] if "url" in file else file["deltaSingleAction"]["add"]["path"]
    *_, parent, name = unquote(urlsplit(url).path).split("/")
    return parent.removeprefix("day=") if "=" in parent else name


@pytest.mark.parametrize("capabilities", FORMATS)
@pytest.mark.parametrize(
    ("hint", "kept"),
    [
        ("(CAST(partitionValues.day AS DATE) = DATE '2024-01-01')", [1]),
        ("(CAST(partitionValues.day AS DATE) IN (DATE '2024-01-01', DATE '2024-01-05'))", [1, 5]),
        ("(partitionValues.day IS NOT NULL)", [1, 2, 5]),
        ("day = '2024-01-05'", [5]),
        ("DAY >= '2024-01-02' AND `id` < 12", [2]),
        ("day = '2024-01-05' OR id = 11", [2, 5]),
        ("name LIKE 'name 1%'", [2]),
        ("id BETWEEN 3 AND 9", []),
        ("NOT id > 2", [1]),
        ("day = '2024-01-05' AND riddle(name) = 1", [5]),
    ],
)
def test_sql_hints_of_real_clients_prune(hinted: Wire, hint: str, kept: list[int], capabilities: str | None) -> None:
    assert listed(hinted, "days", capabilities, predicateHints=[hint]) == [f"2024-01-0{day}" for day in kept]


@pytest.mark.parametrize("capabilities", FORMATS)
@pytest.mark.parametrize(
    ("hint", "kept"),
    [
        (compare("day", "equal", "2024-01-01", "date"), [1]),
        (op("and", op("not", op("isNull", ID)), compare("id", "equal", "11", "long")), [2]),
        ([compare("day", "greaterThan", "2024-01-01", "date"), compare("id", "lessThan", "12", "integer")], [2]),
        (op("or", compare("name", "equal", "name 2", "string"), compare("id", "lessThan", "1", "long")), [1, 5]),
    ],
)
def test_json_hints_of_real_clients_prune(hinted: Wire, hint: Any, kept: list[int], capabilities: str | None) -> None:
    assert listed(hinted, "days", capabilities, jsonPredicateHints=hint) == [f"2024-01-0{day}" for day in kept]


DUCKDB = f"{DELTA},varianttype-preview,varianttype"


def duckdb_answer(wire: Wire, hint: Any) -> tuple[http.client.HTTPResponse, list[dict[str, Any]]]:
    """Queries the table `days` as DuckDB's client does: without Accept-Encoding, which `requests` always sends."""
    endpoint = urlsplit(wire.server.endpoint)
    connection = http.client.HTTPConnection(endpoint.netloc, timeout=ANSWER_SECONDS)
    body = {"responseFormat": "delta", "predicateHints": ["string"], "jsonPredicateHints": json.dumps(hint)}
    content = json.dumps(body).encode()
    path = f"{endpoint.path}/shares/modern/schemas/tables/tables/days/query"
    connection.putrequest("POST", path, skip_accept_encoding=True)
    connection.putheader("Authorization", f"Bearer {wire.server.token}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(content)))
    connection.putheader("delta-sharing-capabilities", DUCKDB)
    connection.endheaders(content)
    answer = connection.getresponse()
    with contextlib.closing(connection):
        return answer, [json.loads(line) for line in answer.read().splitlines()]


def declared_as_string(name: str, operator: str, value: str, value_type: str) -> dict[str, Any]:
    return op(operator, column(name, "string"), literal(value, value_type))


@pytest.mark.parametrize(
    ("hint", "kept"),
    [
        pytest.param(declared_as_string("day", "equal", "2024-01-02", "string"), [2], id="a date as a string"),
        pytest.param(declared_as_string("id", "greaterThan", "9", "int"), [2, 5], id="a number by value, not by text"),
        pytest.param(declared_as_string("id", "lessThan", "9", "string"), [1], id="a number as a string"),
        pytest.param(declared_as_string("id", "lessThan", "1.5", "int"), [1, 2, 5], id="a float on a long"),
        pytest.param(declared_as_string("name", "equal", "name 2", "string"), [5], id="a string"),
        pytest.param(declared_as_string("name", "equal", "7", "int"), [1, 2, 5], id="a number on a string"),
        pytest.param(op("isNull", column("id", "string")), [], id="a null check"),
        pytest.param(
            op("and", declared_as_string("id", "lessThan", "12", "int"), None, op("equal", {}, None)), [1, 2], id="gaps"
        ),
        pytest.param(op("or", declared_as_string("id", "lessThan", "12", "int"), {}), [1, 2, 5], id="a gap in an or"),
        pytest.param({}, [1, 2, 5], id="nothing"),
        pytest.param(None, [1, 2, 5], id="null"),
    ],
)
def test_a_query_of_duckdb_prunes_and_is_answered_as_plain_text(hinted: Wire, hint: Any, kept: list[int]) -> None:
    answer, answer_lines = duckdb_answer(hinted, hint)
    assert answer.status == 200
    assert answer.getheader("Content-Encoding") is None
    assert "responseformat=delta" in answer.getheader("delta-sharing-capabilities", "")
    assert sorted(map(_name, answer_lines[2:])) == [f"2024-01-0{day}" for day in kept]


def test_sql_and_json_hints_are_joined_by_and(hinted: Wire) -> None:
    hint = compare("day", "greaterThan", "2024-01-01", "date")
    assert listed(hinted, "days", predicateHints=["id < 12"], jsonPredicateHints=hint) == ["2024-01-02"]


@pytest.mark.parametrize("capabilities", FORMATS)
@pytest.mark.parametrize(
    ("hint", "left_out"),
    [
        pytest.param(op("not", compare("id", "equal", "7", "long")), {"only_nulls", "seven"}, id="not equal"),
        pytest.param(op("isNull", ID), {"five_to_ten", "seven"}, id="isNull beside bounds"),
        pytest.param(op("not", op("isNull", ID)), {"only_nulls"}, id="not isNull without statistics"),
        pytest.param(
            compare("id", "equal", "9", "long"),
            {"one_to_four_with_nulls", "only_nulls", "seven"},
            id="many files without statistics",
        ),
    ],
)
def test_cases_that_the_reference_server_gets_wrong_are_correct(
    hinted: Wire, hint: Any, left_out: set[str], capabilities: str | None
) -> None:
    everything = set(listed(hinted, "bounds", capabilities))
    assert everything - set(listed(hinted, "bounds", capabilities, jsonPredicateHints=hint)) == left_out


def test_hints_prune_a_table_with_deletion_vectors(hinted: Wire) -> None:
    assert listed(hinted, "vectors", DELTA, predicateHints=["id >= 5"]) == ["b"]


def test_a_limit_counts_only_rows_that_certainly_match(hinted: Wire) -> None:
    """Each file has four rows that are not deleted. In `a`, some of them have an id below 3."""
    assert listed(hinted, "vectors", DELTA, limitHint=4) == ["a"]
    assert listed(hinted, "vectors", DELTA, predicateHints=["id >= 3"], limitHint=1) == ["a", "b"]
    assert listed(hinted, "vectors", DELTA, predicateHints=["id >= 0"], limitHint=5) == ["a", "b"]
    assert listed(hinted, "vectors", DELTA, limitHint=0) == []


def test_a_limit_counts_the_rows_of_files_without_row_counts(hinted: Wire) -> None:
    """Each of the 24 files has five rows. The statistics of 20 of them are empty."""
    for capabilities in FORMATS:
        assert len(listed(hinted, "bounds", capabilities, limitHint=28)) == 6
        assert len(listed(hinted, "bounds", capabilities, limitHint=120)) == 24


DEEP = '{"op":"not","children":[' * 1000 + "]}" * 1000


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"predicateHints": ["id = 1 OR " * 110_000]}, id="1 MiB of SQL"),
        pytest.param({"predicateHints": ["(" * 1000 + "id = 99" + ")" * 1000]}, id="SQL of depth 1,000"),
        pytest.param({"predicateHints": [" OR ".join(f"id = {-number}" for number in range(1, 10_000))]}, id="ORs"),
        pytest.param(
            {"predicateHints": ["id = 99; DROP TABLE days", "' OR '1'='1", "1) UNION SELECT 1 --"]}, id="SQL injection"
        ),
        pytest.param({"predicateHints": ["id = 99\0", "\0"]}, id="NUL"),
        pytest.param({"predicateHints": ["", " ", "no SQL at all", "SELECT", "${x}", "id = "]}, id="not SQL"),
        pytest.param({"predicateHints": ["id = 'ninety'", "nowhere = 1", "name = 5", "day = 'x'"]}, id="other types"),
        pytest.param({"jsonPredicateHints": "x" * 2**20}, id="1 MiB"),
        pytest.param({"jsonPredicateHints": DEEP}, id="JSON of depth 1,000"),
        pytest.param({"jsonPredicateHints": "[" * 100_000}, id="unclosed lists"),
        pytest.param({"jsonPredicateHints": "{"}, id="not JSON"),
        pytest.param({"jsonPredicateHints": ""}, id="nothing"),
        pytest.param({"jsonPredicateHints": '{"op":"equal","children":[NaN, 1e999]}'}, id="not numbers"),
        pytest.param({"jsonPredicateHints": compare("id", "equal", "1" * 400, "long")}, id="too large a number"),
        pytest.param({"jsonPredicateHints": compare("id", "equal", 99, "long")}, id="a literal that is not a string"),
        pytest.param({"jsonPredicateHints": compare("id", "equal", "99.5", "string")}, id="another type"),
        pytest.param({"jsonPredicateHints": op("not", op("startsWith", ID, ID))}, id="an unknown op"),
        pytest.param({"predicateHints": None, "jsonPredicateHints": None}, id="null"),
    ],
)
def test_an_unusable_or_hostile_hint_skips_nothing(hinted: Wire, body: dict[str, Any]) -> None:
    assert len(listed(hinted, "days", **body)) == len(DAYS)


@pytest.mark.parametrize(
    "body",
    [
        {"predicateHints": "id = 1"},
        {"predicateHints": [1]},
        {"predicateHints": [["id = 1"]]},
        {"predicateHints": {"id": 1}},
        {"jsonPredicateHints": {"op": "and"}},
        {"jsonPredicateHints": ["x"]},
        {"jsonPredicateHints": 7},
        {"limitHint": "many"},
        {"limitHint": [1]},
    ],
    ids=str,
)
def test_a_hint_of_the_wrong_type_is_rejected(hinted: Wire, body: dict[str, Any]) -> None:
    status, code, _ = error(hinted.query("days", **body))
    assert (status, code) == (400, "MALFORMED_REQUEST")


def test_a_negative_limit_is_rejected(hinted: Wire) -> None:
    assert error(hinted.query("days", limitHint=-1))[:2] == (400, "INVALID_PARAMETER_VALUE")
