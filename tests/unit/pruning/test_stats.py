"""Statistics of real and faulty writers: pruning relies on a bound only as far as its writer guarantees it."""

import json

import pytest

from tests.unit.pruning.support import DeletionVector, File, Table, columns_of, with_stats


def keeps(data_type: str, hint: str, file: File, **metadata) -> bool:
    return Table({"c": data_type}, metadata={"c": metadata}).keeps(hint, file)


def matches_every_row(data_type: str, hint: str, file: File) -> bool:
    return Table({"c": data_type}).matches_every_row(hint, file)


@pytest.mark.parametrize(
    ("data_type", "low", "high", "below", "inside", "above"),
    [
        ("byte", 1, 5, "0", "3", "6"),
        ("short", -5, 5, "-6", "0", "6"),
        ("integer", 1, 5, "0.5", "5", "5.5"),
        ("long", 2**53, 2**53 + 2, "9007199254740991", "9007199254740993", "9007199254740995"),
        ("double", 0.1, 0.3, "0.09", "0.2", "0.30000000000000004"),
        ("float", 0.25, 0.5, "0.2", "0.3", "0.6"),
        ("decimal(10,2)", 1.1, 2.25, "1.09", "1.10", "2.26"),
        ("string", "b", "d", "'a'", "'cat'", "'da'"),
        ("boolean", False, False, "'x'", "false", "true"),
        ("date", "1969-12-31", "2024-02-29", "'1969-12-30'", "'1970-01-01'", "'2024-03-01'"),
        (
            "timestamp",
            "2024-01-01T00:00:00.000-08:00",
            "2024-01-01T09:00:00.000Z",
            "'2024-01-01T07:59:59.999999Z'",
            "'2024-01-01T09:00:00.000999Z'",
            "'2024-01-01T09:00:00.001Z'",
        ),
        (
            "timestamp_ntz",
            "2024-01-01T00:00:00.000",
            "2024-01-01 09:00:00.000",
            "'2023-12-31 23:59:59.999999'",
            "'2024-01-01 09:00:00.000999'",
            "'2024-01-01 09:00:00.001'",
        ),
    ],
)
def test_values_inside_the_range_keep_the_file_and_others_skip_it(data_type, low, high, below, inside, above):
    file = with_stats(low, high, 0)
    assert keeps(data_type, f"c = {inside}", file)
    assert not keeps(data_type, f"c = {above}", file)
    if below != "'x'":
        assert not keeps(data_type, f"c = {below}", file)
        assert not keeps(data_type, f"c <= {below}", file)
        assert matches_every_row(data_type, f"c > {below}", file)
    if data_type not in ("float", "double"):
        assert not keeps(data_type, f"c >= {above}", file)
        assert matches_every_row(data_type, f"c < {above}", file)


def test_a_truncated_maximum_is_a_prefix():
    file = with_stats("a", "b" * 32)
    assert keeps("string", f"c > '{'b' * 40}'", file)
    assert keeps("string", f"c = '{'b' * 32}zebra'", file)
    assert not keeps("string", f"c >= '{'b' * 30}c'", file)


def test_a_string_truncated_by_bytes_is_a_prefix():
    """deltalake truncates to 64 bytes, which are 32 or 16 of these characters."""
    assert keeps("string", f"c > '{'é' * 40}'", with_stats("a", "é" * 32))
    assert keeps("string", f"c > '{'😀' * 40}'", with_stats("a", "😀" * 16))
    assert keeps("string", f"c > '{'é' * 40}'", with_stats("a", "é" * 16))


def test_a_maximum_that_ends_with_sparks_replacement_character_is_a_prefix():
    assert keeps("string", f"c > '{'b' * 32}😀'", with_stats("a", "b" * 32 + "\ufffd"))


def test_a_minimum_truncated_inside_a_character_is_a_prefix():
    assert keeps("string", f"c = '{'b' * 31}é'", with_stats("b" * 31 + "\ufffd", "c"))


def test_a_maximum_truncated_inside_a_character_is_a_prefix():
    """Java writes a question mark for half a surrogate pair."""
    assert keeps("string", f"c = '{'b' * 31}😀'", with_stats("a", "b" * 31 + "?\ufffd"))
    assert keeps("string", f"c = '{'b' * 31}😀'", with_stats("a", "b" * 31 + "?"))


def test_a_short_maximum_with_a_replacement_character_is_a_prefix():
    """The prefix length of Spark is configurable."""
    assert keeps("string", "c = 'abc😀'", with_stats("a", "abc\ufffd"))
    assert not keeps("string", "c = 'abe'", with_stats("a", "abc\ufffd"))


def test_a_truncated_maximum_of_the_last_character_is_unbounded():
    assert keeps("string", "c > 'z'", with_stats("a", "\U0010ffff" * 32))
    assert not keeps("string", f"c > '{'b' * 32}'", with_stats("a", "a" + "\U0010ffff" * 40))


def test_a_string_that_is_not_truncated_is_exact():
    assert not keeps("string", f"c > '{'b' * 31}'", with_stats("a", "b" * 31))


def test_the_maximum_of_a_time_is_truncated_to_its_last_digit():
    for text, inside, outside in [
        ("2024-01-01T00:00:00.123Z", "2024-01-01T00:00:00.123999Z", "2024-01-01T00:00:00.124Z"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.999999Z", "2024-01-01T00:00:01Z"),
        ("2024-01-01T00:00:00+0000", "2024-01-01T00:00:00.999999Z", "2024-01-01T00:00:01Z"),
        ("2024-01-01T00:00:00.123456Z", "2024-01-01T00:00:00.123456Z", "2024-01-01T00:00:00.123457Z"),
        ("2024-01-01T00:00:00.123000Z", "2024-01-01T00:00:00.123999Z", "2024-01-01T00:00:00.124Z"),
        ("2024-01-01T00:00:00.123000+0000", "2024-01-01T00:00:00.123999Z", "2024-01-01T00:00:00.124Z"),
        ("2024-01-01T00:00Z", "2024-01-01T00:00:59.999999Z", "2024-01-01T00:01:00Z"),
        ("2024-01-01T00:00:00.12Z", "2024-01-01T00:00:00.129999Z", "2024-01-01T00:00:00.13Z"),
    ]:
        file = with_stats("2020-01-01T00:00:00.000Z", text)
        assert keeps("timestamp", f"c >= '{inside}'", file)
        assert not keeps("timestamp", f"c >= '{outside}'", file)


def test_a_time_before_1970_may_be_rounded_either_way():
    file = with_stats("1969-12-31T23:59:59.500Z", "2020-01-01T00:00:00.000Z")
    assert keeps("timestamp", "c < '1969-12-31T23:59:59.499500Z'", file)
    assert not keeps("timestamp", "c < '1969-12-31T23:59:59.499Z'", file)


def test_old_utc_offsets_may_have_unwritten_seconds():
    """Los Angeles was 7:52:58 behind UTC until 1883, but Spark writes -07:52."""
    file = with_stats("1883-01-01T00:00:00.000-07:52", "1883-01-01T00:00:00.000-07:52")
    assert keeps("timestamp", "c = '1883-01-01T07:52:58Z'", file)
    assert not keeps("timestamp", "c > '1883-01-01T07:53:01Z'", file)


def test_a_time_without_a_time_zone_may_be_in_any_time_zone():
    file = with_stats("2024-01-02 00:00:00.000", "2024-01-02 00:00:00.000")
    assert keeps("timestamp", "c < '2024-01-01T06:00:01Z'", file)
    assert not keeps("timestamp", "c < '2024-01-01T06:00:00Z'", file)
    assert keeps("timestamp_ntz", "c = '2024-01-02 00:00:00'", with_stats(*["2024-01-02T00:00:00.000+05:00"] * 2))
    assert keeps("timestamp_ntz", "c = '2024-01-01 19:00:00'", with_stats(*["2024-01-02T00:00:00.000+05:00"] * 2))


def test_years_after_9999_are_in_order():
    file = with_stats("9999-12-31", "+10000-01-02")
    assert keeps("date", "c = '+10000-01-01'", file)
    assert not keeps("date", "c > '+10000-01-02'", file)
    file = with_stats("+10000-01-01T00:00:00.000Z", "+10000-01-01T00:00:00.000Z")
    assert not keeps("timestamp", "c < '2024-01-01T00:00:00Z'", file)


def test_the_bound_of_a_decimal_is_a_rounded_double():
    """deltalake writes 1.2345678901234567e+19, which is less than the actual maximum."""
    file = File({}, '{"numRecords":1,"minValues":{"c":1.1},"maxValues":{"c":1.2345678901234567e+19}}')
    assert keeps("decimal(22,2)", "c = 12345678901234567890.12", file)
    assert not keeps("decimal(22,2)", "c > 12345678901334567890", file)
    assert keeps("decimal(22,2)", "c = 1.10", file)
    assert not keeps("decimal(22,2)", "c < 1.10", file)


@pytest.mark.parametrize("bound", ["1.10", "1.1", '"1.10"', "1.10000000000000000"])
def test_a_decimal_of_few_digits_is_exact_in_every_notation(bound):
    file = File({}, f'{{"minValues":{{"c":{bound}}},"maxValues":{{"c":{bound}}},"nullCount":{{"c":0}}}}')
    assert matches_every_row("decimal(10,2)", "c = 1.1", file)
    assert not keeps("decimal(10,2)", "c > 1.1", file)
    assert not keeps("decimal(10,2)", "c < 1.1", file)


def test_a_large_whole_number_of_a_decimal_may_be_a_rounded_double():
    file = File({}, '{"minValues":{"c":0},"maxValues":{"c":12345678901234567000}}')
    assert keeps("decimal(20,0)", "c = 12345678901234567890", file)


def test_nan_is_greater_than_every_number_and_missing_from_statistics():
    file = with_stats(1.0, 3.0, 0)
    for data_type in ("float", "double"):
        assert keeps(data_type, "c > 5", file)
        assert keeps(data_type, "NOT c <= 5", file)
        assert keeps(data_type, "c <> 2", with_stats(2.0, 2.0, 0))
        assert keeps(data_type, "c = 'NaN'", file)
        assert keeps(data_type, "c IN (7, CAST('NaN' AS DOUBLE))", file)
        assert not keeps(data_type, "c < 1", file)
        assert not keeps(data_type, "c = 5", file)
        assert not keeps(data_type, "c IN (5, 6)", file)
        assert not keeps(data_type, "NOT c > 0.5", file)
        assert not matches_every_row(data_type, "c < 5", file)
        assert matches_every_row(data_type, "c >= 1", file)


def test_nan_does_not_satisfy_both_ends_of_a_range():
    file = with_stats(1.0, 3.0, 0)
    for hint in ("c BETWEEN 5 AND 9", "c > 5 AND c IS NOT NULL AND 9 > c", "c >= 5 AND c = 7"):
        assert not keeps("double", hint, file)
        assert not keeps("float", f"NOT (NOT ({hint}))", file)
    assert keeps("double", "c BETWEEN 5 AND CAST('NaN' AS DOUBLE)", file)
    assert keeps("double", "c NOT BETWEEN 1 AND 3", file)
    assert matches_every_row("double", "c BETWEEN 1 AND CAST('NaN' AS DOUBLE)", file)
    assert not matches_every_row("double", "c BETWEEN 1 AND 3", file)


@pytest.mark.parametrize("bound", ['"NaN"', "null", '"x"', "{}", "[1]", "true"])
def test_an_invalid_bound_is_ignored(bound):
    file = File({}, f'{{"numRecords":3,"minValues":{{"c":{bound}}},"maxValues":{{"c":{bound}}}}}')
    for data_type in ("float", "double", "long", "decimal(4,2)", "timestamp", "date"):
        assert keeps(data_type, "c < '2024-01-01' OR c < 5", file)


def test_infinite_bounds_are_used():
    file = with_stats("-Infinity", "Infinity", 0)
    assert keeps("double", "c = 'Infinity'", file)
    assert keeps("double", "c = '-Infinity'", file)
    assert not keeps("double", "c < '-Infinity'", file)


def test_negative_zero_equals_zero():
    assert keeps("double", "c = 0.0", with_stats(-0.0, -0.0, 0))
    assert not keeps("double", "c < 0.0", with_stats(-0.0, -0.0, 0))


def test_the_bound_of_a_float_is_the_nearest_float():
    """For the same float, Spark writes 0.1 and deltalake 0.10000000149011612."""
    for bound in (0.1, 0.10000000149011612):
        file = with_stats(bound, bound, 0)
        assert keeps("float", "c > 0.1", file)
        assert not keeps("float", "c < 0.1", file)


def test_a_double_widened_from_float_has_the_bounds_of_a_float():
    """The golden table `type-widening` has 3.4 in its statistics for the value 3.4000000953674316."""
    file = with_stats(3.4, 3.4, 0)
    widened = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    assert not keeps("double", "c = 3.4000000953674316", file)
    assert keeps("double", "c = 3.4000000953674316", file, **widened)
    assert not keeps("double", "c < 3.39", file, **widened)


def test_widened_types_have_bounds_of_the_old_type():
    assert not keeps("double", "c < 5", with_stats(5, 7))
    assert not keeps("decimal(12,4)", "c < 5", with_stats(5, 7))
    assert not keeps("decimal(12,4)", "c > 7.05", with_stats(5.5, 7.05))
    date = with_stats("2024-09-09", "2024-09-09")
    assert keeps("timestamp_ntz", "c = '2024-09-09 00:00:00'", date)
    assert not keeps("timestamp_ntz", "c < '2024-09-09 00:00:00'", date)


def test_contradictory_bounds_are_ignored():
    """Old Parquet writers compared strings as signed bytes, which yields such bounds."""
    assert keeps("long", "c = 3", with_stats(7, 5))
    assert keeps("string", "c = 'a'", with_stats("é", "z"))
    assert keeps("long", "NOT c < 20", with_stats(7, 5, 0))


@pytest.mark.parametrize(
    ("nulls", "rows", "may_be_null", "may_have_a_value"),
    [
        (0, 10, False, True),
        (3, 10, True, True),
        (10, 10, True, False),
        (None, 10, True, True),
        (10, None, True, True),
        (0, 0, False, True),
        (-1, -1, True, True),
        (11, 10, True, True),
        ("10", "10", True, True),
        ({}, 10, True, True),
    ],
)
@pytest.mark.parametrize("more", [{}, {"tightBounds": True}, {"tightBounds": False}])
def test_a_null_count_is_used_only_if_it_is_zero_or_all_rows(nulls, rows, may_be_null, may_have_a_value, more):
    file = with_stats(1, 5, nulls, rows, **more)
    assert keeps("long", "c IS NULL", file) == may_be_null
    assert keeps("long", "c IS NOT NULL", file) == may_have_a_value
    assert keeps("long", "c < 9", file) == may_have_a_value
    assert matches_every_row("long", "c < 9", file) == (not may_be_null)


def test_null_counts_may_include_deleted_rows():
    """7 nulls of 10 rows, 3 of which are deleted, do not prove that the 7 remaining rows are null."""
    file = with_stats(1, 5, 7, 10)._replace(deletion_vector=DeletionVector(3))
    assert keeps("long", "c = 3", file)


def test_null_counts_are_used_for_types_without_order():
    for data_type, metadata in [("binary", {}), ("string", {"__COLLATIONS": {"c": "UTF8_LCASE"}})]:
        assert not keeps(data_type, "c IS NULL", with_stats("a", "b", 0), **metadata)
        assert keeps(data_type, "c IS NULL", with_stats("a", "b", 1), **metadata)
        assert keeps(data_type, "c = 'x'", with_stats("a", "b", 0), **metadata)


@pytest.mark.parametrize(
    "data_type", [{"type": "array", "elementType": "long"}, {"type": "struct", "fields": []}, "variant"]
)
def test_null_counts_of_nested_types_are_not_used(data_type):
    assert keeps(data_type, "c IS NULL", with_stats(None, None, 0))


@pytest.mark.parametrize(
    ("metadata", "data_type"),
    [
        ({"__COLLATIONS": {"c": "ICU.UTF8_LCASE"}}, "string"),
        ({"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}, "string"),
        ({}, "string collate UTF8_LCASE"),
    ],
)
def test_collated_and_char_strings_skip_nothing(metadata, data_type):
    assert keeps(data_type, "c = 'de'", with_stats("DE", "DE"), **metadata)


def test_a_char_in_a_struct_skips_nothing():
    """Only the metadata of the outer column declares the char."""
    struct = {"type": "struct", "fields": [{"name": name, "type": "string"} for name in "ab"]}
    file = File({}, '{"minValues":{"c":{"a":"DE "}},"maxValues":{"c":{"a":"DE "}}}')
    declared = {"__CHAR_VARCHAR_TYPE_STRING": "struct<a:char(3),b:varchar(3)>"}
    assert keeps(struct, "c.a = 'DE'", file, **declared)
    assert not keeps(struct, "c.a = 'DE'", file)


def test_a_varchar_is_compared_as_a_string():
    assert not keeps("string", "c = 'de'", with_stats("DE", "DE"), __CHAR_VARCHAR_TYPE_STRING="varchar(3)")


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "",
        "{}",
        "[]",
        "7",
        "{",
        "NaN",
        '{"minValues":7}',
        '{"minValues":{"c":{"d":1}}}',
        '{"minValues":{"C":9},"maxValues":{"C":9}}',
        '{"numRecords":5,"nullCount":{"c":null}}',
        '{"numRecords":5,"nullCount":{"c":false}}',
        '{"numRecords":5,"nullCount":{"c":0.0}}',
    ],
)
def test_without_statistics_a_file_is_kept(stats):
    for hint in ("c = 1", "NOT c = 1", "c IS NULL", "c IS NOT NULL", "c IN (1, 2)", "c < d"):
        assert Table({"c": "long", "d": "long"}).keeps(hint, File({}, stats))


def test_a_column_missing_from_old_files_is_unknown_not_null():
    file = File({}, json.dumps({"numRecords": 5, "minValues": {"a": 1}, "maxValues": {"a": 2}, "nullCount": {"a": 0}}))
    table = Table({"a": "long", "added": "long"})
    assert table.keeps("added = 1", file)
    assert table.keeps("added IS NULL", file)


def test_a_column_of_mixed_forms_gives_the_same_result_as_each_file_alone():
    """Uniform columns take a fast path, which must give the same result."""
    cases = {
        "timestamp": ["2024-01-01T00:00:00.000Z", "2024-01-01T01:00:00.000+01:00", "2024-01-01T00:00:00Z"],
        "decimal(10,2)": [1.5, "1.50", 1.50],
        "double": [1.5, 1.5, 1.5],
        "string": ["abc", "abc", "abc"],
        "long": [5, 5, 5],
    }
    hints = {
        "timestamp": "c > '2024-01-01T00:00:00Z'",
        "decimal(10,2)": "c = 1.5",
        "double": "c < 1.5",
        "string": "c < 'abc'",
        "long": "c <> 5",
    }
    for data_type, bounds in cases.items():
        predicate = Table({"c": data_type}).compile(hints[data_type])
        files = [with_stats(bound, bound, 0) for bound in [*bounds, None, 7, "x" * 40]]
        one_by_one = b"".join(predicate.evaluate(columns_of([file])) for file in files)
        assert predicate.evaluate(columns_of(files)) == one_by_one
