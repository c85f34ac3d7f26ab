"""JSON hints of DuckDB's client, which declares columns as `string` or `int`, whatever their type."""

import json
import subprocess
import sys

import pytest

from core.pruning.predicate import compile_predicate
from tests.unit.pruning.support import Table, column, columns_of, in_partition, literal, op, with_stats

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
    "local": "timestamp_ntz",
    "price": "decimal(10,2)",
    "cost": "decimal(38,10)",
    "fine": "decimal(38,30)",
    "share": "decimal(4,4)",
    "string": "boolean",
}
TABLE = Table(TYPES, tuple(TYPES))


def comparison(name: str, operator: str, text: str, value_type: str, declared: str = "string") -> dict:
    return op(operator, column(name, declared), literal(text, value_type))


def keeps(hint, **partition: str | None) -> bool:
    return TABLE.keeps(hint, in_partition(**partition))


@pytest.mark.parametrize("declared", ["string", "int"])
@pytest.mark.parametrize(
    ("name", "value_type", "low", "high"),
    [
        ("day", "string", "2019-12-31", "2020-01-01"),
        ("year", "int", "9", "10"),
        ("year", "string", "9", "10"),
        ("tiny", "int", "-9", "10"),
        ("big", "int", "9", "5000000000"),
        ("big", "string", "-5000000000", "9"),
        ("active", "int", "false", "true"),
        ("active", "string", "false", "true"),
        ("score", "int", "9.5", "10.25"),
        ("score", "int", "-1e+300", "0.30000000000000004"),
        ("score", "int", "9", "10"),
        ("score", "int", "5000000000", "5000000001"),
        ("score", "int", "-inf", "inf"),
        ("score", "int", "inf", "nan"),
        ("score", "string", "9.5", "10.25"),
        ("ratio", "int", "0.25", "0.5"),
        ("ratio", "string", "9.5", "10.25"),
        ("price", "string", "9.50", "10.25"),
        ("price", "int", "9.5", "10.25"),
        ("price", "int", "9", "10"),
        ("cost", "string", "9.5", "10.25"),
        ("cost", "int", "9", "10"),
        ("moment", "string", "2020-01-01 00:00:00", "2020-01-03 00:00:00.5"),
        ("moment", "string", "2020-01-01T00:00:00+02:00", "2020-01-01T00:00:00Z"),
        ("local", "string", "2020-01-01 00:00:00", "2020-01-01 00:00:00.000001"),
    ],
)
def test_a_literal_is_read_by_the_type_of_its_column(declared, name, value_type, low, high):
    for one, other in ((low, high), (high, low)):
        assert keeps(comparison(name, "equal", one, value_type, declared), **{name: one})
        assert not keeps(comparison(name, "equal", one, value_type, declared), **{name: other})
    assert keeps(comparison(name, "lessThan", high, value_type, declared), **{name: low})
    assert not keeps(comparison(name, "lessThan", low, value_type, declared), **{name: high})
    mirrored = op("lessThan", literal(high, value_type), column(name, declared))
    assert not keeps(mirrored, **{name: low})


@pytest.mark.parametrize("operator", ["equal", "lessThan", "greaterThanOrEqual"])
@pytest.mark.parametrize(
    ("name", "value_type", "text", "partition"),
    [
        ("country", "int", "7", "07"),
        ("country", "int", "10", "9"),
        ("year", "int", "1.5", "2"),
        ("year", "int", "2020.0", "2021"),
        ("year", "string", "1.5", "2"),
        ("year", "string", "2147483648", "2"),
        ("year", "string", " 7", "8"),
        ("year", "string", "1,000", "8"),
        ("year", "string", "1_000", "8"),
        ("year", "string", "0x10", "8"),
        ("year", "string", "\u0667", "8"),
        ("year", "string", "NULL", "8"),
        ("year", "int", "true", "8"),
        ("active", "int", "1", "false"),
        ("active", "string", "t", "false"),
        ("score", "string", "1,5", "8"),
        ("score", "int", "true", "8"),
        ("score", "int", "1e400", "8"),
        ("score", "int", "1e-400", "8"),
        ("score", "string", "0.3000000000000000444", "0.3"),
        ("score", "string", "0.00000000000000000000000001", "1.0E-26"),
        ("score", "int", "9223372036854775808", "9.0E18"),
        ("price", "string", "9.505", "9.51"),
        ("price", "string", "123456789.00", "9.51"),
        ("price", "string", "one", "9.51"),
        ("cost", "int", "9.5", "9.4"),
        ("cost", "string", "1e40", "9.4"),
        ("fine", "int", "5", "4.99999"),
        ("share", "string", "0.0", "0.1"),
        ("day", "string", "01/02/2020", "2020-02-01"),
        ("day", "string", "2020-1-1", "2020-02-01"),
        ("day", "string", "2020-01-01 12:00:00", "2020-02-01"),
        ("day", "string", "2020-02-30", "2020-02-01"),
        ("day", "string", "0044-03-15 (BC)", "2020-02-01"),
        ("day", "int", "20200101", "2020-02-01"),
        ("day", "string", "infinity", "2020-02-01"),
        ("moment", "string", "2020-01-01 00:00:00.123456789", "2021-01-01 00:00:00"),
        ("moment", "string", "2020-01-01 00:00:00 Europe/Berlin", "2021-01-01 00:00:00"),
        ("moment", "string", "now", "2021-01-01 00:00:00"),
        ("local", "string", "2020-01-01 00:00:00+02:00", "2021-01-01 00:00:00"),
        ("local", "string", "2020-01-01 00:00:00.1234567", "2021-01-01 00:00:00"),
        ("nowhere", "string", "1", "2"),
    ],
)
def test_a_text_without_exactly_one_meaning_skips_nothing(operator, name, value_type, text, partition):
    hint = comparison(name, operator, text, value_type)
    assert keeps(hint, **{name: partition})
    assert keeps(op("not", hint), **{name: partition})
    assert not TABLE.matches_every_row(hint, in_partition(**{name: partition}))


def test_a_string_column_is_compared_as_a_string():
    for text in ("10", "2020-01-01", "true", "1.5"):
        assert keeps(comparison("country", "equal", text, "string"), country=text)
        assert not keeps(comparison("country", "equal", text, "string"), country=f"0{text}")
    assert not keeps(comparison("country", "greaterThan", "9", "string"), country="10")
    assert keeps(comparison("country", "lessThan", "9", "string"), country="10")


def test_a_string_column_that_is_declared_as_an_int_is_ignored():
    for hint in (comparison("country", "equal", "5", "string", "int"), op("isNull", column("country", "int"))):
        assert keeps(hint, country="6")


def test_a_float_as_text_may_be_rounded_or_not():
    """A float constant 0.1 has the text of the double 0.1, but is greater."""
    for operator in ("equal", "greaterThan", "lessThanOrEqual"):
        hint = comparison("score", operator, "0.1", "int")
        for text in ("0.1", "0.10000000149011612"):
            assert keeps(hint, score=text) or (operator, text) == ("greaterThan", "0.1")
            assert keeps(op("not", hint), score=text) or (operator, text) == ("lessThanOrEqual", "0.1")
    assert not keeps(comparison("score", "equal", "0.1", "int"), score="0.2")


def test_a_null_check_does_not_depend_on_the_declared_type():
    for name in TYPES:
        is_null = op("isNull", column(name, "string"))
        assert keeps(is_null, **{name: None})
        assert not keeps(op("not", is_null), **{name: None})
    assert not Table({"c": "binary"}).keeps(op("isNull", column("c", "string")), with_stats(None, None, 0))
    assert not Table({"c": "long"}).keeps(op("isNull", column("c", "string")), with_stats(1, 2, 0))


def test_a_part_that_the_client_cannot_express_is_unknown():
    """The client sends null or an empty object for an expression that it does not translate, such as a function."""
    year = comparison("year", "equal", "2020", "int")
    for missing in (None, {}):
        for part in (
            missing,
            op("equal", column("year", "string"), missing),
            op("not", missing),
            op("isNull", missing),
        ):
            assert keeps(op("and", year, part), year="2020")
            assert not keeps(op("and", year, part), year="2021")
            assert keeps(op("or", year, part), year="2021")
            assert keeps(part, year="2021")


def test_or_of_texts_is_a_list_of_values():
    hint = op("or", *(comparison("day", "equal", f"2020-01-0{day}", "string") for day in (1, 3)))
    assert [day for day in range(1, 5) if keeps(hint, day=f"2020-01-0{day}")] == [1, 3]
    assert keeps(op("or", hint, comparison("day", "equal", "soon", "string")), day="2020-01-02")


def test_two_columns_are_compared_if_they_have_the_same_type():
    assert not keeps(op("lessThan", column("year", "string"), column("big", "string")), year="10", big="9")
    assert keeps(op("lessThan", column("year", "string"), column("big", "string")), year="9", big="10")
    assert keeps(op("lessThan", column("year", "string"), column("country", "string")), year="9", country="10")


def test_an_entry_in_the_map_of_partition_values_is_a_string():
    """Without a CAST, clients that know this map compare its texts: the text 10 is less than 9."""
    assert keeps(comparison("partitionValues.year", "lessThan", "9", "string"), year="10")
    assert not keeps(comparison("partitionValues.country", "lessThan", "9", "string"), country="a")


def test_statistics_prune_by_texts_too():
    table = Table({"c": "double"})
    assert not table.keeps(comparison("c", "lessThan", "1.5", "int"), with_stats(1.5, 9.0, 0))
    assert table.keeps(comparison("c", "lessThan", "1.75", "int"), with_stats(1.5, 9.0, 0))


def test_the_placeholder_among_sql_hints_is_no_predicate():
    """Not even for a boolean column of this name."""
    assert TABLE.compile("string") is None
    predicate = TABLE.compile("string", comparison("year", "equal", "2020", "int"))
    files = [in_partition(year=year, string=text) for year in ("2020", "2021") for text in ("false", "true")]
    assert [value & 1 for value in predicate.evaluate(columns_of(files))] == [1, 1, 0, 0]
    assert [note.text for note in predicate.notes] == ["year = 2020"]
    assert not keeps("`string`", string="false")


def test_the_placeholder_does_not_import_the_sql_parser():
    code = """
import sys
from core.pruning.predicate import compile_predicate
compile_predicate(["string"], "{}", schema_string="{}", partition_columns=[])
assert not [name for name in sys.modules if name.startswith("sqlglot")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_note_names_the_reason():
    predicate = compile_predicate(
        [],
        json.dumps(comparison("year", "equal", "1.5", "int")),
        schema_string=TABLE.schema_string,
        partition_columns=[],
    )
    (note,) = predicate.notes
    assert note.ignored_because == "the literal has no exact meaning for a column of type integer"
