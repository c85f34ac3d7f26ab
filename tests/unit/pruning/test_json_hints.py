import json

import pytest

from core.pruning.predicate import compile_predicate
from tests.unit.pruning.support import File, Table, column, columns_of, compare, in_partition, literal, op, with_stats

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
}
TABLE = Table({"id": "long", **TYPES}, tuple(TYPES))

YEAR_2020 = compare("year", "equal", "2020", "int")
ID_7 = compare("id", "equal", "7", "long")
UNSUPPORTED = op("startsWith", column("country", "string"), literal("D", "string"))


def keeps(hint, **partition: str | None) -> bool:
    return TABLE.keeps(hint, in_partition(**partition))


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
    opposite = {"2019": "2021", "2020": "2020", "2021": "2019"}
    assert [year for year in ("2021", "2020", "2019") if keeps(mirrored, year=year)] == [opposite[y] for y in kept]


@pytest.mark.parametrize(
    ("name", "value_type", "low", "high"),
    [
        ("day", "date", "2019-12-31", "2020-01-01"),
        ("day", "date", "9999-12-31", "+10000-01-01"),
        ("day", "date", "-0001-12-31", "0000-01-01"),
        ("day", "date", "1969-12-31", "1970-01-01"),
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
        ("score", "double", "-inf", "inf"),
        ("ratio", "float", "0.25", "0.5"),
        ("moment", "timestamp", "2020-01-01T00:00:00.000001Z", "2020-01-01T00:00:00.000002Z"),
        ("moment", "timestamp", "2020-01-01T01:00:00+02:00", "2020-01-01T00:00Z"),
    ],
)
def test_values_are_compared_by_type(name, value_type, low, high):
    assert keeps(compare(name, "lessThan", high, value_type), **{name: low})
    assert not keeps(compare(name, "lessThan", low, value_type), **{name: high})
    assert not keeps(compare(name, "equal", low, value_type), **{name: high})
    assert keeps(compare(name, "equal", low, value_type), **{name: low})


@pytest.mark.parametrize(
    ("name", "value_type", "literal_text", "partition"),
    [
        ("score", "double", "NaN", "NaN"),
        ("score", "double", "0.0", "-0.0"),
        ("ratio", "float", "Infinity", "inf"),
        ("moment", "timestamp", "2020-01-01T02:00:00+02:00", "2020-01-01T00:00:00.000000Z"),
    ],
)
def test_different_spellings_of_a_value_are_equal(name, value_type, literal_text, partition):
    assert keeps(compare(name, "equal", literal_text, value_type), **{name: partition})
    assert not keeps(op("not", compare(name, "equal", literal_text, value_type)), **{name: partition})


def test_a_float_literal_may_be_rounded_or_not():
    """Spark compares 0.1 with a float as a float, but some readers compare it as a double."""
    for operator in ("equal", "greaterThan", "lessThanOrEqual"):
        assert keeps(compare("ratio", operator, "0.1", "float"), ratio="0.1")
        assert keeps(op("not", compare("ratio", operator, "0.1", "float")), ratio="0.1")
    assert not keeps(compare("ratio", "equal", "0.1", "float"), ratio="0.2")
    assert not keeps(compare("ratio", "lessThan", "0.1", "float"), ratio="0.2")


@pytest.mark.parametrize("null", [None, ""])
def test_null_matches_neither_a_comparison_nor_its_negation(null):
    assert not keeps(YEAR_2020, year=null)
    assert not keeps(op("not", YEAR_2020), year=null)
    assert keeps(op("isNull", column("year", "int")), year=null)
    assert not keeps(op("not", op("isNull", column("year", "int"))), year=null)
    assert not keeps(op("isNull", column("year", "int")), year="2020")
    assert keeps(op("or", YEAR_2020, op("isNull", column("year", "int"))), year=null)


@pytest.mark.parametrize("text", ["", "__HIVE_DEFAULT_PARTITION__"])
def test_the_text_for_null_may_be_a_string_value(text):
    """deltalake writes an empty string as "" and reads it back as a string."""
    assert keeps(op("isNull", column("country", "string")), country=text)
    assert keeps(op("not", op("isNull", column("country", "string"))), country=text)
    assert keeps(compare("country", "equal", text, "string"), country=text)
    assert not keeps(compare("country", "equal", "x", "string"), country=text)


def test_a_data_column_without_statistics_is_unknown():
    assert keeps(ID_7)
    assert keeps(op("not", ID_7))
    assert keeps(op("and", YEAR_2020, ID_7), year="2020")
    assert not keeps(op("and", YEAR_2020, ID_7), year="2021")
    assert keeps(op("or", YEAR_2020, ID_7), year="2021")
    assert keeps(op("not", op("and", YEAR_2020, ID_7)), year="2020")
    assert not keeps(op("not", op("or", YEAR_2020, ID_7)), year="2020")


def test_the_other_parts_of_an_unknown_hint_still_prune():
    assert keeps(op("and", YEAR_2020, UNSUPPORTED), year="2020")
    assert not keeps(op("and", YEAR_2020, UNSUPPORTED), year="2021")
    assert keeps(op("or", YEAR_2020, UNSUPPORTED), year="2021")
    assert keeps(op("and", YEAR_2020, op("not", UNSUPPORTED)), year="2020")


def test_a_boolean_column_or_literal_is_a_predicate():
    active = column("active", "bool")
    assert [keeps(active, active=text) for text in ("true", "false", None)] == [True, False, False]
    assert [keeps(op("not", active), active=text) for text in ("true", "false", None)] == [False, True, False]
    assert not keeps(op("and", active, literal("false", "bool")), active="true")
    assert keeps(op("and", op("isNull", active), column("year", "int")), active=None, year="1")


def test_a_list_of_hints_is_joined_by_and():
    hints = [YEAR_2020, UNSUPPORTED, compare("country", "equal", "DE", "string")]
    assert keeps(hints, year="2020", country="DE")
    assert not keeps(hints, year="2020", country="FR")
    assert keeps([], year="2021")


def test_two_columns_can_be_compared():
    hint = op("lessThan", column("year", "int"), column("big", "long"))
    assert keeps(hint, year="1", big="2")
    assert not keeps(hint, year="2", big="2")
    assert not keeps(hint, year="1", big=None)
    assert not keeps(op("not", hint), year="1", big="2")
    with_id = op("lessThan", column("id", "long"), column("big", "long"))
    assert TABLE.keeps(with_id, File({"big": "2"}, '{"minValues":{"id":1},"maxValues":{"id":9}}'))
    assert not TABLE.keeps(with_id, File({"big": "1"}, '{"minValues":{"id":1},"maxValues":{"id":9}}'))


def test_sql_and_json_hints_are_joined_by_and():
    predicate = TABLE.compile("country = 'DE'", YEAR_2020)
    files = [in_partition(year=year, country=country) for year in ("2020", "2021") for country in ("DE", "FR")]
    assert [value & 1 for value in predicate.evaluate(columns_of(files))] == [1, 0, 0, 0]


def test_a_name_with_a_dot_is_a_struct_field_or_a_column_unless_ambiguous():
    struct = {"type": "struct", "fields": [{"name": "b", "type": "long"}]}
    nested_stats = File({}, json.dumps({"minValues": {"a": {"b": 1}}, "maxValues": {"a": {"b": 1}}}))
    flat_stats = File({}, json.dumps({"minValues": {"a.b": 1}, "maxValues": {"a.b": 1}}))
    hint = compare("A.b", "equal", "2", "long")
    assert not Table({"a": struct}).keeps(hint, nested_stats)
    assert not Table({"a.b": "long"}).keeps(hint, flat_stats)
    assert Table({"a": struct, "a.b": "long"}).keeps(hint, nested_stats)
    assert Table({"a": struct, "a.b": "long"}).keeps(hint, flat_stats)


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
        (compare("year", "equal", "2020.5", "string"), {"year": "2021"}),
        (compare("year", "equal", "2020-01-01", "date"), {"year": "2021"}),
        (compare("year", "equal", "2020", "decimal"), {"year": "2021"}),
        (compare("year", "equal", "2020", ["int"]), {"year": "2021"}),
        (compare("country", "equal", "5", "int"), {"country": "6"}),
        (compare("ratio", "equal", "0.1", "double"), {"ratio": "0.2"}),
        (compare("price", "equal", "1.00", "double"), {"price": "2.00"}),
        (compare("local", "equal", "2020-01-01T00:00:00Z", "timestamp"), {"local": "2021-01-01 00:00:00"}),
        (compare("day", "equal", "20200101", "date"), {"day": "2021-01-01"}),
        (compare("day", "equal", "2020-02-30", "date"), {"day": "2021-01-01"}),
        (compare("day", "equal", "2020-01-01", "date"), {"day": "2021-1-1"}),
        (compare("active", "equal", "yes", "bool"), {"active": "false"}),
        (compare("nowhere", "equal", "1", "int"), {"year": "2"}),
        (compare("year", "equal", "2020", "int"), {}),
        (compare("year", "equal", "2020", "int"), {"year": "twenty"}),
        (op("isNull", column("year", "int")), {"year": "twenty"}),
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
        (7, {"year": "2021"}),
        (None, {"year": "2021"}),
    ],
)
def test_an_unknown_hint_skips_nothing(hint, partition):
    assert keeps(hint, **partition)


@pytest.mark.parametrize("text", ["{", "x", '"\\ud800"', "[", "\0", "NaN"])
def test_invalid_json_skips_nothing(text):
    predicate = compile_predicate([], text, schema_string=TABLE.schema_string, partition_columns=["year"])
    assert not predicate.uses_partitions
    assert not predicate.uses_stats
    assert [note.ignored_because for note in predicate.notes] == ["it is not valid JSON"]


def test_without_hints_there_is_no_predicate():
    for no_json in (None, ""):
        assert compile_predicate([], no_json, schema_string="{}", partition_columns=[]) is None


def test_statistics_prune_too():
    table = Table({"c": "long"})
    assert not table.keeps(compare("c", "greaterThan", "9", "long"), with_stats(1, 9))
    assert table.keeps(compare("c", "greaterThanOrEqual", "9", "long"), with_stats(1, 9))
