"""A chunk returns its files as the log has them, and gives pruning the same columns as the files would."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.index import UnusableIndexError
from core.delta.log import actions
from core.delta.model import Add, Metadata
from core.index.layout.chunk import Chunk
from core.index.layout.rows import rows_of
from core.index.read.files import ChunkColumns, IndexedFiles
from core.index.write.packing import indexed_fields, pack_rows
from core.pruning.columns import FileColumns
from core.pruning.schema import Field
from tests.examples import examples
from tests.unit.index.indexed_table import file, metadata_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LONGS = st.integers(-(2**63), 2**63 - 1)
BOX = {"type": "struct", "fields": [{"name": "a.b", "type": "long", "nullable": True, "metadata": {}}]}
METADATA = metadata_of("p", "ü/", id="long", s="string", box=BOX, **{"p": "string", "ü/": "date"})
JSON = st.recursive(
    st.none() | st.booleans() | LONGS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
COLUMNS = st.fixed_dictionaries(
    {}, optional={"id": JSON, "s": JSON, "box": st.fixed_dictionaries({"a.b": JSON}) | JSON}
)
STATS = st.fixed_dictionaries(
    {}, optional={"numRecords": JSON, "minValues": COLUMNS, "maxValues": COLUMNS | JSON, "nullCount": COLUMNS}
)
VECTORS = st.fixed_dictionaries(
    {"storageType": st.sampled_from("uip"), "pathOrInlineDv": TEXTS, "sizeInBytes": LONGS, "cardinality": LONGS},
    optional={"offset": LONGS},
)
ACTIONS = st.fixed_dictionaries(
    {
        "path": TEXTS.filter(bool),
        "partitionValues": st.dictionaries(st.sampled_from(["p", "ü/"]) | TEXTS, st.none() | TEXTS, max_size=3),
        "size": st.integers(0, 2**63 - 1),
        "modificationTime": LONGS,
        "dataChange": st.booleans(),
    },
    optional={
        "stats": STATS.map(json.dumps) | TEXTS,
        "deletionVector": VECTORS,
        "tags": st.dictionaries(TEXTS, st.none() | TEXTS, max_size=2),
        "baseRowId": LONGS,
        "defaultRowCommitVersion": LONGS,
        "clusteringProvider": TEXTS,
    },
)
FILES = st.lists(ACTIONS.map(actions.add), min_size=1, max_size=6)


def packed(adds: list[Add], metadata: Metadata = METADATA) -> Chunk:
    return Chunk(pack_rows(rows_of([(add, None) for add in adds]), indexed_fields(metadata)).content)


@settings(deadline=None, max_examples=examples(200))
@given(FILES)
def test_files_come_back_unchanged(adds: list[Add]) -> None:
    chunk = packed(adds)
    assert chunk.size == len(adds)
    assert list(chunk.files.adds()) == adds


def columns_of(columns: Any, fields: list[Field]) -> dict[str, Any]:
    """All columns that pruning may read, as JSON, which distinguishes 5 from 5.0."""
    found = {"rows": columns.num_records()}
    for field in fields:
        if field.in_partitions:
            found[str(field)] = list(map(str, columns.partition(field.path[0])))
        else:
            methods = (columns.minimum, columns.maximum, columns.null_count)
            found[str(field)] = [list(method(field.path)) for method in methods]
    return {name: json.dumps(values) for name, values in found.items()}


@settings(deadline=None, max_examples=examples(200))
@given(FILES, st.data())
def test_a_chunk_gives_pruning_the_columns_of_its_files(adds: list[Add], data: st.DataObject) -> None:
    fields = indexed_fields(METADATA)
    plain = FileColumns([add.partition_values for add in adds], [add.stats for add in adds])
    columns = ChunkColumns(packed(adds), range(len(adds)))
    assert columns_of(columns, fields) == columns_of(plain, fields)
    chosen = bytes(data.draw(st.lists(st.booleans(), min_size=len(adds), max_size=len(adds))))
    assert columns_of(columns.select(chosen), fields) == columns_of(plain.select(chosen), fields)


@settings(deadline=None, max_examples=examples(100))
@given(FILES, st.data())
def test_a_selection_of_a_chunk_has_the_selected_files(adds: list[Add], data: st.DataObject) -> None:
    files = IndexedFiles(packed(adds), range(len(adds)))
    begin, end = sorted(data.draw(st.tuples(st.integers(0, len(adds)), st.integers(0, len(adds)))))
    part = files.between(begin, end)
    assert list(part.adds()) == adds[begin:end]
    chosen = data.draw(st.lists(st.booleans(), min_size=end - begin, max_size=end - begin))
    expected = [add for add, is_chosen in zip(adds[begin:end], chosen, strict=True) if is_chosen]
    assert list(part.only(chosen).adds()) == expected
    assert part.only(chosen).num_files == len(expected)


def mapped(name: str, physical: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "long",
        "nullable": True,
        "metadata": {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": 1},
    }


def test_columns_are_found_by_their_physical_names() -> None:
    schema = json.dumps({"type": "struct", "fields": [mapped("day", "col-1"), mapped("id", "col-2")]})
    metadata = Metadata("m", schema, ("day",), configuration={"delta.columnMapping.mode": "name"})
    add = file(partition_values={"col-1": "5"}, stats='{"minValues":{"col-2":7}}')
    columns = ChunkColumns(packed([add], metadata), [0])
    assert [field.path for field in indexed_fields(metadata)] == [("col-1",), ("col-2",)]
    assert columns.partition("col-1") == ["5"]
    assert columns.minimum(("col-2",)) == [7]


def test_columns_beyond_the_indexed_ones_are_still_available_to_pruning() -> None:
    metadata = metadata_of("c1999", **{f"c{number}": "long" for number in range(2000)})
    fields = indexed_fields(metadata)
    assert [field.path[0] for field in fields] == ["c1999", *(f"c{number}" for number in range(32))]
    adds = [
        file(
            f"{number}", partition_values={"c1999": "1"}, stats=json.dumps({"minValues": {"c5": number, "c50": number}})
        )
        for number in range(3)
    ]
    columns = ChunkColumns(packed(adds, metadata), [0, 2])
    assert columns.minimum(("c5",)) == columns.minimum(("c50",)) == [0, 2]


UNORDERED = {
    "binary": "binary",
    "array": {"type": "array", "elementType": "long", "containsNull": True},
    "map": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    "variant": "variant",
    "empty struct": {"type": "struct", "fields": []},
    "void": "void",
    "interval": "interval year to month",
    "collated": "string collate UNICODE",
}


@pytest.mark.parametrize("data_type", UNORDERED)
@pytest.mark.parametrize("partition_columns", [(), ("c",)], ids=["data", "partition"])
def test_a_table_with_a_column_without_order_is_indexed(data_type: str, partition_columns: tuple[str, ...]) -> None:
    add = file(partition_values={"c": "x"}, stats='{"nullCount":{"c":0},"minValues":{"c":"AAAA"}}')
    chunk = packed([add], metadata_of(*partition_columns, c=UNORDERED[data_type], id="long"))
    assert list(chunk.files.adds()) == [add]


@pytest.mark.parametrize(
    "fields",
    [
        {"baseRowId": "5"},
        {"baseRowId": 5.5},
        {"tags": {"a": 1}},
        {"tags": {"a": {"b": 1}}},
        {"clusteringProvider": 5},
    ],
    ids=str,
)
def test_a_field_of_the_wrong_type_comes_back_unchanged_or_prevents_the_index(fields: dict[str, Any]) -> None:
    add = file(extra_fields=fields)
    try:
        chunk = packed([add])
    except Exception:  # noqa: BLE001 - without an index, the log is read
        return
    assert list(chunk.files.adds()) == [add]


@settings(deadline=None, max_examples=examples(200))
@given(st.binary(max_size=40))
def test_bytes_that_are_not_a_chunk_are_rejected(content: bytes) -> None:
    with pytest.raises(UnusableIndexError):
        Chunk(content)


def test_a_truncated_chunk_is_rejected() -> None:
    content = pack_rows(rows_of([(file(), None)]), indexed_fields(METADATA)).content
    for length in range(0, len(content), 7):
        with pytest.raises(UnusableIndexError):
            Chunk(content[:length])
