"""Random choices of columns of random files, as pyarrow reads them; and random damage, which is refused or harmless."""

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


def structs(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.dictionaries(st.sampled_from("abcé"), kinds, min_size=1, max_size=3).map(pa.struct)


KINDS: st.SearchStrategy[pa.DataType] = st.recursive(
    st.sampled_from(list(VALUES)),
    lambda kinds: structs(kinds) | kinds.map(pa.list_) | kinds.map(lambda kind: pa.map_(pa.string(), kind)),
    max_leaves=8,
)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    some: st.SearchStrategy[Any]
    if pa.types.is_struct(kind):
        some = st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    elif pa.types.is_map(kind):
        some = st.lists(st.tuples(VALUES[pa.string()], values(kind.item_type)), max_size=2)
    elif pa.types.is_list(kind):
        some = st.lists(values(kind.value_type), max_size=2)
    else:
        some = VALUES[kind]
    return st.none() | some


@st.composite
def files(draw: st.DrawFn) -> bytes:
    kind = draw(structs(KINDS))
    rows = draw(st.lists(st.fixed_dictionaries({field.name: values(field.type) for field in kind}), max_size=5))
    file = BytesIO()
    pq.write_table(
        pa.Table.from_pylist(rows, pa.schema(list(kind))),
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


def whole(leaf: Leaf) -> Leaf:
    """What stays or goes as one: the outermost list or map of a leaf, or the leaf itself."""
    repeated = [index for index, name in enumerate(leaf) if name in ("list", "key_value")]
    return leaf[: repeated[0]] if repeated else leaf


@settings(deadline=None, max_examples=examples(100))
@given(content=files(), data=st.data())
def test_it_is_read_as_by_a_reader_that_chooses_its_columns(content: bytes, data: st.DataObject) -> None:
    wanted = data.draw(st.sets(st.sampled_from(leaves(content))))
    kept = [leaf for leaf in leaves(content) if whole(leaf) in set(map(whole, wanted))]
    less = content + narrowed_footer(content, wanted.__contains__)
    assert leaves(less) == kept
    expected = pq.ParquetFile(BytesIO(content)).read([".".join(leaf) for leaf in kept])
    assert pq.ParquetFile(BytesIO(less)).read().to_pylist() == expected.to_pylist()
    if kept:
        assert pa.table(read_parquet(less).read_all()).to_pylist() == expected.to_pylist()


CHECKPOINT = checkpoint(MODERN_PROTOCOL, metadata(), add("a"), add("b", tags={"x": "y"}))
FOOTER_BYTES = int.from_bytes(CHECKPOINT[-8:-4], "little") + 8


def wanted(leaf: Leaf) -> bool:
    return leaf[0] == "metaData" or leaf[-1] in ("path", "key")


@settings(deadline=None, max_examples=examples(400))
@given(
    flips=st.lists(st.tuples(st.integers(1, FOOTER_BYTES), st.integers(1, 255)), max_size=4),
    cut=st.tuples(st.integers(0, FOOTER_BYTES), st.integers(0, 3)),
)
def test_damage_is_refused_or_leaves_a_footer(flips: list[tuple[int, int]], cut: tuple[int, int]) -> None:
    damaged = bytearray(CHECKPOINT)
    for place, change in flips:
        damaged[-place] ^= change
    start, length = len(damaged) - cut[0], cut[1]
    del damaged[start : start + length]
    content = bytes(damaged)
    try:
        tail = narrowed_footer(content, wanted)
    except ValueError:
        return
    assert narrowed_footer(content + tail, wanted) == tail
