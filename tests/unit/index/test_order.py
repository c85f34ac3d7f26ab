import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from core.index.build import indexed_fields
from core.index.order import clustering_field, sorted_places
from core.pruning.columns import FileColumns
from tests.property.pruning.predicates import Drawing
from tests.property.pruning.tables import COLUMNS, Table, tables
from tests.property.pruning.writers import WRITERS
from tests.unit.index.test_zones import metadata
from tests.unit.index.world import metadata_of
from tests.unit.pruning.support import columns_of

FIELDS = indexed_fields(metadata_of("p", wide="long", time="long", p="integer"))


def columns(*rows: tuple[str | None, int]) -> FileColumns:
    """Of files with a partition and a time; `wide` has the same bounds in all."""
    bounds = [({"wide": 0, "time": time}, {"wide": 10**6, "time": time + 1}) for _, time in rows]
    stats = [json.dumps({"numRecords": 5, "minValues": low, "maxValues": high}) for low, high in bounds]
    return FileColumns([{"p": partition} for partition, _ in rows], stats)


def test_files_are_ordered_by_partition_and_then_by_the_column_that_tells_them_apart() -> None:
    rows: list[tuple[str | None, int]] = [(str(number % 12), 1000 - number) for number in range(100)]
    files = columns(*rows)
    clustering = clustering_field(FIELDS, files)
    assert clustering is not None
    assert clustering.path == ("time",)
    ordered = [rows[place] for place in sorted_places(FIELDS, clustering, files)]
    assert ordered == sorted(rows, key=lambda row: (int(row[0] or 0), row[1]))


def test_a_column_that_every_file_spans_orders_nothing() -> None:
    files = columns(*[("1", 5)] * 10)
    wide = [field for field in FIELDS if field.path == ("wide",)]
    assert clustering_field(wide, files) is None
    assert clustering_field([], files) is None
    assert sorted_places(FIELDS, None, files) == list(range(10))


def test_files_without_statistics_lie_together() -> None:
    rows = [("1", number) for number in range(20)]
    random.Random(3).shuffle(rows)
    known = columns(*rows)
    texts = [None if number % 4 == 0 else text for number, text in enumerate(known._texts)]
    files = FileColumns(known._partition_values, texts)
    places = sorted_places(FIELDS, clustering_field(FIELDS, files), files)
    assert [place % 4 for place in places[:5]] == [0] * 5
    assert [rows[place] for place in places[5:]] == sorted(rows[place] for place in places[5:])


@settings(max_examples=100, deadline=None)
@given(table=tables(COLUMNS), data=st.data())
def test_whatever_is_in_the_files_each_has_its_place(table: Table, data: st.DataObject) -> None:
    drawing = Drawing(data, table.columns)
    files = columns_of([table.file(drawing, WRITERS) for _ in range(drawing.pick([1, 2, 5]))])
    fields = indexed_fields(metadata(table))
    places = sorted_places(fields, clustering_field(fields, files), files)
    assert sorted(places) == list(range(len(files)))
