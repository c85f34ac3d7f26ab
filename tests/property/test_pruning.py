"""Random rows in random files under random predicates, with the truth by brute force over the rows."""

import json
import math
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from core.pruning.files import EVERY, SOME
from core.pruning.predicate import compile_predicate
from tests.property.pruning.kinds import order
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

# A profile (`--hypothesis-profile=nightly`) may ask for more.
EXAMPLES = max(300, settings().max_examples)
YEAR_1973 = 94_694_400_000_000
LEAVES = {"sql": sql_leaf, "json": json_leaf}


@pytest.mark.parametrize("language", LEAVES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(table=tables(COLUMNS), data=st.data())
def test_no_file_with_a_matching_row_is_left_out(language: str, table: Table, data: st.DataObject):
    drawing = Drawing(data, table.columns)
    files = [table.file(drawing, WRITERS) for _ in range(drawing.pick([1, 2, 3]))]
    predicate = drawing.tree(LEAVES[language])
    note(f"{predicate.sql}\n{predicate.json}\n{files}")
    verdicts = table.compile(predicate, language).evaluate(columns_of(files))
    for file, verdict in zip(files, verdicts, strict=True):
        truths = [predicate.truth(row, table.zone, mystery) for row in file.rows for mystery in (True, False, None)]
        event("some row matches" if True in truths else "no row matches")
        assert verdict & SOME or True not in truths
        assert not verdict & EVERY or set(truths) == {True}


def outcomes_in(file: File, leaf: Leaf, zone: int) -> set[Truth]:
    """Which truths a leaf may have, as exact statistics tell: the least and greatest value, and whether any is null."""
    column = leaf.column
    values = [row[column] for row in file.rows if row[column] is not None]
    has_null = len(values) < len(file.rows)
    if leaf.operator in ("IS NULL", "IS NOT NULL"):
        return {is_null == (leaf.operator == "IS NULL") for is_null in [True] * has_null + [False] * bool(values)}
    nulls: set[Truth] = {None} if has_null else set()
    if not values:
        return nulls
    if leaf.operator == "itself":
        return nulls | {*values}
    (operand,) = leaf.operands
    key = operand.key(zone)
    has_stats = column.place != "partition"
    if has_stats and column.kind.name in ("timestamp", "timestamp_ntz"):
        values += cut_off(values)
    may_be_nan = has_stats and column.kind.name in ("float", "double")
    numbers = [operand.of_column(value, zone) for value in values if not (may_be_nan and math.isnan(value))]
    if not numbers:  # then there are no statistics
        return nulls | of_range(leaf.operator, -math.inf, math.nan, key)
    of_nan = {compare(leaf.operator, math.nan, key)} if may_be_nan else set()
    return nulls | of_nan | of_range(leaf.operator, min(numbers, key=order), max(numbers, key=order), key)


def cut_off(times: list[int]) -> list[int]:
    """A whole millisecond may have been cut to one: from above, and before 1973 from either side."""
    least, greatest = min(times), max(times)
    below = [least - 999] if least % 1000 == 0 and least < YEAR_1973 else []
    return below + ([greatest + 999] if greatest % 1000 == 0 else [])


def of_range(operator: str, least: Any, greatest: Any, key: Any) -> set[Truth]:
    ends = {compare(operator, least, key), compare(operator, greatest, key)}
    inside = compare("<=", least, key) and compare("<=", key, greatest)
    return ends | {True} if operator == "=" and inside else ends


def test_a_file_whose_ranges_exclude_the_predicate_is_left_out(record_property):
    """With exact statistics, the verdict is at least what they tell of each comparison by itself."""
    without_a_match: Counter[bool] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(table=tables(EXACT_COLUMNS), data=st.data())
    def check(table: Table, data: st.DataObject) -> None:
        drawing = Drawing(data, table.columns)
        files = [table.file(drawing, [write_exactly], complete=True) for _ in range(2)]
        predicate = drawing.tree(exact_leaf)
        note(f"{predicate.sql}\n{files}")
        verdicts = table.compile(predicate, "sql").evaluate(columns_of(files))
        for file, verdict in zip(files, verdicts, strict=True):
            outcomes = predicate.outcomes(lambda leaf, file=file: outcomes_in(file, leaf, table.zone))
            assert not verdict & SOME or True in outcomes
            assert verdict & EVERY or outcomes != {True}
            if not any(predicate.truth(row, table.zone, None) for row in file.rows):
                without_a_match[bool(verdict & SOME)] += 1

    check()
    share = without_a_match[False] / without_a_match.total()
    report = f"{share:.1%} of {without_a_match.total()} files without a matching row were left out"
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


@settings(max_examples=300, deadline=None)
@given(text=TEXTS, stats=st.none() | st.text(max_size=50) | JUNK.map(json.dumps), partition=st.none() | st.text())
def test_no_text_whatever_raises(text: str, stats: str | None, partition: str | None):
    table = Table(COLUMNS, mapped=False, zone=0)
    for hints in (([text], None), ([], text)):
        predicate = compile_predicate(*hints, schema_string=table.schema_string, partition_columns=["partition_date"])
        if predicate is not None:
            file = File({"partition_date": partition}, stats, None, [])
            assert len(predicate.evaluate(columns_of([file]))) == 1


@settings(max_examples=300, deadline=None)
@given(
    stats=JUNK,
    column=st.sampled_from([column for column in COLUMNS if column.place == "data"]),
    data=st.data(),
)
def test_statistics_of_any_form_raise_nothing(stats: Any, column: Column, data: st.DataObject):
    table = Table([column], mapped=False, zone=0)
    predicate = sql_leaf(Drawing(data, [column]), column)
    forms = {name: {column.name: stats} for name in ("minValues", "maxValues", "nullCount")} | {"numRecords": stats}
    file = File({}, json.dumps(forms), None, [])
    assert len(table.compile(predicate, "sql").evaluate(columns_of([file, file]))) == 2
