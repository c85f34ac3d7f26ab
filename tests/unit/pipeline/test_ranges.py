"""Files travel to packing tasks as runs of a range, and come out in packing order. Runs without Spark."""

import json
import random
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.model import Add
from core.index.write.order import Order
from core.index.write.packing import indexed_fields
from core.pruning.columns import FileColumns
from pipeline.log.rows import FILE, file_batches
from pipeline.spark.ranges import RUN, ArrowColumns, Ranges, files_of_range, ranges_of
from tests.examples import examples
from tests.unit.index.indexed_table import metadata_of

FIELDS = indexed_fields(metadata_of("p", n="long", s="string", p="string"))
RANGE_IDS = [70, 7, 700]


def file(number: int, partition: str | None = "x", **stats: object) -> Add:
    values = {"p": partition} if partition != "absent" else {}
    text = json.dumps({"numRecords": 1, "minValues": {"n": number, **stats}, "maxValues": {"n": number, **stats}})
    return Add(f"f{number}", values, 1, 1, data_change=True, stats=text)


def table(files: Sequence[Add]) -> pa.Table:
    return pa.Table.from_batches(list(file_batches(files)), FILE)


def runs_by_range(ranges: Ranges, files: Sequence[Add]) -> dict[int, list[pa.RecordBatch]]:
    """Returns the runs of each range, from two tasks that each read half of the files."""
    found: dict[int, list[pa.RecordBatch]] = {}
    for half in (files[::2], files[1::2]):
        for run in ranges.runs(file_batches(half)):
            assert run.schema == RUN
            found.setdefault(run.column("range")[0].as_py(), []).append(run)
    return found


def packed_paths(runs: Sequence[pa.RecordBatch]) -> Iterator[str]:
    for batch in files_of_range(runs):
        assert batch.schema.equals(FILE)
        yield from batch.column("path").to_pylist()


def test_each_range_gets_its_part_of_the_order_sorted() -> None:
    files = [file(number) for number in range(3000)]
    random.Random(4).shuffle(files)
    sample = table([file(number) for number in range(0, 3000, 10)])
    found = runs_by_range(ranges_of(FIELDS, sample, RANGE_IDS), files)
    assert set(found) == set(RANGE_IDS)
    numbers = [[int(path[1:]) for path in packed_paths(found[range_id])] for range_id in RANGE_IDS]
    in_order = list(chain.from_iterable(numbers))
    assert sorted(in_order) == list(range(3000))
    for lower, higher in pairwise(numbers):
        assert max(lower) < min(higher)
    assert [len(files) for files in numbers] == pytest.approx([1000] * 3, abs=20)
    # Positions are relative to the sample, which has every tenth file.
    assert all(abs(position - number) < 20 for position, number in enumerate(in_order))


def test_files_with_equal_keys_are_spread_over_all_ranges() -> None:
    files = [Add(f"f{number}", {}, 1, 1, data_change=True, stats=None) for number in range(300)]
    found = runs_by_range(ranges_of(FIELDS[1:], table(files[::3]), RANGE_IDS), files)
    assert [len(list(packed_paths(found[range_id]))) for range_id in RANGE_IDS] == pytest.approx([100] * 3, abs=4)


def test_no_file_is_lost_without_a_sample() -> None:
    files = [file(number) for number in range(10)]
    found = runs_by_range(ranges_of(FIELDS, table([]), RANGE_IDS), files)
    assert sorted(path for runs in found.values() for path in packed_paths(runs)) == sorted(add.path for add in files)
    assert list(files_of_range([])) == []


values = st.none() | st.integers() | st.text() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(
        st.builds(
            file,
            st.integers(-5, 5),
            st.sampled_from(["x", "y", "", None, "absent", "\u00fc"]),
            s=st.text() | st.sampled_from(['minValues": {"n": 3', '\\"', "a" * 40, None]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_file_has_the_same_key_as_with_parsed_statistics(files: list[Add]) -> None:
    order = Order(FIELDS[:1], [field for field in FIELDS if field.path == ("n",)], ())
    parsed = FileColumns([add.partition_values for add in files], [add.stats for add in files])
    assert order.keys(ArrowColumns(table(files))) == order.keys(parsed)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.text() | st.none() | values.map(lambda value: json.dumps({"minValues": {"n": value}})), max_size=6))
def test_every_file_gets_a_position_whatever_its_statistics(texts: list[str | None]) -> None:
    files = [Add(f"f{number}", {}, 1, 1, data_change=True, stats=text) for number, text in enumerate(texts)]
    found = runs_by_range(ranges_of(FIELDS, table(files), RANGE_IDS), files)
    assert sum(len(list(packed_paths(runs))) for runs in found.values()) == len(files)
