"""Files on their way to the tasks that pack them, without Spark: as runs of a range, from which they come in order."""

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
NUMBERS = [70, 7, 700]


def file(number: int, partition: str | None = "x", **stats: object) -> Add:
    values = {"p": partition} if partition != "absent" else {}
    text = json.dumps({"numRecords": 1, "minValues": {"n": number, **stats}, "maxValues": {"n": number, **stats}})
    return Add(f"f{number}", values, 1, 1, data_change=True, stats=text)


def table(files: Sequence[Add]) -> pa.Table:
    return pa.Table.from_batches(list(file_batches(files)), FILE)


def parted(ranges: Ranges, files: Sequence[Add]) -> dict[int, list[pa.RecordBatch]]:
    """The runs of each range, of two tasks that read the log."""
    found: dict[int, list[pa.RecordBatch]] = {}
    for some in (files[::2], files[1::2]):
        for run in ranges.runs(file_batches(some)):
            assert run.schema == RUN
            found.setdefault(run.column("range")[0].as_py(), []).append(run)
    return found


def packed_paths(runs: Sequence[pa.RecordBatch]) -> Iterator[str]:
    for batch in files_of_range(runs):
        assert batch.schema.equals(FILE)
        yield from batch.column("path").to_pylist()


def test_each_range_gets_its_part_of_the_order_and_has_it_sorted() -> None:
    files = [file(number) for number in range(3000)]
    random.Random(4).shuffle(files)
    sample = table([file(number) for number in range(0, 3000, 10)])
    found = parted(ranges_of(FIELDS, sample, NUMBERS), files)
    assert set(found) == set(NUMBERS)
    numbers = [[int(path[1:]) for path in packed_paths(found[number])] for number in NUMBERS]
    in_order = list(chain.from_iterable(numbers))
    assert sorted(in_order) == list(range(3000))
    for one, next_one in pairwise(numbers):
        assert max(one) < min(next_one)
    assert [len(some) for some in numbers] == pytest.approx([1000] * 3, abs=20)
    # A file's place is that among the sample's, and here every tenth is in the sample.
    assert all(abs(place - number) < 20 for place, number in enumerate(in_order))


def test_files_that_nothing_tells_apart_are_shared_out() -> None:
    files = [Add(f"f{number}", {}, 1, 1, data_change=True, stats=None) for number in range(300)]
    found = parted(ranges_of(FIELDS[1:], table(files[::3]), NUMBERS), files)
    assert [len(list(packed_paths(found[number]))) for number in NUMBERS] == pytest.approx([100] * 3, abs=4)


def test_without_a_sample_nothing_is_lost() -> None:
    files = [file(number) for number in range(10)]
    found = parted(ranges_of(FIELDS, table([]), NUMBERS), files)
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
def test_a_file_has_the_key_that_its_parsed_statistics_give_it(files: list[Add]) -> None:
    order = Order(FIELDS[:1], [field for field in FIELDS if field.path == ("n",)], ())
    parsed = FileColumns([add.partition_values for add in files], [add.stats for add in files])
    assert order.keys(ArrowColumns(table(files))) == order.keys(parsed)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.text() | st.none() | values.map(lambda value: json.dumps({"minValues": {"n": value}})), max_size=6))
def test_whatever_statistics_are_each_file_has_a_place(texts: list[str | None]) -> None:
    files = [Add(f"f{at}", {}, 1, 1, data_change=True, stats=text) for at, text in enumerate(texts)]
    found = parted(ranges_of(FIELDS, table(files), NUMBERS), files)
    assert sum(len(list(packed_paths(runs))) for runs in found.values()) == len(files)
