"""Footers with fewer columns: what readers see, and which footers are refused."""

import tempfile
from collections.abc import Callable, Collection
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from arro3.io import read_parquet, write_parquet
from deltalake import DeltaTable, write_deltalake

from core.delta.log import footer as footer_module
from core.delta.log.footer import narrowed_footer
from tests.unit.delta.builder import ADD, CHECKPOINT, MODERN_PROTOCOL, add, checkpoint, metadata, parquet, vector

Leaf = tuple[str, ...]
Wanted = Callable[[Leaf], bool]

WANTED = {("add", "path"), ("add", "size")}
ROWS = [
    MODERN_PROTOCOL,
    metadata(configuration={"a": "b"}),
    *(add(f"f{n}", size=n, tags={"t": "u"}) for n in range(50)),
]
ROWS[5]["add"]["deletionVector"] = vector("one")


def needed_for_totals(leaf: Leaf) -> bool:
    return leaf[0] in ("protocol", "metaData", "sidecar") or leaf in WANTED or leaf[:2] == ("add", "deletionVector")


def without_parsed(leaf: Leaf) -> bool:
    return leaf[:2] not in (("add", "stats_parsed"), ("add", "partitionValues_parsed"))


def leaves(content: bytes) -> list[Leaf]:
    columns = pq.ParquetFile(BytesIO(content)).schema
    return [tuple(columns.column(index).path.split(".")) for index in range(len(columns))]


def narrowed(content: bytes, wanted: Wanted) -> bytes:
    return content + narrowed_footer(content, wanted)


def by_pyarrow(content: bytes, columns: Collection[Leaf] | None = None) -> list[dict[str, Any]]:
    names = None if columns is None else [".".join(leaf) for leaf in columns]
    return pq.ParquetFile(BytesIO(content)).read(names).to_pylist()


def by_arro3(content: bytes) -> list[dict[str, Any]]:
    return pa.table(read_parquet(content).read_all()).to_pylist()


def assert_narrowed(content: bytes, wanted: Wanted) -> None:
    columns = [leaf for leaf in leaves(content) if wanted(leaf)]
    result = narrowed(content, wanted)
    assert leaves(result) == columns
    assert by_arro3(result) == by_pyarrow(result) == by_pyarrow(content, columns)


def assert_refused(content: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        for form in (content, file):
            with pytest.raises(ValueError):  # noqa: PT011 (callers do not distinguish them)
                narrowed_footer(form, lambda leaf: True)


def with_footer(footer: bytes, magic: bytes = b"PAR1") -> bytes:
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + magic


def footer_of(content: bytes) -> bytes:
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


def with_parsed_stats() -> pa.Table:
    bounds = pa.struct({"id": pa.int64(), "inner": pa.struct({"day": pa.date32(), "time": pa.timestamp("us", "UTC")})})
    parsed = pa.struct({"numRecords": pa.int64(), "minValues": bounds, "maxValues": bounds})
    schema = pa.schema({**CHECKPOINT, "add": pa.struct({**ADD, "stats_parsed": parsed})})
    table = pq.read_table(BytesIO(checkpoint(*ROWS)))
    rows = [dict(row) for row in table.to_pylist()]
    for number, row in enumerate(row["add"] for row in rows if row["add"]):
        row["stats_parsed"] = {"numRecords": number, "minValues": {"id": number, "inner": {"day": number}}}
    return pa.Table.from_pylist(rows, schema)


@pytest.mark.parametrize("wanted", [needed_for_totals, without_parsed, WANTED.__contains__])
class TestFilesOfEveryWriter:
    @pytest.mark.parametrize(
        "options",
        [
            {"row_group_size": 7},
            {"row_group_size": 1, "compression": "none", "use_dictionary": False},
            {"compression": "zstd", "write_page_index": True, "max_rows_per_page": 5},
            {"compression": "snappy", "data_page_version": "2.0", "write_page_checksum": True},
            {"version": "1.0", "store_schema": False, "write_statistics": False, "use_compliant_nested_type": False},
            {"sorting_columns": [pq.SortingColumn(3), pq.SortingColumn(0)], "use_deprecated_int96_timestamps": True},
        ],
    )
    def test_pyarrow(self, options, wanted):
        assert_narrowed(parquet(with_parsed_stats(), **options), wanted)

    def test_arrow_rs_with_bloom_filters(self, wanted):
        file = BytesIO()
        write_parquet(with_parsed_stats(), file, bloom_filter_enabled=True, max_row_group_size=20)
        assert_narrowed(file.getvalue(), wanted)

    def test_deltalake(self, wanted, tmp_path):
        for number in range(3):
            write_deltalake(tmp_path, pa.table({"id": [number], "p": ["x"]}), mode="append", partition_by=["p"])
        DeltaTable(tmp_path).create_checkpoint()
        (file,) = tmp_path.glob("_delta_log/*.parquet")
        assert_narrowed(file.read_bytes(), wanted)

    def test_spark(self, wanted, golden_tables: Path):
        files = [*golden_tables.glob("*/_delta_log/*.parquet"), *golden_tables.glob("*/_delta_log/_sidecars/*.parquet")]
        assert len(files) > 10
        for file in files:
            assert_narrowed(file.read_bytes(), wanted)


class TestTheNewFooter:
    def test_it_is_the_same_for_a_file_and_for_bytes(self):
        content = checkpoint(*ROWS)
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            tail = narrowed_footer(file, needed_for_totals)
            assert tail == narrowed_footer(content, needed_for_totals)
            file.seek(0, 2)
            file.write(tail)
            file.flush()
            assert pa.table(read_parquet(file.name).read_all()).to_pylist() == by_arro3(content + tail)

    def test_another_footer_can_replace_it(self):
        content = checkpoint(*ROWS)
        result = narrowed(content, needed_for_totals)
        assert narrowed(result, WANTED.__contains__)[len(result) :] == narrowed_footer(content, WANTED.__contains__)
        assert by_arro3(result[: len(content)]) == by_arro3(content)

    def test_the_number_of_rows_stays_without_any_column(self):
        content = parquet(pa.table({"a": range(10)}), row_group_size=4)
        result = narrowed(content, lambda leaf: False)
        assert leaves(result) == []
        assert pq.read_metadata(BytesIO(result)).num_rows == 10
        assert sum(batch.num_rows for batch in read_parquet(result)) == 10

    def test_a_footer_with_all_columns_loses_nothing(self):
        content = checkpoint(*ROWS)
        assert by_pyarrow(narrowed(content, lambda leaf: True)) == by_pyarrow(content)

    def test_a_file_without_rows_is_narrowed(self):
        assert_narrowed(checkpoint(), WANTED.__contains__)

    @pytest.mark.parametrize("part", ["key", "value"])
    def test_a_map_stays_whole(self, part):
        result = narrowed(checkpoint(*ROWS), lambda leaf: leaf == ("add", "partitionValues", "key_value", part))
        assert by_arro3(result)[-1] == {"add": {"partitionValues": [("p", "x")]}}

    def test_a_list_stays_whole(self):
        content = parquet(pa.table({"a": [[{"x": 1, "y": {"z": [2]}}], []], "b": [3, 4]}))
        result = narrowed(content, lambda leaf: leaf == ("a", "list", "element", "y", "z", "list", "element"))
        assert by_arro3(result) == [{"a": [{"x": 1, "y": {"z": [2]}}]}, {"a": []}]

    def test_lists_of_more_than_fourteen_columns_are_encoded_correctly(self):
        content = parquet(pa.table({f"c{number}": [number] for number in range(300)}))
        for count in (14, 15, 16, 127, 128, 299):
            assert_narrowed(content, {(f"c{number}",) for number in range(count)}.__contains__)

    def test_it_drops_fields_that_refer_to_columns_by_number(self):
        content = parquet(pa.table({"a": [1], "b": [2]}), sorting_columns=[pq.SortingColumn(1)])
        result = pq.read_metadata(BytesIO(narrowed(content, lambda leaf: leaf == ("a",))))
        assert pq.read_metadata(BytesIO(content)).row_group(0).sorting_columns
        assert not result.row_group(0).sorting_columns
        assert not result.metadata

    def test_it_keeps_the_statistics_of_a_column(self):
        content = parquet(pa.table({"a": [1, 2], "b": ["x", "é"]}))
        result = pq.read_metadata(BytesIO(narrowed(content, lambda leaf: leaf == ("b",))))
        whole = pq.read_metadata(BytesIO(content))
        assert whole.row_group(0).column(1).statistics.max == "é"
        assert result.row_group(0).column(0).statistics == whole.row_group(0).column(1).statistics

    def test_extensions_are_dropped_and_long_field_numbers_are_read(self):
        content = parquet(pa.table({"a": [1], "b": [2]}))
        footer = footer_of(content)
        assert footer[0] == 0x15
        long_form = b"\x05\x02" + footer[1:-1]
        extended = long_form + b"\x08\xfe\xff\x03\x09extension\x00"
        assert narrowed_footer(content + with_footer(extended), lambda leaf: True) == narrowed_footer(
            content, lambda leaf: True
        )


class Kms(pe.KmsClient):
    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return key_bytes.hex().encode()

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return bytes.fromhex(wrapped_key.decode())


def encrypted(**options: Any) -> bytes:
    config = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["a"]}, **options)
    factory = pe.CryptoFactory(lambda _: Kms())
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    return parquet(pa.table({"a": [1], "b": [2]}), encryption_properties=properties)


def element(name: bytes = b"x", *, children: bytes | None = None, leaf: bool = False) -> bytes:
    """An element of a schema: type (1) if it is a leaf, name (4), number of children (5)."""
    head = b"\x15\x02\x38" if leaf else b"\x48"
    count = b"" if children is None else b"\x15" + children
    return head + bytes([len(name)]) + name + count + b"\0"


def schema(*elements: bytes) -> bytes:
    """A footer with a schema of fewer than 15 elements and no row groups."""
    return b"\x29" + bytes([len(elements) << 4 | 12]) + b"".join(elements) + b"\x29\x0c\0"


ROOT = element(children=b"\x02")
VERSIONED = b"\x15\x02\x19" + schema(ROOT, element(leaf=True))[1:]
MANY = b"\xff\xff\xff\xff\x0f"

REFUSED = {
    "an empty file": b"",
    "another file": b"not Parquet at all",
    "only a length": b"\0\0\0\0PAR1",
    "longer than the file": b"PAR1\x40\0\0\0PAR1",
    "no fields": with_footer(b"\0"),
    "an encrypted footer": with_footer(footer_of(checkpoint()), b"PARE"),
    "a list bomb": with_footer(b"\x39" + b"\x19" * 100_000),
    "a struct bomb": with_footer(b"\x3c" + b"\x1c" * 100_000),
    "a number without end": with_footer(b"\x15" + b"\xff" * 100_000),
    "a number of eleven bytes": with_footer(VERSIONED.replace(b"\x02", b"\x82" + b"\x80" * 9 + b"\0", 1)),
    "a length past the end": with_footer(b"\x18" + MANY + b"\0"),
    "more elements than bytes": with_footer(b"\x29\xfc\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0" * 100_000),
    "more values than bytes": with_footer(b"\x39\xf5\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0" * 100_000),
    "a map": with_footer(b"\x1b\0\0"),
    "an unknown type": with_footer(b"\x1f\0"),
    "a schema that is not a list": with_footer(b"\x25\x02\0"),
    "a schema of numbers": with_footer(b"\x29\x15\x02\0"),
    "a schema without a root": with_footer(schema()),
    "a schema with two roots": with_footer(schema(element(), element())),
    "more children than elements": with_footer(schema(element(children=MANY), element(leaf=True))),
    "a group without children": with_footer(schema(ROOT, element())),
    "a group that is a leaf": with_footer(schema(ROOT, element(leaf=True, children=b"\x02"), element(leaf=True))),
    "a negative number of children": with_footer(schema(ROOT, element(children=b"\x01"))),
    "a leaf without a name": with_footer(schema(ROOT, b"\x15\x02\0")),
    "a name that is not text": with_footer(schema(ROOT, element(b"\xff", leaf=True))),
    "a name that is a number": with_footer(schema(ROOT, b"\x15\x02\x35\x02\0")),
    "a number of children that is text": with_footer(schema(b"\x48\x01x\x18\x01x\0", element(leaf=True))),
    "no row groups": with_footer(schema(ROOT, element(leaf=True))[:-3] + b"\0"),
    "fewer columns than leaves": with_footer(
        schema(ROOT, element(leaf=True))[:-2] + b"\x1c\x19\x0c\0\0"  # one row group without columns
    ),
    "a deep schema": with_footer(b"\x29\xfc\x65" + ROOT * 100 + element(leaf=True) + b"\x29\x0c\0"),
}


class TestRefusedFooters:
    @pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED.keys())
    def test_an_unusual_footer_is_refused(self, content):
        assert_refused(content)

    def test_the_parts_of_the_refused_footers_are_valid(self):
        content = with_footer(schema(ROOT, element(leaf=True)))
        assert narrowed_footer(content, lambda leaf: True) == content[4:]
        assert narrowed_footer(with_footer(VERSIONED), lambda leaf: True) == with_footer(VERSIONED)[4:]
        deep = with_footer(b"\x29\xfc\x14" + ROOT * 19 + element(leaf=True) + b"\x29\x0c\0")
        assert narrowed_footer(deep, lambda leaf: True) == deep[4:]
        unknown_field = with_footer(schema(ROOT, element(leaf=True)[:-1] + b"\x01\x50\0"))
        assert narrowed_footer(unknown_field, lambda leaf: True) == content[4:]

    @pytest.mark.parametrize("options", [{}, {"plaintext_footer": True}])
    def test_encrypted_files_are_refused(self, options):
        with pytest.raises(ValueError, match="encrypted"):
            narrowed_footer(encrypted(**options), lambda leaf: True)

    @pytest.mark.parametrize("limit", ["MAX_FOOTER_BYTES", "MAX_STRUCTS", "MAX_DEPTH"])
    def test_a_file_is_refused_above_a_limit(self, limit, monkeypatch):
        content = checkpoint(*ROWS)
        narrowed_footer(content, lambda leaf: True)
        monkeypatch.setattr(footer_module, limit, 2)
        assert_refused(content)

    def test_every_truncated_footer_is_refused(self):
        footer = footer_of(parquet(pa.table({"a": [1], "b": ["x"]})))
        for length in range(len(footer)):
            assert_refused(with_footer(footer[:length]))
