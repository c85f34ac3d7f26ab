"""Random columns of random files, compared with pyarrow; and random damage, which is refused or harmless."""

from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from arro3.io import read_parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.log.footer import narrowed_footer
from tests.examples import examples
from tests.unit.delta.builder import MODERN_PROTOCOL, add, checkpoint, metadata

Leaf = tuple[str, ...]

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-5, 5),
    pa.string(): st.text("ab", max_size=3),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.decimal128(5, 2): st.decimals(-9, 9, places=2),
}


def structs(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.dictionaries(st.sampled_from("abcé"), types, min_size=1, max_size=3).map(pa.struct)


TYPES: st.SearchStrategy[pa.DataType] = st.recursive(
    st.sampled_from(list(VALUES)),
    lambda types: structs(types) | types.map(pa.list_) | types.map(lambda value: pa.map_(pa.string(), value)),
    max_leaves=8,
)


def values(data_type: pa.DataType) -> st.SearchStrategy[Any]:
    value: st.SearchStrategy[Any]
    if pa.types.is_struct(data_type):
        value = st.fixed_dictionaries({field.name: values(field.type) for field in data_type})
    elif pa.types.is_map(data_type):
        value = st.lists(st.tuples(VALUES[pa.string()], values(data_type.item_type)), max_size=2)
    elif pa.types.is_list(data_type):
        value = st.lists(values(data_type.value_type), max_size=2)
    else:
        value = VALUES[data_type]
    return st.none() | value


@st.composite
def files(draw: st.DrawFn) -> bytes:
    columns = draw(structs(TYPES))
    rows = draw(st.lists(st.fixed_dictionaries({field.name: values(field.type) for field in columns}), max_size=5))
    file = BytesIO()
    pq.write_table(
        pa.Table.from_pylist(rows, pa.schema(list(columns))),
        file,
        row_group_size=draw(st.integers(1, 5)),
        write_page_index=draw(st.booleans()),
        data_page_version=draw(st.sampled_from(["1.0", "2.0"])),
        compression=draw(st.sampled_from(["none", "snappy", "zstd"])),
    )
    return file.getvalue()


def leaves(content: bytes) -> list[Leaf]:
    columns = pq.ParquetFile(BytesIO(content)).schema
    return [tuple(columns.column(index).path.split(".")) for index in range(len(columns))]


def unit(leaf: Leaf) -> Leaf:
    """The unit that is kept or dropped: the outermost list or map of a leaf, or the leaf itself."""
    repeated = [index for index, name in enumerate(leaf) if name in ("list", "key_value")]
    return leaf[: repeated[0]] if repeated else leaf


@settings(deadline=None, max_examples=examples(100))
@given(content=files(), data=st.data())
def test_a_narrowed_file_reads_like_the_selected_columns(content: bytes, data: st.DataObject) -> None:
    wanted = data.draw(st.sets(st.sampled_from(leaves(content))))
    kept = [leaf for leaf in leaves(content) if unit(leaf) in set(map(unit, wanted))]
    narrowed = content + narrowed_footer(content, wanted.__contains__)
    assert leaves(narrowed) == kept
    expected = pq.ParquetFile(BytesIO(content)).read([".".join(leaf) for leaf in kept])
    assert pq.ParquetFile(BytesIO(narrowed)).read().to_pylist() == expected.to_pylist()
    if kept:
        assert pa.table(read_parquet(narrowed).read_all()).to_pylist() == expected.to_pylist()


CHECKPOINT = checkpoint(MODERN_PROTOCOL, metadata(), add("a"), add("b", tags={"x": "y"}))
FOOTER_BYTES = int.from_bytes(CHECKPOINT[-8:-4], "little") + 8


def wanted(leaf: Leaf) -> bool:
    return leaf[0] == "metaData" or leaf[-1] in ("path", "key")


@settings(deadline=None, max_examples=examples(400))
@given(
    flips=st.lists(st.tuples(st.integers(1, FOOTER_BYTES), st.integers(1, 255)), max_size=4),
    cut=st.tuples(st.integers(0, FOOTER_BYTES), st.integers(0, 3)),
)
def test_damage_is_refused_or_leaves_a_valid_footer(flips: list[tuple[int, int]], cut: tuple[int, int]) -> None:
    damaged = bytearray(CHECKPOINT)
    for offset, change in flips:
        damaged[-offset] ^= change
    start, length = len(damaged) - cut[0], cut[1]
    del damaged[start : start + length]
    content = bytes(damaged)
    try:
        tail = narrowed_footer(content, wanted)
    except ValueError:
        return
    assert narrowed_footer(content + tail, wanted) == tail
