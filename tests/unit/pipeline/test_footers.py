"""Statistics from footers: all values of a file are within the bounds, as pruning reads them."""

import datetime as dt
import json
from decimal import Decimal
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.model import Metadata
from core.pruning.columns import FileColumns
from core.pruning.ranges import StatsColumn
from core.pruning.schema import DataType, Field, Schema
from core.pruning.values import DAY
from pipeline.footers import Footers, stats_of
from pipeline.storage import TableStorage
from tests.examples import examples

EPOCH = dt.datetime.fromisoformat("1970-01-01")
MICROSECOND = dt.timedelta(microseconds=1)


def field(name: str, data_type: str = "long", *path: str, scale: int = 0) -> Field:
    return Field((*path, name), DataType(data_type, 38 if scale else 0, scale), in_partitions=False, was_float=False)


def footer(table: pa.Table, **options: Any) -> pq.FileMetaData:
    sink = BytesIO()
    pq.write_table(table, sink, **options)
    return pq.ParquetFile(sink).metadata


def micros(moment: dt.datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


TIMES = st.datetimes(dt.datetime.fromisoformat("1800-01-01"), dt.datetime.fromisoformat("9990-01-01"))
# For each type: its Arrow type, its values, and the form in which pruning compares them.
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Any]] = {
    "byte": (pa.int8(), st.integers(-128, 127), int),
    "integer": (pa.int32(), st.integers(-(2**31), 2**31 - 1), int),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1), int),
    "boolean": (pa.bool_(), st.booleans(), bool),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False), float),
    "double": (pa.float64(), st.floats(allow_nan=False), float),
    "decimal": (
        pa.decimal128(38, 4),
        st.decimals(-(10**30), 10**30, places=4),
        lambda value: int(Fraction(value) * 10**4),
    ),
    "string": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=40), str),
    "date": (pa.date32(), st.dates(), lambda value: micros(dt.datetime.combine(value, dt.time())) // DAY),
    "timestamp": (pa.timestamp("us", "UTC"), TIMES, micros),
    "timestamp_ntz": (pa.timestamp("us"), TIMES, micros),
}


@pytest.mark.parametrize("data_type", TYPES)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_all_values_of_a_file_are_within_its_bounds(data_type: str, data: st.DataObject) -> None:
    arrow_type, values, comparable = TYPES[data_type]
    column = data.draw(st.lists(st.none() | values, min_size=1, max_size=8))
    table = pa.table({"c": pa.array(column, arrow_type)})
    scale = 4 if data_type == "decimal" else 0
    stats = stats_of(footer(table, row_group_size=3), [field("c", data_type, scale=scale)])
    summary = StatsColumn(field("c", data_type, scale=scale), FileColumns([{}], [stats]))
    (low,), (high,) = summary.bounds
    assert all(low <= comparable(value) <= high for value in column if value is not None)
    assert json.loads(stats)["numRecords"] == len(column)
    assert json.loads(stats)["nullCount"] == {"c": column.count(None)}


def bounds_of(stats: str) -> tuple[Any, Any]:
    found = json.loads(stats)
    return found["minValues"].get("c"), found["maxValues"].get("c")


@pytest.mark.parametrize(
    ("data_type", "array", "bounds"),
    [
        ("long", pa.array([1, None, 3]), (1, 3)),
        ("long", pa.array([1, 2], pa.int32()), (1, 2)),
        ("string", pa.array(["a", "b"]), ("a", "b")),
        ("decimal", pa.array([Decimal("1.50")], pa.decimal128(5, 2)), ("1.50", "1.50")),
        ("date", pa.array([dt.date(2024, 2, 29)]), ("2024-02-29", "2024-02-29")),
        ("timestamp", pa.array([1], pa.timestamp("ms", "UTC")), ("1970-01-01T00:00:00.001000Z",) * 2),
        (
            "timestamp_ntz",
            pa.array([1001], pa.timestamp("ns")),
            ("1970-01-01T00:00:00.000001", "1970-01-01T00:00:00.000002"),
        ),
    ],
)
def test_bounds_have_the_same_form_as_in_the_log(data_type: str, array: pa.Array, bounds: tuple[Any, Any]) -> None:
    column = field("c", data_type, scale=2 * (data_type == "decimal"))
    assert bounds_of(stats_of(footer(pa.table({"c": array})), [column])) == bounds


DOUBTFUL = {
    "no values": ("long", pa.array([None], pa.int64())),
    "unsigned": ("long", pa.array([1], pa.uint32())),
    "another type": ("string", pa.array([1])),
    "widened from an integer": ("double", pa.array([1])),
    "narrowed": ("float", pa.array([1.5])),
    "infinite": ("double", pa.array([1, float("inf")])),
    "bytes": ("binary", pa.array([b"a"])),
    "bytes instead of a string": ("string", pa.array([b"a"])),
    "before 1900": ("date", pa.array([dt.date(1899, 12, 31)])),
    "a time before 1900": ("timestamp", pa.array([dt.datetime.fromisoformat("1850-01-01")], pa.timestamp("us", "UTC"))),
    "a time without a zone": ("timestamp", pa.array([1], pa.timestamp("us"))),
    "a time with a zone": ("timestamp_ntz", pa.array([1], pa.timestamp("us", "UTC"))),
    "a list": ("long", pa.array([[1]])),
}


@pytest.mark.parametrize(("data_type", "array"), DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_doubtful_columns_have_no_bounds(data_type: str, array: pa.Array) -> None:
    assert bounds_of(stats_of(footer(pa.table({"c": array})), [field("c", data_type)])) == (None, None)


def test_int96_has_no_bounds() -> None:
    table = pa.table({"c": pa.array([1], pa.timestamp("ns"))})
    int96 = footer(table, use_deprecated_int96_timestamps=True)
    assert bounds_of(stats_of(int96, [field("c", "timestamp")])) == (None, None)


def test_a_row_group_without_statistics_leaves_the_file_without_bounds() -> None:
    without = footer(pa.table({"c": [1, 2]}), write_statistics=False)
    assert json.loads(stats_of(without, [field("c")])) == {
        "numRecords": 2,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
    }


def test_a_name_with_a_dot_is_not_mistaken_for_a_struct() -> None:
    flat = footer(pa.table({"a.c": [1]}))
    nested = footer(pa.table({"a": [{"c": 2}]}))
    assert json.loads(stats_of(flat, [field("c", "long", "a")]))["minValues"] == {}
    assert json.loads(stats_of(nested, [field("a.c")]))["minValues"] == {}
    assert json.loads(stats_of(flat, [field("a.c")]))["minValues"] == {"a.c": 1}
    assert json.loads(stats_of(nested, [field("c", "long", "a")]))["minValues"] == {"a": {"c": 2}}


@pytest.fixture
def table(tmp_path: Path) -> TableStorage:
    """A table of five files."""
    for number in range(5):
        rows = pa.table({"id": [number, number + 10], "p": ["ü %"] * 2})
        write_deltalake(tmp_path, rows, partition_by=["p"], mode="append")
    return TableStorage(tmp_path.as_uri())


def files(table: TableStorage, stats: list[str | None]) -> pa.RecordBatch:
    adds = pa.table(DeltaTable(table.location).get_add_actions())
    columns = {"path": adds["path"], "size": adds["size_bytes"], "stats": pa.array(stats, pa.string())}
    (batch,) = pa.table(columns).combine_chunks().to_batches()
    return batch


def completed(table: TableStorage, batch: pa.RecordBatch, *, max_files: int = 100, mode: str = "none") -> list[Any]:
    schema = Schema(
        '{"type":"struct","fields":[{"name":"id","type":"long"},{"name":"p","type":"string"}]}',
        ["p"],
        column_mapping=False,
    )
    metadata = Metadata("1", "", ("p",), configuration={"delta.columnMapping.mode": mode})
    footers = Footers.of(table, metadata, [schema.find(("id",)), schema.find(("p",))], max_files)
    return [
        text and json.loads(text)
        for done in footers.complete(iter([batch, batch]))
        for text in done.column("footer_stats").to_pylist()
    ]


def test_footers_are_read_only_for_files_without_a_row_count_in_the_log(table: TableStorage) -> None:
    found = completed(table, files(table, ['{"numRecords":1}', None, "{}", "", '{"tightBounds":true}']))
    assert [bool(stats) for stats in found] == [False, True, True, True, True] * 2
    assert found[1].keys() == {"numRecords", "minValues", "maxValues", "nullCount"}
    assert found[1]["maxValues"]["id"] == found[1]["minValues"]["id"] + 10


def test_a_task_reads_at_most_the_given_number_of_footers(table: TableStorage) -> None:
    found = completed(table, files(table, [None] * 5), max_files=7)
    assert [bool(stats) for stats in found] == [True] * 7 + [False] * 3


def test_only_rows_are_counted_if_columns_are_mapped_by_id(table: TableStorage) -> None:
    found = completed(table, files(table, [None] * 5), mode="id")
    assert found[0] == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {}}


def test_a_missing_or_damaged_file_or_one_outside_the_table_has_no_statistics(table: TableStorage) -> None:
    batch = files(table, [None] * 5)
    missing, outside = ("missing.parquet", "s3://elsewhere/file.parquet")
    paths = pa.array([missing, outside, *batch.column("path").to_pylist()[2:]])
    sizes = pa.array([10, 10, *(size - 1 for size in batch.column("size").to_pylist()[2:4]), 0])
    unreadable = pa.RecordBatch.from_arrays([paths, sizes, batch.column("stats")], names=batch.schema.names)
    assert completed(table, unreadable) == [None] * 10
