"""Zone maps never rule out a chunk with a file that may match."""

import json
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from core.delta.model import Metadata
from core.index.layout.root import Root
from core.index.write.packing import indexed_fields
from core.pruning.columns import FileColumns
from core.pruning.evaluate import Batch
from core.pruning.files import MAY_MATCH
from core.pruning.predicate import Predicate, compile_predicate
from core.pruning.ranges import extremes_of
from core.pruning.schema import Field
from core.pruning.zone_maps import ZoneMapBatch, zone_map_of
from tests.examples import examples
from tests.property.pruning.predicates import Drawing, json_leaf, sql_leaf
from tests.property.pruning.tables import COLUMNS, File, Table, tables
from tests.property.pruning.writers import WRITERS
from tests.unit.index.indexed_table import metadata_of
from tests.unit.index.test_root import root
from tests.unit.pruning.support import columns_of

LEAVES = {"sql": sql_leaf, "json": json_leaf}


def metadata(table: Table) -> Metadata:
    partition_columns = tuple(column.name for column in table.columns if column.place == "partition")
    configuration = {"delta.columnMapping.mode": "name"} if table.mapped else {}
    return Metadata("m", table.schema_string, partition_columns, configuration=configuration)


def zones_of(fields: list[Field], chunks: list[list[File]]) -> ZoneMapBatch:
    """The zone maps as a reader has them: packed in a root and unpacked."""
    zones = {field: [zone_map_of(field, columns_of(files)) for files in chunks] for field in fields}
    return ZoneMapBatch(len(chunks), Root.unpack(root(zones=zones).pack()).zones)


@settings(max_examples=examples(400), deadline=None)
@given(table=tables(COLUMNS), language=st.sampled_from(["sql", "json"]), data=st.data())
def test_a_chunk_with_a_file_that_may_match_is_read(table: Table, language: str, data: st.DataObject) -> None:
    drawing = Drawing(data, table.columns)
    chunks = [
        [table.file(drawing, WRITERS) for _ in range(drawing.pick([1, 2, 3]))] for _ in range(drawing.pick([1, 2, 3]))
    ]
    predicate = table.compile(drawing.tree(LEAVES[language]), language)
    indexed = indexed_fields(metadata(table))
    for fields in (indexed, indexed[:1], []):
        read = zones_of(fields, chunks).may_match(predicate.root)
        for files, is_read in zip(chunks, read, strict=True):
            matches = any(truth_value & MAY_MATCH for truth_value in predicate.evaluate(columns_of(files)))
            event(f"{matches=} {is_read=}")
            assert is_read or not matches


def with_values(*values: Any) -> FileColumns:
    texts = [json.dumps({"numRecords": 1, "minValues": {"c": value}, "maxValues": {"c": value}}) for value in values]
    return FileColumns([{}] * len(texts), texts)


def read(hint: str, data_type: str, *chunks: FileColumns) -> list[int]:
    """One number per chunk: 1 if it is read."""
    table = metadata_of(c=data_type)
    fields = indexed_fields(table)
    predicate = compile_hint(hint, table)
    zones = ZoneMapBatch(len(chunks), {field: [zone_map_of(field, each) for each in chunks] for field in fields})
    return list(zones.may_match(predicate.root))


def compile_hint(hint: str, table: Metadata) -> Predicate:
    predicate = compile_predicate(
        [hint], None, schema_string=table.schema_string, partition_columns=table.partition_columns
    )
    assert predicate is not None
    return predicate


def test_chunks_without_a_file_that_may_match_are_not_read() -> None:
    chunks = [with_values(1, 2), with_values(3, 9), with_values(10)]
    assert read("c = 4", "long", *chunks) == [0, 1, 0]
    assert read("c < 3", "long", *chunks) == [1, 0, 0]
    assert read("c = 2 OR c = 10", "long", *chunks) == [1, 0, 1]
    assert read("c > 10", "long", *chunks) == [0, 0, 0]


def test_zone_maps_of_a_column_with_another_type_are_not_used() -> None:
    (field,) = indexed_fields(metadata_of(c="integer"))
    predicate = compile_hint("c = 4", metadata_of(c="long"))
    assert list(ZoneMapBatch(1, {field: [zone_map_of(field, with_values(1))]}).may_match(predicate.root)) == [1]


def test_zone_maps_have_no_methods_that_need_files() -> None:
    zones = ZoneMapBatch(1, {})
    assert not [name for name in ("partition", "stats") if hasattr(zones, name)]


def test_a_chunk_with_only_nulls_is_read_only_for_nulls() -> None:
    nulls = FileColumns([{}], ['{"numRecords":3,"nullCount":{"c":3}}'])
    assert read("c = 4", "long", nulls) == [0]
    assert read("c IS NULL", "long", nulls) == [1]


def test_a_chunk_with_a_long_string_that_contains_the_last_character_is_read() -> None:
    text = 64 * "a" + "\U0010ffffb"
    assert read(f"c = '{text}'", "string", with_values(text), with_values("b")) == [1, 0]
    only_last = 70 * "\U0010ffff"
    assert read(f"c = '{only_last}'", "string", with_values(only_last), with_values("b")) == [1, 0]


@settings(max_examples=examples(400), deadline=None)
@given(data=st.data(), data_type=st.sampled_from(["string", "timestamp", "timestamp_ntz"]))
def test_zone_maps_of_strings_and_timestamps_are_tight(data: st.DataObject, data_type: str) -> None:
    texts = TEXTS if data_type == "string" else TIMES
    bounds = data.draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
    stats = [{"minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": 0}} for low, high in bounds]
    columns = FileColumns([{}] * len(stats), [json.dumps(each) for each in stats])
    (field,) = indexed_fields(metadata_of(c=data_type))
    (lows, highs), _ = Batch(columns, with_stats=True).ranges(field)
    zone = zone_map_of(field, columns)
    event(f"fast path: {extremes_of(field, columns) is not None}")
    assert zone.low == min(lows)
    assert zone.high == max(highs) or (data_type != "string" and 0 < zone.high - max(highs) < 1000)


LONG = "a very long text, of over thirty"
TEXTS = st.sampled_from(
    ["", "a", LONG, LONG + "!", LONG[:-1], LONG + "?", "b?", "b", LONG + "\u00fc", "\U0010ffff" * 9]
)
ODD_TIMES = [
    "",
    "2024-W09-4T00:00:00",
    "2024-W09-4T00:00:00Z",
    "20240229T000000.000Z",
    "2024-02-29T00:00+01",
    "2024-02-29T00:00:00.00Z",
]
TIMES = st.sampled_from(ODD_TIMES) | st.builds(
    "{}T{}{}".format,
    st.sampled_from(["2024-02-28", "2024-02-29", "2023-02-29", "1969-01-01", "9999-12-31"]),
    st.sampled_from(["00:00:00.000000", "23:59:59.999999", "00:00:00.000", "12:00:00", "24:00:00.000000"]),
    st.sampled_from(["Z", "", "+01:00"]),
)
