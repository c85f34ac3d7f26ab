"""Files that are close in the packing order have similar values."""

import itertools
import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from core.index.write.order import CELLS, Order, curve
from core.index.write.packing import indexed_fields
from core.pruning.columns import FileColumns
from tests.examples import examples
from tests.property.pruning.predicates import Drawing
from tests.property.pruning.tables import COLUMNS, Table, tables
from tests.property.pruning.writers import WRITERS
from tests.unit.index.indexed_table import metadata_of
from tests.unit.index.test_zones import metadata
from tests.unit.pruning.support import columns_of

FIELDS = indexed_fields(metadata_of("p", wide="long", time="long", p="integer"))


def columns(*rows: tuple[str | None, int]) -> FileColumns:
    """The columns of files with a partition and a time. `wide` has the same range in every file."""
    bounds = [({"wide": 0, "time": time}, {"wide": 10**6, "time": time + 1}) for _, time in rows]
    stats = [json.dumps({"numRecords": 5, "minValues": low, "maxValues": high}) for low, high in bounds]
    return FileColumns([{"p": partition} for partition, _ in rows], stats)


def sorted_positions(order: Order, files: FileColumns) -> list[int]:
    return sorted(range(len(files)), key=order.keys(files).__getitem__)


def test_files_are_sorted_by_partition_and_then_by_the_column_that_overlaps_least() -> None:
    rows: list[tuple[str | None, int]] = [(str(number % 12), 1000 - number) for number in range(100)]
    files = columns(*rows)
    order = Order.of(FIELDS, files)
    assert [field.path for field in order.clustering] == [("time",)]
    ordered = [rows[position] for position in sorted_positions(order, files)]
    assert ordered == sorted(rows, key=lambda row: (int(row[0] or 0), row[1]))


def test_a_column_with_the_same_range_in_every_file_does_not_affect_the_order() -> None:
    files = columns(*[("1", 5)] * 10)
    wide = [field for field in FIELDS if field.path == ("wide",)]
    for fields in (wide, []):
        assert sorted_positions(Order.of(fields, files), files) == list(range(10))


def test_the_curve_visits_every_cell_and_moves_to_a_neighbour_each_time() -> None:
    cells = sorted(curve(), key=curve().__getitem__)
    assert sorted(cells) == [(x, y) for x in range(CELLS) for y in range(CELLS)]
    steps = {abs(x - next_x) + abs(y - next_y) for (x, y), (next_x, next_y) in itertools.pairwise(cells)}
    assert steps == {1}


def test_a_value_of_either_clustering_column_is_in_few_chunks() -> None:
    side, chunk = 60, 100
    cells = [(x, y) for x in range(side) for y in range(side)]
    random.Random(5).shuffle(cells)
    stats = [json.dumps({"minValues": {"time": x, "wide": y}, "maxValues": {"time": x, "wide": y}}) for x, y in cells]
    files = FileColumns([{}] * len(cells), stats)
    fields = [field for field in FIELDS if not field.in_partitions]
    order = Order.of(fields, files)
    assert len(order.clustering) == 2
    ordered = [cells[position] for position in sorted_positions(order, files)]
    for column in (0, 1):
        values = [{cell[column] for cell in ordered[begin : begin + chunk]} for begin in range(0, len(ordered), chunk)]
        with_value = [sum(value in chunk_values for chunk_values in values) for value in range(side)]
        assert sum(with_value) / side < 9  # of 36 chunks


def test_only_one_of_two_correlated_columns_is_used() -> None:
    rows = [("1", number) for number in range(500)]
    random.Random(4).shuffle(rows)
    stats = [json.dumps({"minValues": {"time": n, "wide": n}, "maxValues": {"time": n, "wide": n}}) for _, n in rows]
    files = FileColumns([{"p": "1"}] * len(rows), stats)
    order = Order.of(FIELDS, files)
    assert len(order.clustering) == 1
    assert [rows[position] for position in sorted_positions(order, files)] == sorted(rows)


def test_files_without_statistics_come_first() -> None:
    rows = [("1", number) for number in range(20)]
    random.Random(3).shuffle(rows)
    complete = columns(*rows)
    texts = [None if number % 4 == 0 else text for number, text in enumerate(complete._texts)]
    files = FileColumns(complete._partition_values, texts)
    positions = sorted_positions(Order.of(FIELDS, files), files)
    assert [position % 4 for position in positions[:5]] == [0] * 5
    with_statistics = [rows[position] for position in positions[5:]]
    assert with_statistics == sorted(with_statistics)


@settings(max_examples=examples(100), deadline=None)
@given(table=tables(COLUMNS), data=st.data())
def test_any_files_can_be_sorted(table: Table, data: st.DataObject) -> None:
    drawing = Drawing(data, table.columns)
    files = columns_of([table.file(drawing, WRITERS) for _ in range(drawing.pick([1, 2, 5]))])
    fields = indexed_fields(metadata(table))
    positions = sorted_positions(Order.of(fields, files), files)
    assert sorted(positions) == list(range(len(files)))
