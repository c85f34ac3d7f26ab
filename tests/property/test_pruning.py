"""Random rows in random partitions under random predicates, with the truth by brute force over the rows."""

import json
import math
import struct
from datetime import UTC, date, datetime, timedelta

from hypothesis import event, given, settings
from hypothesis import strategies as st

from core.pruning.hints import compile_hints

DAWN = datetime(2020, 1, 1, tzinfo=UTC)
SINGLE = struct.unpack("f", struct.pack("f", 0.1))[0]
POOLS: dict[str, list] = {
    "bool": [False, True],
    "int": [-(2**31), -1, 0, 1, 10, 2**31 - 1],
    "long": [-(2**63), -1, 0, 1, 10, 2**40],
    "string": ["a", "B", "b", "é", "\uffff", "\U00010000", " a", "10", "9"],
    "date": [date(1, 1, 1), date(2019, 12, 31), date(2020, 1, 1)],
    "float": [math.nan, math.inf, -1.5, -0.0, 0.0, SINGLE],
    "double": [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 1e300, 5e-324],
    "timestamp": [DAWN, DAWN + timedelta(microseconds=1), DAWN - timedelta(days=400)],
}
SCHEMA_TYPES = {"bool": "boolean", "int": "integer"}
PARTITION_COLUMNS = {f"p_{kind}": kind for kind in POOLS}
DATA_COLUMNS = {f"d_{kind}": kind for kind in POOLS}
COLUMNS = PARTITION_COLUMNS | DATA_COLUMNS
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": SCHEMA_TYPES.get(kind, kind), "nullable": True, "metadata": {}}
            for name, kind in COLUMNS.items()
        ],
    }
)
COMPARISONS = ["equal", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"]


def text_of(value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value)


def comparisons(columns: dict[str, str]) -> st.SearchStrategy[dict]:
    def of(name: str) -> st.SearchStrategy[dict]:
        kind = columns[name]
        column = {"op": "column", "name": name, "valueType": kind}
        shouted = column | {"name": name.upper()}
        literals = st.sampled_from(POOLS[kind]).map(
            lambda value: {"op": "literal", "value": text_of(value), "valueType": kind}
        )
        sides = st.tuples(st.sampled_from([column, shouted]), literals).flatmap(st.permutations)
        compared = st.builds(
            lambda op, children: {"op": op, "children": list(children)}, st.sampled_from(COMPARISONS), sides
        )
        is_null = st.just({"op": "isNull", "children": [column]})
        return compared | is_null | st.just(column) if kind == "bool" else compared | is_null

    return st.sampled_from(sorted(columns)).flatmap(of)


def predicates(leaves: st.SearchStrategy[dict]) -> st.SearchStrategy[dict]:
    def larger(operands: st.SearchStrategy[dict]) -> st.SearchStrategy[dict]:
        several = st.lists(operands, min_size=2, max_size=3)
        return st.one_of(
            st.builds(lambda operand: {"op": "not", "children": [operand]}, operands),
            st.builds(lambda op, children: {"op": op, "children": children}, st.sampled_from(["and", "or"]), several),
        )

    return st.recursive(leaves, larger, max_leaves=8)


def order(value):
    """Spark's order: NaN equals itself and comes last."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


def holds(node: dict, row: dict, mystery: bool | None) -> bool | None:
    """SQL's truth of a predicate for a row, None for null; `mystery` is that of what nobody knows."""
    children = node.get("children", [])
    match node["op"]:
        case "mystery":
            return mystery
        case "column":
            return row[node["name"].lower()]
        case "isNull":
            return row[children[0]["name"].lower()] is None
        case "not":
            truth = holds(children[0], row, mystery)
            return None if truth is None else not truth
        case "and" | "or" as op:
            truths = [holds(child, row, mystery) for child in children]
            decisive = op == "or"
            return decisive if decisive in truths else None if None in truths else not decisive
    left, right = (operand_value(child, row) for child in children)
    if left is None or right is None:
        return None
    left, right = order(left), order(right)
    return {
        "equal": left == right,
        "lessThan": left < right,
        "lessThanOrEqual": left <= right,
        "greaterThan": left > right,
        "greaterThanOrEqual": left >= right,
    }[node["op"]]


def operand_value(node: dict, row: dict):
    if node["op"] == "column":
        return row[node["name"].lower()]
    return next(value for value in POOLS[node["valueType"]] if text_of(value) == node["value"])


def rows(columns: dict[str, str]) -> st.SearchStrategy[dict]:
    return st.fixed_dictionaries({name: st.none() | st.sampled_from(POOLS[kind]) for name, kind in columns.items()})


PARTITIONS = rows(PARTITION_COLUMNS)
MYSTERIES = st.just({"op": "mystery", "children": [{"op": "column", "name": "p_int", "valueType": "int"}]})


def kept(predicate: dict, partition: dict, null: str | None) -> bool:
    may_match = compile_hints(json.dumps(predicate), schema_string=SCHEMA, partition_columns=list(PARTITION_COLUMNS))
    return may_match is None or may_match(
        {name: null if value is None else text_of(value) for name, value in partition.items()}
    )


@settings(max_examples=400, deadline=None)
@given(
    predicate=predicates(comparisons(COLUMNS) | comparisons(PARTITION_COLUMNS) | MYSTERIES),
    partition=PARTITIONS,
    data=st.lists(rows(DATA_COLUMNS), min_size=1, max_size=3),
    null=st.sampled_from([None, ""]),
)
def test_no_file_with_a_matching_row_is_dropped(predicate, partition, data, null):
    file_rows = [partition | row for row in data]
    matching = any(holds(predicate, row, mystery) is True for row in file_rows for mystery in (True, False, None))
    event(f"matching: {matching}")
    if matching:
        assert kept(predicate, partition, null)


@settings(max_examples=400, deadline=None)
@given(predicate=predicates(comparisons(PARTITION_COLUMNS)), partition=PARTITIONS, null=st.sampled_from([None, ""]))
def test_over_partition_columns_a_file_is_kept_only_if_its_rows_match(predicate, partition, null):
    matching = holds(predicate, partition, None) is True
    event(f"matching: {matching}")
    assert kept(predicate, partition, null) == matching


WORDS = st.sampled_from(["and", "not", "isNull", "column", "literal", "equal", "int", "p_int"])
KEYS = st.sampled_from(["op", "children", "name", "value", "valueType"])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner | WORDS),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200) | JUNK.map(json.dumps))
def test_no_text_whatever_raises(text):
    may_match = compile_hints(text, schema_string=SCHEMA, partition_columns=list(PARTITION_COLUMNS))
    if may_match is not None:
        may_match({"p_int": "1"})
