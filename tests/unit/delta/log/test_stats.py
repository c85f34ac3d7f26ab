"""Parsed statistics of checkpoints, compared with the JSON that Spark writes for the same values."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.log.checkpoint import Checkpoint
from tests.examples import examples
from tests.unit.delta.builder import STRINGS, parquet

UTC = pa.timestamp("us", tz="UTC")
NTZ = pa.timestamp("us")


def read(data_type: pa.DataType, value: object, **options: Any) -> str:
    """The JSON statistics of a file whose column `c` has one value, from a checkpoint with parsed statistics only."""
    parsed = {"numRecords": 1, "minValues": {"c": value}, "maxValues": {"c": value}, "nullCount": {"c": 0}}
    types = {
        "numRecords": pa.int64(),
        "minValues": pa.struct({"c": data_type}),
        "maxValues": pa.struct({"c": data_type}),
        "nullCount": pa.struct({"c": pa.int64()}),
    }
    add = {"path": "a", "partitionValues": [], "size": 1, "modificationTime": 1, "dataChange": True}
    fields = {
        "path": pa.string(),
        "partitionValues": STRINGS,
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "stats_parsed": pa.struct(types),
    }
    table = pa.Table.from_pylist([{"add": add | {"stats_parsed": parsed}}], pa.schema({"add": pa.struct(fields)}))
    ((_, batch),) = Checkpoint([parquet(table, store_schema=False, **options)]).batches()
    (stats,) = batch.stats
    return stats


def bound(text: str) -> object:
    """The bound of column `c`, or None. Checks that the other statistics are unchanged."""
    stats = json.loads(text, parse_float=Decimal)
    assert (stats["numRecords"], stats["nullCount"]) == (1, {"c": 0})
    assert stats.get("minValues") == stats.get("maxValues")
    return stats.get("minValues", {}).get("c")


def comparable(bound: object) -> object:
    """Parses timestamps, which may be written with more or fewer zeros after the decimal point."""
    return dt.datetime.fromisoformat(bound) if isinstance(bound, str) and "T" in bound else bound


LONG = "12345678901234567890.123456789012345678"

# Spark 4.0 with Delta 4.4 wrote these values as JSON to the commits, and as columns to the checkpoint, of one table.
SPARK = [
    (pa.int8(), -5, "-5"),
    (pa.int16(), 300, "300"),
    (pa.int32(), 70000, "70000"),
    (pa.int64(), 9007199254740993, "9007199254740993"),
    (pa.float64(), 0.1, "0.1"),
    (pa.float64(), 1e300, "1.0E300"),
    (pa.float64(), 1e-7, "1.0E-7"),
    (pa.float64(), 0.0, "0.0"),
    (pa.decimal128(38, 18), Decimal(LONG), LONG),
    (pa.decimal128(9, 2), Decimal("1.50"), "1.50"),
    (pa.string(), 'é\u2028"x', '"é\u2028\\"x"'),
    (pa.date32(), dt.date(2024, 2, 29), '"2024-02-29"'),
    (UTC, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), '"2024-01-01T00:00:00.000Z"'),
    (UTC, dt.datetime(1, 1, 1, tzinfo=dt.UTC), '"0001-01-01T00:00:00.000Z"'),
    (UTC, dt.datetime(2024, 1, 1, 0, 0, 0, 500000, tzinfo=dt.UTC), '"2024-01-01T00:00:00.500Z"'),
    (NTZ, dt.datetime(2024, 1, 1), '"2024-01-01T00:00:00.000"'),  # noqa: DTZ001
    (NTZ, dt.datetime(9999, 12, 31, 23, 59, 59, 999000), '"9999-12-31T23:59:59.999"'),  # noqa: DTZ001
    (pa.struct({"x": pa.int32(), "y": pa.struct({"z": pa.string()})}), {"x": 1, "y": {"z": None}}, '{"x":1,"y":{}}'),
]


@pytest.mark.parametrize(("data_type", "value", "spark"), SPARK, ids=lambda value: str(value)[:30])
def test_the_json_equals_that_of_spark(data_type, value, spark):
    assert comparable(bound(read(data_type, value))) == comparable(json.loads(spark, parse_float=Decimal))


def test_a_single_precision_number_keeps_its_value():
    """Spark writes 0.1, which single precision cannot represent exactly. Both texts parse to the same number."""
    assert pa.scalar(float(str(bound(read(pa.float32(), 0.1)))), pa.float32()) == pa.scalar(0.1, pa.float32())


@pytest.mark.parametrize("data_type", [UTC, NTZ])
def test_a_timestamp_keeps_the_microseconds_that_spark_truncates(data_type):
    moment = dt.datetime(2024, 1, 1, 2, 3, 4, 567891)  # noqa: DTZ001
    zone = "Z" if data_type is UTC else ""
    assert bound(read(data_type, moment)) == f"2024-01-01T02:03:04.567891{zone}"


def test_a_timestamp_in_another_time_zone_is_the_same_instant():
    berlin = dt.timezone(dt.timedelta(hours=1))
    moment = dt.datetime(2024, 1, 1, 1, tzinfo=berlin)
    assert comparable(bound(read(pa.timestamp("us", tz="Europe/Berlin"), moment))) == moment


@pytest.mark.parametrize(
    "moment",
    [dt.datetime(2024, 1, 1), dt.datetime(9999, 12, 31), dt.datetime(1582, 1, 1)],  # noqa: DTZ001
)
def test_an_int96_timestamp_is_not_a_bound(moment):
    """INT96 is read as nanoseconds, which overflow outside the years 1677 to 2262, so the value may be wrong."""
    assert bound(read(NTZ, moment, use_deprecated_int96_timestamps=True)) is None


def test_the_other_bounds_of_a_struct_are_kept():
    data_type = pa.struct({"a": pa.int64(), "t": NTZ, "b": pa.int64(), "bytes": pa.binary(), "c": pa.string()})
    values = {"a": 1, "t": dt.datetime(9999, 12, 31), "b": 2, "bytes": b"\xff", "c": "3"}  # noqa: DTZ001
    kept = bound(read(data_type, values, use_deprecated_int96_timestamps=True))
    assert kept == {"a": 1, "b": 2, "c": "3"}


@pytest.mark.parametrize(
    ("data_type", "value", "spark"),
    [
        (pa.date32(), 10_237_747, "+30000-01-01"),
        (pa.date32(), -800_000, "-0221-09-04"),
        (UTC, 884_541_340_800_000_000, "+30000-01-01T00:00:00Z"),
        (NTZ, 884_541_340_800_000_000, "+30000-01-01T00:00:00"),
    ],
)
def test_a_timestamp_outside_pythons_calendar_is_written_as_spark_does(data_type, value, spark):
    assert bound(read(data_type, value)) == spark


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("data_type", [pa.float32(), pa.float64()])
def test_a_number_that_json_cannot_represent_is_not_a_bound(data_type, value):
    """Spark writes it as a string, which not every reader parses as a number."""
    assert bound(read(data_type, value)) is None


@pytest.mark.parametrize("data_type", [pa.int64(), pa.string(), pa.float64(), pa.date32(), UTC, pa.decimal128(9, 2)])
def test_a_null_is_left_out(data_type):
    assert read(data_type, None) == '{"numRecords":1,"minValues":{},"maxValues":{},"nullCount":{"c":0}}'


def test_a_binary_value_is_not_a_bound():
    assert bound(read(pa.binary(), b"\xff")) is None


@pytest.mark.parametrize("value", [True, False])
def test_a_boolean_is_a_bound(value):
    assert bound(read(pa.bool_(), value)) is value


VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    pa.decimal128(38, 10): st.decimals(-(10**27), 10**27, places=10),
    pa.date32(): st.dates(),
    UTC: st.datetimes(timezones=st.just(dt.UTC)),
    NTZ: st.datetimes(),
}


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(list(VALUES)).flatmap(lambda data_type: st.tuples(st.just(data_type), VALUES[data_type])))
def test_the_json_has_exactly_the_values_of_the_columns(type_and_value):
    data_type, value = type_and_value
    found = bound(read(data_type, value))
    if isinstance(value, float):
        assert float(str(found)) == value
    elif isinstance(value, dt.datetime):
        assert dt.datetime.fromisoformat(str(found)) == value
    elif isinstance(value, dt.date):
        assert found == value.isoformat()
    else:
        assert found == value
