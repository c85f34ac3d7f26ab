"""Random predicates on random files, compared with a brute-force evaluation of every row."""

import json
import math
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from core.pruning.files import ALL_MATCH, MAY_MATCH
from core.pruning.predicate import compile_predicate
from tests.examples import examples
from tests.property.pruning.column_types import order
from tests.property.pruning.duckdb import duckdb_leaf
from tests.property.pruning.predicates import (
    Column,
    Drawing,
    Leaf,
    Truth,
    compare,
    exact_leaf,
    json_leaf,
    sql_leaf,
)
from tests.property.pruning.tables import COLUMNS, EXACT_COLUMNS, File, Table, tables
from tests.property.pruning.writers import WRITERS, write_exactly
from tests.unit.pruning.support import columns_of

EXAMPLES = examples(300)
YEAR_1973 = 94_694_400_000_000
LEAVES = {"sql": sql_leaf, "json": json_leaf, "duckdb": duckdb_leaf}


@pytest.mark.parametrize("language", LEAVES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(table=tables(COLUMNS), data=st.data())
def test_no_file_with_a_matching_row_is_skipped(language: str, table: Table, data: st.DataObject):
    drawing = Drawing(data, table.columns)
    files = [table.file(drawing, WRITERS) for _ in range(drawing.pick([1, 2, 3]))]
    predicate = drawing.tree(LEAVES[language])
    note(f"{predicate.sql}\n{predicate.json}\n{files}")
    truth_values = table.compile(predicate, language).evaluate(columns_of(files))
    for file, value in zip(files, truth_values, strict=True):
        truths = [
            predicate.truth(row, table.utc_offset, unknown) for row in file.rows for unknown in (True, False, None)
        ]
        event("some row matches" if True in truths else "no row matches")
        assert value & MAY_MATCH or True not in truths
        assert not value & ALL_MATCH or set(truths) == {True}


def outcomes_in(file: File, leaf: Leaf, utc_offset: int) -> set[Truth]:
    """Returns the outcomes of a leaf that exact statistics (minimum, maximum, nulls or not) do not rule out."""
    column = leaf.column
    values = [row[column] for row in file.rows if row[column] is not None]
    has_null = len(values) < len(file.rows)
    if leaf.operator in ("IS NULL", "IS NOT NULL"):
        return {is_null == (leaf.operator == "IS NULL") for is_null in [True] * has_null + [False] * bool(values)}
    nulls: set[Truth] = {None} if has_null else set()
    if not values:
        return nulls
    if leaf.operator == "IS TRUE":
        return nulls | {*values}
    (operand,) = leaf.operands
    key = operand.key(utc_offset)
    has_stats = column.place != "partition"
    if has_stats and column.type.name in ("timestamp", "timestamp_ntz"):
        values += truncated_values(values)
    may_be_nan = has_stats and column.type.name in ("float", "double")
    numbers = [operand.of_column(value, utc_offset) for value in values if not (may_be_nan and math.isnan(value))]
    if not numbers:  # the file has no bounds
        return nulls | outcomes_of_range(leaf.operator, -math.inf, math.nan, key)
    nan = {compare(leaf.operator, math.nan, key)} if may_be_nan else set()
    return nulls | nan | outcomes_of_range(leaf.operator, min(numbers, key=order), max(numbers, key=order), key)


def truncated_values(times: list[int]) -> list[int]:
    """Returns the latest (before 1973 also the earliest) value that may have been truncated to a whole millisecond."""
    least, greatest = min(times), max(times)
    below = [least - 999] if least % 1000 == 0 and least < YEAR_1973 else []
    return below + ([greatest + 999] if greatest % 1000 == 0 else [])


def outcomes_of_range(operator: str, least: Any, greatest: Any, key: Any) -> set[Truth]:
    ends = {compare(operator, least, key), compare(operator, greatest, key)}
    inside = compare("<=", least, key) and compare("<=", key, greatest)
    return ends | {True} if operator == "=" and inside else ends


@pytest.mark.hypothesis
def test_a_file_whose_ranges_exclude_the_predicate_is_skipped(record_property):
    """With exact statistics, the truth value rules out every outcome that the ranges of each comparison rule out."""
    without_a_match: Counter[bool] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(table=tables(EXACT_COLUMNS), data=st.data())
    def check(table: Table, data: st.DataObject) -> None:
        drawing = Drawing(data, table.columns)
        files = [table.file(drawing, [write_exactly], complete=True) for _ in range(2)]
        predicate = drawing.tree(exact_leaf)
        note(f"{predicate.sql}\n{files}")
        truth_values = table.compile(predicate, "sql").evaluate(columns_of(files))
        for file, value in zip(files, truth_values, strict=True):
            outcomes = predicate.outcomes(lambda leaf, file=file: outcomes_in(file, leaf, table.utc_offset))
            assert not value & MAY_MATCH or True in outcomes
            assert value & ALL_MATCH or outcomes != {True}
            if not any(predicate.truth(row, table.utc_offset, None) for row in file.rows):
                without_a_match[bool(value & MAY_MATCH)] += 1

    check()
    share = without_a_match[False] / without_a_match.total()
    report = f"{share:.1%} of {without_a_match.total()} files without a matching row were skipped"
    record_property("tightness", report)
    sys.stdout.write(report)
    assert share > 0.5


WORDS = st.sampled_from(["and", "not", "isNull", "column", "literal", "equal", "int", "data_integer"])
KEYS = st.sampled_from(["op", "children", "name", "value", "valueType"])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner | WORDS),
    max_leaves=20,
)
SQL_WORDS = [
    "data_integer",
    "AND",
    "OR",
    "NOT",
    "IN",
    "(",
    ")",
    "=",
    "<",
    "'",
    "1",
    "NULL",
    "IS",
    "LIKE",
    "CAST",
    "AS",
    "`",
    ".",
]
TEXTS = st.text(max_size=200) | JUNK.map(json.dumps) | st.lists(st.sampled_from(SQL_WORDS), max_size=12).map(" ".join)


@settings(max_examples=examples(300), deadline=None)
@given(text=TEXTS, stats=st.none() | st.text(max_size=50) | JUNK.map(json.dumps), partition=st.none() | st.text())
def test_no_hint_raises(text: str, stats: str | None, partition: str | None):
    table = Table(COLUMNS, mapped=False, utc_offset=0)
    for hints in (([text], None), ([], text)):
        predicate = compile_predicate(*hints, schema_string=table.schema_string, partition_columns=["partition_date"])
        if predicate is not None:
            file = File({"partition_date": partition}, stats, None, [])
            assert len(predicate.evaluate(columns_of([file]))) == 1


@settings(max_examples=examples(300), deadline=None)
@given(
    stats=JUNK,
    column=st.sampled_from([column for column in COLUMNS if column.place == "data"]),
    data=st.data(),
)
def test_no_statistics_raise(stats: Any, column: Column, data: st.DataObject):
    table = Table([column], mapped=False, utc_offset=0)
    predicate = sql_leaf(Drawing(data, [column]), column)
    document = {name: {column.name: stats} for name in ("minValues", "maxValues", "nullCount")}
    file = File({}, json.dumps(document | {"numRecords": stats}), None, [])
    assert len(table.compile(predicate, "sql").evaluate(columns_of([file, file]))) == 2
