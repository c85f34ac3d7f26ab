"""Checkpoints in Parquet: of any size, from any writer, valid or damaged."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from core.delta.log import checkpoint as checkpoint_module
from core.delta.log.checkpoint import Checkpoint, Totals
from core.delta.model import Add
from core.errors import DamagedLogError
from tests.unit.delta.builder import (
    MODERN_PROTOCOL,
    PROTOCOL,
    STRINGS,
    add,
    checkpoint,
    commit,
    metadata,
    parquet,
    remove,
    sidecar,
    vector,
)

FILES = [
    add("a", size=1, stats='{"numRecords":1}'),
    add("b", size=20, deletionVector=vector("one")),
    add("c", size=300, tags={"x": "y"}),
    add("b", size=4000, deletionVector=vector("two")),
    add("d", size=50000, p=None),
]
TOP = [MODERN_PROTOCOL, metadata()]


@pytest.fixture(params=["decoded", "encoded"])
def form(request, monkeypatch):
    """Kept decoded, or decoded each time the files are read."""
    monkeypatch.setattr(checkpoint_module, "DECODED_BYTES", 10**9 if request.param == "decoded" else 0)


def files(read: Checkpoint) -> list[Add]:
    return [file for _, batch in read.batches() for file in batch.adds()]


def sizes(read: Checkpoint) -> list[int]:
    return [file.size for file in files(read)]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("batch_rows", [1, 2, 3, 8192])
def test_the_batch_size_does_not_change_the_files(monkeypatch, batch_rows):
    monkeypatch.setattr(checkpoint_module, "BATCH_ROWS", batch_rows)
    read = Checkpoint([checkpoint(*TOP, remove("x"), *FILES[:3], remove("y"), *FILES[3:])])
    assert sizes(read) == [1, 20, 300, 4000, 50000]
    assert read.totals == Totals(5, 54321, 2)
    assert files(read) == files(read)


@pytest.mark.usefixtures("form")
def test_a_checkpoint_may_have_parts_and_a_manifest():
    read = Checkpoint([checkpoint(*FILES[1:3]), checkpoint(), checkpoint(*FILES[3:])], commit(*TOP, FILES[0]))
    assert sorted(sizes(read)) == [1, 20, 300, 4000, 50000]
    assert read.totals == Totals(5, 54321, 2)
    assert (read.protocol and read.protocol.min_reader_version, read.metadata and read.metadata.name) == (3, None)


@pytest.mark.parametrize("manifest", [True, False])
def test_a_checkpoint_lists_its_sidecars(manifest):
    named = [sidecar("one.parquet", b"12345"), sidecar("two.parquet", b"")]
    actions = [{"checkpointMetadata": {"version": 5}}, *TOP, *named, FILES[0]]
    read = Checkpoint([], commit(*actions)) if manifest else Checkpoint([checkpoint(*actions)])
    assert read.table_actions.sidecars == [("one.parquet", 5), ("two.parquet", 0)]
    assert sizes(read) == [1]


def test_totals_of_keys_count_only_the_files_with_these_keys():
    read = Checkpoint([checkpoint(*TOP, *FILES)])
    assert read.totals_of({"a", "unknown"}) == Totals(1, 1, 0)
    assert read.totals_of({("b", "utwo@1"), "b"}) == Totals(1, 4000, 1)
    assert read.totals_of({"a"}) == Totals(1, 1, 0)


@pytest.mark.usefixtures("form")
def test_optional_columns_may_be_missing():
    lean = checkpoint(
        add("a", size=3), stats=None, tags=None, deletionVector=None, baseRowId=None, clusteringProvider=None
    )
    assert files(Checkpoint([lean])) == [Add("a", {"p": "x"}, 3, 5, True, None)]
    assert files(Checkpoint([parquet(pa.table({"txn": [1]}))])) == []


@pytest.mark.usefixtures("form")
def test_fields_may_be_declared_as_never_null():
    """Arrow then has an empty path in rows that are not adds."""
    never_null = [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partitionValues", STRINGS, nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modificationTime", pa.int64(), nullable=False),
        pa.field("dataChange", pa.bool_(), nullable=False),
    ]
    versions = [pa.field(name, pa.int32(), nullable=False) for name in PROTOCOL["protocol"]]
    schema = pa.schema({"protocol": pa.struct(versions), "add": pa.struct(never_null)})
    added = {**add("a")["add"], "partitionValues": [("p", "x")]}
    rows = [{"protocol": None, "add": added}, {**PROTOCOL, "add": None}]
    read = Checkpoint([parquet(pa.Table.from_pylist(rows, schema))])
    assert read.protocol
    assert files(read) == [Add("a", {"p": "x"}, 1, 5, True, None)]
    assert read.totals == Totals(1, 1, 0)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("data_type", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_may_have_any_of_arrows_text_types(data_type):
    read = Checkpoint([checkpoint(add("a", stats="{}"), path=data_type, stats=data_type, clusteringProvider=data_type)])
    assert files(read) == [Add("a", {"p": "x"}, 1, 5, True, "{}")]


@pytest.mark.usefixtures("form")
def test_parsed_statistics_are_used_only_if_there_is_no_json():
    stats_type = pa.struct({"numRecords": pa.int64(), "nullCount": pa.struct({"id": pa.int64()})})
    parsed = {"numRecords": 2, "nullCount": {"id": None}}
    actions = [
        add("text", stats='{ "numRecords": 1 }', stats_parsed=parsed),
        add("columns", stats_parsed=parsed),
        add("neither"),
    ]
    stats = {file.path: file.stats for file in files(Checkpoint([checkpoint(*actions, stats_parsed=stats_type)]))}
    assert stats == {"text": '{ "numRecords": 1 }', "columns": '{"numRecords":2,"nullCount":{}}', "neither": None}
    lean = Checkpoint([checkpoint(actions[1], stats=None, stats_parsed=stats_type)])
    assert [file.stats for file in files(lean)] == ['{"numRecords":2,"nullCount":{}}']


def test_statistics_without_any_bound_are_null():
    stats_type = pa.struct({"minValues": pa.struct({"b": pa.binary()})})
    content = checkpoint(add("a", stats_parsed={"minValues": {"b": b"x"}}), stats=None, stats_parsed=stats_type)
    assert [file.stats for file in files(Checkpoint([content]))] == [None]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"PAR1",
        lambda _: b"\0" * 1000,
        lambda file: file[:200],
        lambda file: file[: len(file) // 2],
        lambda file: file[len(file) // 2 :],
        lambda file: file[:-60] + file[-30:],
        lambda file: file[:4] + bytes(len(file) // 2) + file[4 + len(file) // 2 :],
    ],
)
def test_a_damaged_file_is_refused(damage):
    with pytest.raises(DamagedLogError):
        files(Checkpoint([damage(checkpoint(*TOP, *FILES))]))


INVALID_ADDS = {
    "path of numbers": checkpoint(add(5), path=pa.int64()),  # type: ignore[arg-type]
    "path of bytes": checkpoint(add(b"a"), path=pa.binary()),  # type: ignore[arg-type]
    "no path": parquet(pa.table({"add": [{"size": 1}]})),
    "size of text": checkpoint(add("a", size="1"), size=pa.string()),  # type: ignore[arg-type]
    "size of fractions": checkpoint(add("a", size=1.5), size=pa.float64()),  # type: ignore[arg-type]
    "size out of range": checkpoint(add("a", size=2**63), size=pa.uint64()),
    "no size": checkpoint(add("a", size=None)),  # type: ignore[arg-type]
    "no time": checkpoint(add("a", modificationTime=None)),
    "stats of numbers": checkpoint(add("a", stats=5), stats=pa.int64()),
    "stats of bytes": checkpoint(add("a", stats=b"{}"), stats=pa.binary()),
    "partition values of numbers": checkpoint(
        add("a", p=5),
        partitionValues=pa.map_(pa.string(), pa.int64()),  # type: ignore[arg-type]
    ),
    "partition values by number": checkpoint(
        add("a", partitionValues={5: "x"}), partitionValues=pa.map_(pa.int64(), pa.string())
    ),
    "partition values of text": checkpoint(add("a", partitionValues="p=x"), partitionValues=pa.string()),
    "vector of text": checkpoint(add("a", deletionVector="u"), deletionVector=pa.string()),
    "vector without a name": checkpoint(add("a", deletionVector={"storageType": "u"})),
    "add is text": parquet(pa.table({"add": ["a"]})),
    "add is a list": parquet(pa.table({"add": [[1]]})),
    "protocol is a number": parquet(pa.table({"protocol": [1]})),
    "protocol of text": parquet(pa.table({"protocol": [{"minReaderVersion": "1", "minWriterVersion": "2"}]})),
    "metadata without a schema": checkpoint({"metaData": {"id": "1", "format": {"provider": "parquet"}}}),
    "metadata is text": parquet(pa.table({"metaData": ["m"]})),
    "sidecar is text": parquet(pa.table({"sidecar": ["s"]})),
    "sidecar without a size": parquet(pa.table({"sidecar": [{"path": "s"}]})),
}


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("content", INVALID_ADDS.values(), ids=INVALID_ADDS.keys())
def test_columns_of_the_wrong_types_are_refused(content):
    with pytest.raises(DamagedLogError):
        read_whole(Checkpoint([content]))


def read_whole(read: Checkpoint) -> None:
    """Reads the files, and the protocol and metadata, which are checked only if no commit replaces them."""
    files(read)
    _ = read.protocol, read.metadata


def test_a_damaged_manifest_is_refused():
    for damaged in (b"PAR1", b"{", commit({"sidecar": {"path": "a"}}), commit(add("a", size=2**63))):
        with pytest.raises(DamagedLogError):
            Checkpoint([], damaged)


def test_memory_and_disk_are_counted(monkeypatch):
    content = checkpoint(*TOP, *FILES)
    decoded = Checkpoint([content])
    monkeypatch.setattr(checkpoint_module, "DECODED_BYTES", 0)
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(content)
        file.flush()
        on_disk, in_memory = Checkpoint([file]), Checkpoint([content])
        assert (on_disk.disk_bytes, in_memory.disk_bytes) == (len(content), 0)
        assert in_memory.memory_bytes - on_disk.memory_bytes == len(content)
        assert decoded.memory_bytes > in_memory.memory_bytes + sum(len(file.path) for file in files(decoded))
        assert files(on_disk) == files(in_memory)


def test_a_temporary_file_is_removed_with_the_checkpoint():
    file = tempfile.NamedTemporaryFile(suffix=".parquet")  # noqa: SIM115
    file.write(checkpoint(*TOP, *FILES))
    file.flush()
    path = Path(file.name)
    read = Checkpoint([file])
    del file
    assert path.exists()
    del read
    assert not path.exists()
