"""Statistics in columns, as a checkpoint may hold them, against the text that Spark writes for the same values."""

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


def read(kind: pa.DataType, value: object, **options: Any) -> str:
    """The text for a file whose column `c` has one value, from a checkpoint that has it in columns alone."""
    parsed = {"numRecords": 1, "minValues": {"c": value}, "maxValues": {"c": value}, "nullCount": {"c": 0}}
    kinds = {
        "numRecords": pa.int64(),
        "minValues": pa.struct({"c": kind}),
        "maxValues": pa.struct({"c": kind}),
        "nullCount": pa.struct({"c": pa.int64()}),
    }
    add = {"path": "a", "partitionValues": [], "size": 1, "modificationTime": 1, "dataChange": True}
    fields = {
        "path": pa.string(),
        "partitionValues": STRINGS,
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "stats_parsed": pa.struct(kinds),
    }
    table = pa.Table.from_pylist([{"add": add | {"stats_parsed": parsed}}], pa.schema({"add": pa.struct(fields)}))
    (batch,) = Checkpoint([parquet(table, store_schema=False, **options)]).batches()
    (stats,) = batch.stats
    return stats


def bound(text: str) -> object:
    """The bound as it is written, None for none; nothing else may be different."""
    stats = json.loads(text, parse_float=Decimal)
    assert (stats["numRecords"], stats["nullCount"]) == (1, {"c": 0})
    assert stats.get("minValues") == stats.get("maxValues")
    return stats.get("minValues", {}).get("c")


def comparable(bound: object) -> object:
    """A time may be written with more or fewer zeros behind the dot."""
    return dt.datetime.fromisoformat(bound) if isinstance(bound, str) and "T" in bound else bound


LONG = "12345678901234567890.123456789012345678"

# What Spark 4.0 with Delta 4.4 wrote as JSON into the commits, and by columns into the checkpoint, of one table.
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


@pytest.mark.parametrize(("kind", "value", "spark"), SPARK, ids=lambda value: str(value)[:30])
def test_the_text_says_what_spark_would(kind, value, spark):
    assert comparable(bound(read(kind, value))) == comparable(json.loads(spark, parse_float=Decimal))


def test_a_number_of_single_precision_is_the_same_number():
    """Spark has 0.1 for it, which is no number of single precision; read as one, both are the same."""
    assert pa.scalar(float(str(bound(read(pa.float32(), 0.1)))), pa.float32()) == pa.scalar(0.1, pa.float32())


@pytest.mark.parametrize("kind", [UTC, NTZ])
def test_a_time_keeps_the_digits_that_spark_cuts(kind):
    moment = dt.datetime(2024, 1, 1, 2, 3, 4, 567891)  # noqa: DTZ001
    zone = "Z" if kind is UTC else ""
    assert bound(read(kind, moment)) == f"2024-01-01T02:03:04.567891{zone}"


def test_a_time_of_another_zone_is_the_same_time():
    berlin = dt.timezone(dt.timedelta(hours=1))
    moment = dt.datetime(2024, 1, 1, 1, tzinfo=berlin)
    assert comparable(bound(read(pa.timestamp("us", tz="Europe/Berlin"), moment))) == moment


@pytest.mark.parametrize(
    "moment",
    [dt.datetime(2024, 1, 1), dt.datetime(9999, 12, 31), dt.datetime(1582, 1, 1)],  # noqa: DTZ001
)
def test_a_bound_in_sparks_old_form_of_times_is_no_bound(moment):
    """INT96 comes as nanoseconds, which wrap around outside of the years 1677 to 2262: it could be any moment."""
    assert bound(read(NTZ, moment, use_deprecated_int96_timestamps=True)) is None


def test_bounds_beside_those_that_are_left_out_stay_where_they_are():
    kind = pa.struct({"a": pa.int64(), "t": NTZ, "b": pa.int64(), "bytes": pa.binary(), "c": pa.string()})
    values = {"a": 1, "t": dt.datetime(9999, 12, 31), "b": 2, "bytes": b"\xff", "c": "3"}  # noqa: DTZ001
    left = bound(read(kind, values, use_deprecated_int96_timestamps=True))
    assert left == {"a": 1, "b": 2, "c": "3"}


@pytest.mark.parametrize(
    ("kind", "value", "spark"),
    [
        (pa.date32(), 10_237_747, "+30000-01-01"),
        (pa.date32(), -800_000, "-0221-09-04"),
        (UTC, 884_541_340_800_000_000, "+30000-01-01T00:00:00Z"),
        (NTZ, 884_541_340_800_000_000, "+30000-01-01T00:00:00"),
    ],
)
def test_a_moment_outside_of_pythons_calendar_is_told_as_spark_does(kind, value, spark):
    assert bound(read(kind, value)) == spark


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_what_is_no_number_in_json_is_no_bound(kind, value):
    """Spark writes it as a text, which not every reader takes for a number."""
    assert bound(read(kind, value)) is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.float64(), pa.date32(), UTC, pa.decimal128(9, 2)])
def test_a_null_is_left_out(kind):
    assert read(kind, None) == '{"numRecords":1,"minValues":{},"maxValues":{},"nullCount":{"c":0}}'


def test_a_bound_of_bytes_is_no_bound():
    assert bound(read(pa.binary(), b"\xff")) is None


@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_one(value):
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
@given(st.sampled_from(list(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
def test_the_text_says_exactly_what_the_columns_do(kind_and_value):
    kind, value = kind_and_value
    said = bound(read(kind, value))
    if isinstance(value, float):
        assert float(str(said)) == value
    elif isinstance(value, dt.datetime):
        assert dt.datetime.fromisoformat(str(said)) == value
    elif isinstance(value, dt.date):
        assert said == value.isoformat()
    else:
        assert said == value
