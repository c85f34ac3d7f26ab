"""Hostile hints: each one stays within the time budget and raises no error."""

import gc
import json
import sys
import time
from collections.abc import Iterator

import pytest

from core.pruning.compiler import MAX_COMPARISONS
from core.pruning.parsing.json_hints import MAX_CHARACTERS, MAX_DEPTH
from core.pruning.predicate import compile_predicate
from tests.unit.pruning.support import Table, column, columns_of, compare, in_partition, op, with_stats

TABLE = Table({"c": "long", "s": "string", "b": "boolean"})
FILES = columns_of([with_stats(10, 20, 0)] * 1000)
# CPU time allowed per hint. Not wall-clock time, because tests share the cores.
BUDGET_SECONDS = 0.2
# The depth limit of orjson.
DEEP = "[" * 1_020 + "]" * 1_020
YEAR_2020 = compare("year", "equal", "2020", "int")
YEARS = Table({"year": "integer"}, ("year",))


def comparison(number: int, operator: str = "equal") -> dict:
    return compare("c", operator, str(number), "long")


def nested(depth: int) -> str:
    """Returns a tree with this many levels that is true only for the year 2020."""
    negations = (depth - 2) // 2 * 2
    return '{"op":"not","children":[' * negations + json.dumps(YEAR_2020) + "]}" * negations


@pytest.fixture(scope="module", autouse=True)
def _parser_is_imported() -> None:
    """Imports the parser first: it is imported once per process, which is not part of the cost of a hint."""
    TABLE.compile("c = 1")


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """Disables coverage and freezes the objects of other tests. Tracing and collecting cost more time than a hint."""
    trace = sys.gettrace()
    sys.settrace(None)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    sys.settrace(trace)


def seconds_for(sql_hints: list[str], json_hint: str | None) -> float:
    started = time.process_time()
    predicate = compile_predicate(sql_hints, json_hint, schema_string=TABLE.schema_string, partition_columns=[])
    assert len(predicate.evaluate(FILES)) == len(FILES)
    return time.process_time() - started


@pytest.mark.parametrize(
    "hints",
    [
        pytest.param(["c = 1 OR " * 120_000], id="1 MiB"),
        pytest.param(["x" * 2**20], id="a word of 1 MiB"),
        pytest.param(["'" + "x" * 16_000], id="an unterminated string"),
        pytest.param([" OR ".join(f"c = {number}" for number in range(10_000))], id="10,000 ORs"),
        pytest.param([" OR ".join(f"c = {number}" for number in range(450))], id="450 ORs"),
        pytest.param([" AND ".join(f"c <> {number}" for number in range(450))], id="450 ANDs"),
        pytest.param([f"c IN ({','.join(map(str, range(950)))})"], id="a list of 950"),
        pytest.param(["(" * 1000 + "c = 1" + ")" * 1000], id="depth 1,000"),
        pytest.param(["(" * 16_000], id="16,000 parentheses"),
        pytest.param(["NOT " * 1000 + "b"], id="1,000 NOTs"),
        pytest.param(["- " * 1900 + "c = 1"], id="1,900 signs"),
        pytest.param(["c + " * 900 + "c = 1"], id="900 sums"),
        pytest.param(["date(" * 30 + "c" + ")" * 30], id="types as functions"),
        pytest.param(["struct(" * 200], id="unterminated structs"),
        pytest.param(["CASE WHEN " * 500], id="unterminated cases"),
        pytest.param(["c::int = 1 OR " * 280 + "b"], id="casts"),
        pytest.param(["CAST(c AS DECIMAL(999999999,0)) = 1"], id="a decimal of a billion digits"),
        pytest.param(
            [f"CAST(c AS DECIMAL({'9' * 5_000})) = 1", "CAST(c AS DECIMAL(1,2,3)) = 1"], id="invalid decimal types"
        ),
        pytest.param(["c = 1"] * 600, id="600 hints"),
        pytest.param([""] * 100_000, id="100,000 empty hints"),
        pytest.param([".".join(["partitionValues"] * 800) + ".c = 1"], id="partition values of partition values"),
        pytest.param(["c = 1"] * 100_000, id="100,000 hints"),
        pytest.param([";" * 1_900], id="statements"),
        pytest.param(["/*" * 8_000], id="comments"),
        pytest.param(["c = 1\0"], id="NUL"),
        pytest.param(["c = '\0'"], id="NUL in a string"),
        pytest.param(["1=1; DROP TABLE trips; --", "' OR '1'='1", "1) UNION SELECT 1 --"], id="injection"),
        pytest.param(["{{ 7 * 7 }}", "${jndi:x}", "%s %d", "\ud800", "\u202e", "\U0001d554 = 1"], id="odd characters"),
    ],
)
@pytest.mark.usefixtures("undisturbed")
def test_hostile_sql_costs_little_and_raises_nothing(hints):
    assert seconds_for(hints, None) < BUDGET_SECONDS


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 2**21, id="2 MiB"),
        pytest.param(json.dumps(op("or", *map(comparison, range(5_000)))), id="5,000 ORs"),
        pytest.param(
            json.dumps(op("or", *(comparison(number, "lessThan") for number in range(5_000)))), id="5,000 other ORs"
        ),
        pytest.param(json.dumps(op("and", *map(comparison, range(5_000)))), id="5,000 ANDs"),
        pytest.param(f"[{','.join('1' * 500_000)}]", id="500,000 members"),
        pytest.param("[" * 1_000_000, id="unterminated lists"),
        pytest.param('{"op":"not","children":[' * 1000 + "]}" * 1000, id="depth 1,000"),
        pytest.param(nested(100_000)[:MAX_CHARACTERS], id="depth 40,000"),
        pytest.param('{"op":"' + "x" * 1_000_000 + '"}', id="an op of 1 MB"),
        pytest.param(json.dumps(compare("c" * 1_000_000, "equal", "1", "long")), id="a name of 1 MB"),
        pytest.param(json.dumps(compare("c", "equal", "1" * 1_000_000, "long")), id="a number of 1 MB"),
        pytest.param(json.dumps(compare("c", "equal", "1e" + "9" * 1_000, "double")), id="an exponent of 1,000 digits"),
        pytest.param(json.dumps(compare(".".join("c" * 100_000), "equal", "1", "long")), id="a name of 100,000 dots"),
        pytest.param("\0" * 1000, id="NUL"),
        pytest.param(f'{{"op":{DEEP}}}', id="lists instead of an op"),
        pytest.param(f'{{"op":"column","name":{DEEP}}}', id="lists instead of a name"),
        pytest.param(f'{{"op":"literal","value":{DEEP}}}', id="lists instead of a value"),
        pytest.param(
            json.dumps(compare("partitionValues." * 2_000 + "c", "equal", "1", "long")),
            id="partition values of partition values",
        ),
    ],
)
@pytest.mark.usefixtures("undisturbed")
def test_hostile_json_costs_little_and_raises_nothing(text):
    assert seconds_for([], text) < BUDGET_SECONDS


def keeps_year(text: str, year: str) -> bool:
    predicate = compile_predicate([], text, schema_string=YEARS.schema_string, partition_columns=["year"])
    return bool(predicate.evaluate(columns_of([in_partition(year=year)]))[0] & 1)


def test_a_tree_deeper_than_100_levels_is_ignored():
    assert not keeps_year(nested(MAX_DEPTH), "2021")
    assert keeps_year(nested(MAX_DEPTH + 2), "2021")
    assert keeps_year(nested(20_000), "2021")


def test_a_hint_of_more_than_1_mib_is_ignored():
    hint = json.dumps(YEAR_2020)
    assert not keeps_year(hint.ljust(MAX_CHARACTERS), "2021")
    assert keeps_year(hint.ljust(MAX_CHARACTERS + 1), "2021")


def test_only_the_first_128_comparisons_are_used():
    many = [comparison(number, "greaterThan") for number in range(MAX_COMPARISONS + 50)]
    predicate = TABLE.compile(op("and", *many))
    assert sum(note.used_by is not None for note in predicate.notes) == MAX_COMPARISONS
    assert [note.ignored_because for note in predicate.notes[MAX_COMPARISONS:]] == [
        f"there are more than {MAX_COMPARISONS} comparisons"
    ]
    assert TABLE.keeps(op("or", *many), with_stats(-9, -5, 0))
    assert not TABLE.keeps(op("and", *many), with_stats(-9, -5, 0))


def test_a_null_check_with_the_wrong_type_is_ignored():
    assert TABLE.keeps(op("isNull", column("c", "date")), with_stats(1, 2, 0))
