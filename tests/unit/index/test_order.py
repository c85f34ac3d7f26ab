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
    """Of files with a partition and a time; `wide` has the same bounds in all."""
    bounds = [({"wide": 0, "time": time}, {"wide": 10**6, "time": time + 1}) for _, time in rows]
    stats = [json.dumps({"numRecords": 5, "minValues": low, "maxValues": high}) for low, high in bounds]
    return FileColumns([{"p": partition} for partition, _ in rows], stats)


def sorted_places(order: Order, files: FileColumns) -> list[int]:
    return sorted(range(len(files)), key=order.keys(files).__getitem__)


def test_files_are_ordered_by_partition_and_then_by_the_column_that_tells_them_apart() -> None:
    rows: list[tuple[str | None, int]] = [(str(number % 12), 1000 - number) for number in range(100)]
    files = columns(*rows)
    order = Order.of(FIELDS, files)
    assert [field.path for field in order.clustering] == [("time",)]
    ordered = [rows[place] for place in sorted_places(order, files)]
    assert ordered == sorted(rows, key=lambda row: (int(row[0] or 0), row[1]))


def test_a_column_that_every_file_spans_orders_nothing() -> None:
    files = columns(*[("1", 5)] * 10)
    wide = [field for field in FIELDS if field.path == ("wide",)]
    for fields in (wide, []):
        assert sorted_places(Order.of(fields, files), files) == list(range(10))


def test_the_curve_goes_from_each_cell_to_one_beside_it() -> None:
    cells = sorted(curve(), key=curve().__getitem__)
    assert sorted(cells) == [(x, y) for x in range(CELLS) for y in range(CELLS)]
    steps = {abs(x - next_x) + abs(y - next_y) for (x, y), (next_x, next_y) in itertools.pairwise(cells)}
    assert steps == {1}


def test_files_of_a_table_that_is_clustered_by_two_columns_are_near_each_other_in_both() -> None:
    side, chunk = 60, 100
    cells = [(x, y) for x in range(side) for y in range(side)]
    random.Random(5).shuffle(cells)
    stats = [json.dumps({"minValues": {"time": x, "wide": y}, "maxValues": {"time": x, "wide": y}}) for x, y in cells]
    files = FileColumns([{}] * len(cells), stats)
    fields = [field for field in FIELDS if not field.in_partitions]
    order = Order.of(fields, files)
    assert len(order.clustering) == 2
    ordered = [cells[place] for place in sorted_places(order, files)]
    for column in (0, 1):
        values = [{cell[column] for cell in ordered[begin : begin + chunk]} for begin in range(0, len(ordered), chunk)]
        with_value = [sum(value in chunk_values for chunk_values in values) for value in range(side)]
        assert sum(with_value) / side < 9  # of 36 chunks


def test_of_two_columns_that_rise_together_one_gives_the_order() -> None:
    rows = [("1", number) for number in range(500)]
    random.Random(4).shuffle(rows)
    stats = [json.dumps({"minValues": {"time": n, "wide": n}, "maxValues": {"time": n, "wide": n}}) for _, n in rows]
    files = FileColumns([{"p": "1"}] * len(rows), stats)
    order = Order.of(FIELDS, files)
    assert len(order.clustering) == 1
    assert [rows[place] for place in sorted_places(order, files)] == sorted(rows)


def test_files_without_statistics_lie_together() -> None:
    rows = [("1", number) for number in range(20)]
    random.Random(3).shuffle(rows)
    known = columns(*rows)
    texts = [None if number % 4 == 0 else text for number, text in enumerate(known._texts)]
    files = FileColumns(known._partition_values, texts)
    places = sorted_places(Order.of(FIELDS, files), files)
    assert [place % 4 for place in places[:5]] == [0] * 5
    assert [rows[place] for place in places[5:]] == sorted(rows[place] for place in places[5:])


@settings(max_examples=examples(100), deadline=None)
@given(table=tables(COLUMNS), data=st.data())
def test_whatever_is_in_the_files_each_has_its_place(table: Table, data: st.DataObject) -> None:
    drawing = Drawing(data, table.columns)
    files = columns_of([table.file(drawing, WRITERS) for _ in range(drawing.pick([1, 2, 5]))])
    fields = indexed_fields(metadata(table))
    places = sorted_places(Order.of(fields, files), files)
    assert sorted(places) == list(range(len(files)))
