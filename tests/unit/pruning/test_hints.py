import json
from collections.abc import Callable

import pytest

from core.pruning.hints import compile_hints

TYPES = {
    "day": "date",
    "country": "string",
    "year": "integer",
    "big": "long",
    "tiny": "byte",
    "active": "boolean",
    "score": "double",
    "ratio": "float",
    "moment": "timestamp",
    "price": "decimal(10,2)",
    "local": "timestamp_ntz",
    "a.b": "integer",
}


def field(name: str, kind: str, **metadata: str) -> dict:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


SCHEMA = json.dumps(
    {"type": "struct", "fields": [field("id", "long"), *(field(name, kind) for name, kind in TYPES.items())]}
)


def column(name: str, value_type: str) -> dict:
    return {"op": "column", "name": name, "valueType": value_type}


def literal(value, value_type: str) -> dict:
    return {"op": "literal", "value": value, "valueType": value_type}


def op(name: str, *children) -> dict:
    return {"op": name, "children": list(children)}


def compare(name: str, operator: str, value, value_type: str) -> dict:
    return op(operator, column(name, value_type), literal(value, value_type))


YEAR_2020 = compare("year", "equal", "2020", "int")
ID_7 = compare("id", "equal", "7", "long")
NONSENSE = op("startsWith", column("country", "string"), literal("D", "string"))


def compiled(hint, schema: str = SCHEMA) -> Callable | None:
    text = hint if isinstance(hint, str) else json.dumps(hint)
    return compile_hints(text, schema_string=schema, partition_columns=list(TYPES))


def keeps(hint, **partition: str | None) -> bool:
    may_match = compiled(hint)
    return may_match is None or may_match({name.replace("__", "."): text for name, text in partition.items()})


@pytest.mark.parametrize(
    ("operator", "kept"),
    [
        ("equal", ["2020"]),
        ("lessThan", ["2019"]),
        ("lessThanOrEqual", ["2019", "2020"]),
        ("greaterThan", ["2021"]),
        ("greaterThanOrEqual", ["2020", "2021"]),
    ],
)
def test_a_comparison_keeps_the_partitions_that_match(operator, kept):
    hint = compare("year", operator, "2020", "int")
    assert [year for year in ("2019", "2020", "2021") if keeps(hint, year=year)] == kept
    mirrored = op(operator, literal("2020", "int"), column("year", "int"))
    turned = {"2019": "2021", "2020": "2020", "2021": "2019"}
    assert [year for year in ("2021", "2020", "2019") if keeps(mirrored, year=year)] == [turned[y] for y in kept]


@pytest.mark.parametrize(
    ("name", "value_type", "low", "high"),
    [
        ("day", "date", "2019-12-31", "2020-01-01"),
        ("country", "string", "Z", "a"),
        ("country", "string", "\uffff", "\U00010000"),
        ("year", "int", "9", "10"),
        ("year", "integer", "-2", "-1"),
        ("year", "long", "9", "10"),
        ("big", "int", "9", "10"),
        ("big", "long", "9223372036854775806", "9223372036854775807"),
        ("tiny", "int", "9", "10"),
        ("active", "bool", "false", "true"),
        ("active", "boolean", "False", "TRUE"),
        ("score", "double", "-Infinity", "-1.0E300"),
        ("score", "double", "9.5", "1E1"),
        ("score", "double", "Infinity", "NaN"),
        ("ratio", "float", "0.1", "0.2"),
        ("moment", "timestamp", "2020-01-01T00:00:00.000001Z", "2020-01-01T00:00:00.000002Z"),
        ("moment", "timestamp", "2020-01-01T01:00:00+02:00", "2020-01-01T00:00Z"),
    ],
)
def test_values_compare_as_their_type_does(name, value_type, low, high):
    assert keeps(compare(name, "lessThan", high, value_type), **{name: low})
    assert not keeps(compare(name, "lessThan", low, value_type), **{name: high})
    assert not keeps(compare(name, "equal", low, value_type), **{name: high})
    assert keeps(compare(name, "equal", low, value_type), **{name: low})


@pytest.mark.parametrize(
    ("name", "value_type", "literal_text", "partition"),
    [
        ("score", "double", "NaN", "NaN"),
        ("score", "double", "0.0", "-0.0"),
        ("ratio", "float", "0.1", "0.10000000149011612"),
        ("ratio", "float", "Infinity", "1e39"),
        ("moment", "timestamp", "2020-01-01T02:00:00+02:00", "2020-01-01T00:00:00.000000Z"),
    ],
)
def test_different_texts_of_one_value_are_equal(name, value_type, literal_text, partition):
    assert keeps(compare(name, "equal", literal_text, value_type), **{name: partition})
    assert not keeps(op("not", compare(name, "equal", literal_text, value_type)), **{name: partition})


@pytest.mark.parametrize("null", [None, ""])
def test_null_matches_no_comparison_and_no_denied_one(null):
    assert not keeps(YEAR_2020, year=null)
    assert not keeps(op("not", YEAR_2020), year=null)
    assert keeps(op("isNull", column("year", "int")), year=null)
    assert not keeps(op("not", op("isNull", column("year", "int"))), year=null)
    assert not keeps(op("isNull", column("year", "int")), year="2020")
    assert keeps(op("or", YEAR_2020, op("isNull", column("year", "int"))), year=null)


def test_a_data_column_is_unknown():
    assert compiled(ID_7) is None
    assert compiled(op("not", ID_7)) is None
    assert keeps(op("and", YEAR_2020, ID_7), year="2020")
    assert not keeps(op("and", YEAR_2020, ID_7), year="2021")
    assert keeps(op("or", YEAR_2020, ID_7), year="2021")
    assert keeps(op("not", op("and", YEAR_2020, ID_7)), year="2020")
    assert not keeps(op("not", op("or", YEAR_2020, ID_7)), year="2020")


def test_what_is_not_understood_leaves_the_rest_in_force():
    assert keeps(op("and", YEAR_2020, NONSENSE), year="2020")
    assert not keeps(op("and", YEAR_2020, NONSENSE), year="2021")
    assert keeps(op("or", YEAR_2020, NONSENSE), year="2021")
    assert keeps(op("and", YEAR_2020, op("not", NONSENSE)), year="2020")


def test_a_boolean_column_or_literal_stands_for_itself():
    active = column("active", "bool")
    assert [keeps(active, active=text) for text in ("true", "false", None)] == [True, False, False]
    assert [keeps(op("not", active), active=text) for text in ("true", "false", None)] == [False, True, False]
    assert not keeps(op("and", active, literal("false", "bool")), active="true")
    assert keeps(op("and", op("isNull", active), column("year", "int")), active=None, year="1")


def test_a_list_of_hints_means_all_of_them():
    hints = [YEAR_2020, NONSENSE, compare("country", "equal", "DE", "string")]
    assert keeps(hints, year="2020", country="DE")
    assert not keeps(hints, year="2020", country="FR")
    assert compiled([]) is None


def test_two_columns_can_be_compared():
    hint = op("lessThan", column("year", "int"), column("big", "long"))
    assert keeps(hint, year="1", big="2")
    assert not keeps(hint, year="2", big="2")


def test_column_names_are_found_in_any_case():
    assert not keeps(compare("YEAR", "equal", "2020", "int"), year="2021")


@pytest.mark.parametrize(
    ("hint", "partition"),
    [
        (compare("year", "equal", "2020.0", "int"), {"year": "2021"}),
        (compare("year", "equal", " 2020", "int"), {"year": "2021"}),
        (compare("year", "equal", "٢٠٢٠", "int"), {"year": "2021"}),
        (compare("year", "equal", "2147483648", "int"), {"year": "2021"}),
        (compare("big", "equal", "9223372036854775808", "long"), {"big": "1"}),
        (compare("year", "equal", 2020, "int"), {"year": "2021"}),
        (compare("year", "equal", None, "int"), {"year": "2021"}),
        (compare("year", "equal", "2020", "string"), {"year": "2021"}),
        (compare("year", "equal", "2020", "decimal"), {"year": "2021"}),
        (compare("year", "equal", "2020", ["int"]), {"year": "2021"}),
        (compare("country", "equal", "5", "int"), {"country": "6"}),
        (compare("ratio", "equal", "0.1", "double"), {"ratio": "0.2"}),
        (compare("price", "equal", "1.00", "double"), {"price": "2.00"}),
        (compare("local", "equal", "2020-01-01T00:00:00Z", "timestamp"), {"local": "2021-01-01 00:00:00"}),
        (compare("moment", "equal", "2020-01-01T00:00:00Z", "timestamp"), {"moment": "2021-01-01 00:00:00"}),
        (compare("moment", "equal", "2020-01-01T00:00:00", "timestamp"), {"moment": "2021-01-01T00:00:00Z"}),
        (compare("day", "equal", "20200101", "date"), {"day": "2021-01-01"}),
        (compare("day", "equal", "2020-02-30", "date"), {"day": "2021-01-01"}),
        (compare("day", "equal", "2020-01-01", "date"), {"day": "10000-01-01"}),
        (compare("ratio", "equal", "1.00000005960464477540", "float"), {"ratio": "2"}),
        (compare("active", "equal", "yes", "bool"), {"active": "false"}),
        (compare("a.b", "equal", "1", "int"), {"a__b": "2"}),
        (compare("nowhere", "equal", "1", "int"), {"year": "2"}),
        (compare("year", "equal", "2020", "int"), {}),
        (op("equal", column("year", "int"), literal("true", "bool")), {"year": "2021"}),
        (op("equal", column("year", "int")), {"year": "2021"}),
        (op("equal", column("year", "int"), YEAR_2020), {"year": "2021"}),
        (op("isNull", YEAR_2020), {"year": "2021"}),
        (op("isNull", column("year", "int"), column("year", "int")), {"year": "2021"}),
        (op("not", YEAR_2020, YEAR_2020), {"year": "2020"}),
        (op("and", YEAR_2020), {"year": "2021"}),
        (op("or"), {"year": "2021"}),
        (op("AND", YEAR_2020, YEAR_2020), {"year": "2021"}),
        (column("year", "int"), {"year": "0"}),
        ({"op": "and", "children": {"0": YEAR_2020}}, {"year": "2021"}),
        ({"op": ["and"], "children": [YEAR_2020, YEAR_2020]}, {"year": "2021"}),
        ({"children": [YEAR_2020, YEAR_2020]}, {"year": "2021"}),
        ({"op": "column", "name": 7, "valueType": "int"}, {"year": "2021"}),
        ([[YEAR_2020]], {"year": "2021"}),
        ("7", {"year": "2021"}),
        ("null", {"year": "2021"}),
        ("{", {"year": "2021"}),
        ("", {"year": "2021"}),
        ('"\ud800"', {"year": "2021"}),
    ],
)
def test_what_is_not_understood_filters_nothing(hint, partition):
    assert keeps(hint, **partition)


def nested(depth: int) -> str:
    """A tree of this many levels that is false for a year other than 2020."""
    around = (depth - 2) // 2 * 2
    return '{"op":"not","children":[' * around + json.dumps(YEAR_2020) + "]}" * around


def test_a_tree_deeper_than_a_hundred_levels_is_no_hint():
    assert not keeps(nested(100), year="2021")
    assert keeps(nested(102), year="2021")
    assert keeps(nested(20_000), year="2021")


def test_a_text_of_more_than_a_mebibyte_is_no_hint():
    hint = json.dumps(YEAR_2020)
    assert not keeps(hint.ljust(1024 * 1024), year="2021")
    assert keeps(hint.ljust(1024 * 1024 + 1), year="2021")


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "[]",
        "{}",
        '{"fields":7}',
        '{"fields":[7]}',
        '{"fields":[{"name":"year"}]}',
        json.dumps({"fields": [field("year", "string")]}),
        json.dumps({"fields": [{"name": "year", "type": {"type": "struct", "fields": []}}]}),
    ],
)
def test_a_schema_that_does_not_know_the_column_filters_nothing(schema):
    assert compiled(YEAR_2020, schema) is None


@pytest.mark.parametrize("metadata", [{"__COLLATIONS": "x"}, {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}])
def test_strings_that_do_not_compare_by_their_bytes_filter_nothing(metadata):
    schema = json.dumps({"fields": [field("country", "string", **metadata)]})
    assert compiled(compare("country", "equal", "de", "string"), schema) is None


def test_no_hint_is_no_filter():
    assert compile_hints(None, schema_string=SCHEMA, partition_columns=["year"]) is None
    assert compile_hints(json.dumps(YEAR_2020), schema_string=SCHEMA, partition_columns=[]) is None


def test_a_hint_that_would_take_longer_than_it_saves_is_not_used_to_its_end():
    """The work is bounded: partitions beyond it are kept, so no row is lost by it."""
    costly = op("or", *(compare("year", "equal", str(number), "int") for number in range(4000)))
    may_match = compiled(costly)
    assert not may_match({"year": "5000"})
    kept = [may_match({"year": str(10_000 + number)}) for number in range(500)]
    assert not kept[0]
    assert kept[-1]


def test_a_hint_of_more_parts_than_can_be_visited_once_is_none():
    parts = ",".join(["1"] * 500_000)
    assert compiled(f'{{"op":"or","children":[{json.dumps(YEAR_2020)},{parts}]}}') is None
