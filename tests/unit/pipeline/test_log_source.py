"""The log source returns the same files as a snapshot of `core.delta`, for every kind of log."""

import tempfile
from io import BytesIO
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.delta.tables import DeltaTables
from core.errors import ChangedLogError, DamagedLogError, SharingError
from pipeline.log import checkpoint as checkpoint_module
from pipeline.log import commits, rows
from pipeline.log.rows import FILE
from pipeline.log.snapshot_info import segment_of
from pipeline.spark import source
from pipeline.spark.source import LogReader, options
from pipeline.storage import TableStorage
from tests.conftest import GOLDEN_TABLES
from tests.examples import examples
from tests.golden.folder import GoldenTable, table_parameters
from tests.property.delta_history import STEPS, History, Step
from tests.unit.delta.builder import (
    MODERN_PROTOCOL,
    PROTOCOL,
    TableInMemory,
    add,
    checkpoint,
    commit,
    compaction,
    metadata,
    name,
    parquet,
    remove,
    v2_name,
    vector,
)
from tests.unit.delta.log.test_checkpoint import INVALID_ADDS
from tests.unit.delta.test_reader import NOT_RECONCILED
from tests.unit.pipeline.log_rows import in_memory, in_order, on_disk, read_log, rows_of

DICTIONARY = pa.dictionary(pa.int32(), pa.string())


def check_as_core(in_memory: TableInMemory, table: TableStorage, version: int | None = None) -> None:
    """Both return the same snapshot, or both raise the same error."""
    try:
        snapshot = DeltaTables().snapshot(in_memory.storage(), version=version)
        adds = in_order(snapshot.adds())
    except SharingError as expected:
        with pytest.raises(type(expected)) as raised:
            read_log(table, version)
        assert raised.value.message == expected.message
        if isinstance(expected, DamagedLogError):
            assert isinstance(raised.value, DamagedLogError)
            assert (raised.value.file, raised.value.line) == (expected.file, expected.line)
        return
    info, files = read_log(table, version)
    assert in_order(files) == adds
    for attribute in ("version", "timestamp", "protocol", "metadata"):
        assert getattr(info, attribute) == getattr(snapshot, attribute)


@pytest.fixture(params=table_parameters(GOLDEN_TABLES))
def golden(request: pytest.FixtureRequest) -> GoldenTable:
    return request.param


def test_every_version_of_a_golden_table_is_read_as_core_reads_it(golden: GoldenTable) -> None:
    table = TableStorage(golden.directory.as_uri())
    for version in (None, *golden.log.versions):
        check_as_core(in_memory(golden.directory), table, version)


@pytest.fixture(params=["normal", "tiny"])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiny slices, each row group and each commit is its own slice."""
    if request.param == "tiny":
        monkeypatch.setattr(source, "SLICE_BYTES", 1)
        for module in (rows, checkpoint_module, commits):
            monkeypatch.setattr(module, "BATCH_ROWS", 2)


@pytest.mark.usefixtures("slices")
@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, min_size=1, max_size=7), data=st.data())
def test_any_history_is_read_as_core_reads_it(steps: list[Step], data: st.DataObject) -> None:
    history = History(TableInMemory())
    for step in steps:
        history.commit(step)
        for shape in step.shapes:
            history.shape(shape, step.reach)
    version = data.draw(st.none() | st.integers(history.earliest, history.latest.version))
    with tempfile.TemporaryDirectory() as folder:
        check_as_core(history.table, on_disk(history.table, Path(folder)), version)


VECTOR = FILE.field("deletionVector").type
VECTORS = [add("a", deletionVector=vector("v", offset=offset)) for offset in (None, 0)]
PARSED = pa.struct(
    {"numRecords": pa.int64(), "minValues": pa.struct({"d": pa.date32(), "t": pa.timestamp("us", "UTC")})}
)
UNUSUAL = {
    "vectors": checkpoint(add("a"), *VECTORS),
    "vectors with 64-bit sizes": checkpoint(
        *VECTORS, deletionVector=pa.struct([*list(VECTOR)[:2], pa.field("offset", pa.int32()), *list(VECTOR)[3:]])
    ),
    "tags": checkpoint(add("a"), add("b", tags={"k": None, "ü": '"'}, baseRowId=2**62, clusteringProvider="")),
    "no partition values": checkpoint(add("a"), add("b", partitionValues=None)),
    "no dataChange": checkpoint(add("a", dataChange=None)),
    "32-bit sizes": checkpoint(add("a"), size=pa.int32()),
    "a negative size": checkpoint(add("a", size=-1)),
    "empty paths": checkpoint(add(""), add("b")),
    "large strings": checkpoint(add("a", stats="{}"), path=pa.large_string(), stats=pa.large_string()),
    "dictionaries": checkpoint(add("a", stats="{}"), path=DICTIONARY, stats=DICTIONARY),
    "parsed statistics": checkpoint(
        add("a", stats="{}"),
        add("b", stats_parsed={"numRecords": 2, "minValues": {"d": 19000, "t": 1_700_000_000_123_456}}),
        add("c"),
        stats_parsed=PARSED,
    ),
    "only parsed statistics": checkpoint(add("b", stats_parsed={"numRecords": 2}), stats=None, stats_parsed=PARSED),
    "no files": checkpoint(remove("a")),
    "no add column": parquet(pa.table({"txn": [1]})),
    "cut off": checkpoint(add("a"))[:-20],
    "overwritten": b"PAR1" + bytes(2000),
    **INVALID_ADDS,
}


@pytest.mark.parametrize("content", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_an_unusual_checkpoint_is_read_as_core_reads_it(content: bytes, tmp_path: Path) -> None:
    table = TableInMemory()
    table.put(name(1, "checkpoint.0000000001.0000000002.parquet"), checkpoint(MODERN_PROTOCOL, metadata(), add("z")))
    table.put(name(1, "checkpoint.0000000002.0000000002.parquet"), content)
    table.commit(2, add("later"))
    check_as_core(table, on_disk(table, tmp_path))


NO_SCHEMA = {"metaData": {"id": "1", "format": {"provider": "parquet"}}}


@pytest.mark.parametrize("start", ["commit", "checkpoint", "manifest"])
def test_an_invalid_metadata_that_was_replaced_is_tolerated(start: str, tmp_path: Path) -> None:
    table, first = TableInMemory(), (MODERN_PROTOCOL, NO_SCHEMA, add("a"))
    if start == "commit":
        table.commit(0, *first)
    elif start == "checkpoint":
        table.put(name(0, "checkpoint.parquet"), checkpoint(*first))
    else:
        table.put(v2_name(0, "json"), commit(*first))
    table.commit(1, NO_SCHEMA, add("b"))
    table.commit(2, metadata(), add("c"))
    table.commit(3, add("d"))
    storage = on_disk(table, tmp_path)
    assert [add.path for add in in_order(read_log(storage)[1])] == ["a", "b", "c", "d"]
    for version in range(4):
        check_as_core(table, storage, version)


@pytest.mark.parametrize("deleted", [(), (2,)], ids=["with its commits", "without them"])
def test_a_compaction_that_is_not_reconciled_is_read_as_core_reads_it(deleted: tuple[int, ...], tmp_path: Path) -> None:
    for number, content in enumerate(NOT_RECONCILED.values()):
        table = TableInMemory()
        table.commit(0, MODERN_PROTOCOL, metadata(), add("a"))
        table.commit(1, remove("a"), add("b"), metadata(name="old"))
        table.commit(2, remove("b"), add("a", size=20), metadata(name="new"))
        table.commit(3, add("c", size=300))
        table.put(compaction(1, 3), content)
        table.commit(4, add("d"))
        table.delete(*map(name, deleted))
        check_as_core(table, on_disk(table, tmp_path / str(number)))


BROKEN = {
    "not an action": b"[]",
    "cut off": commit(add("a"))[:-9],
    "an add without a size": commit({"add": {"path": "a"}}),
    "a remove without a path": commit({"remove": {}}),
    "two protocols": commit(MODERN_PROTOCOL, PROTOCOL),
    "metadata without a schema": commit({"metaData": {"id": "1", "format": {"provider": "parquet"}}}),
    "a timestamp that is a string": commit({"commitInfo": {"inCommitTimestamp": "1"}}),
    "a feature of the future": commit({"protocol": {**MODERN_PROTOCOL["protocol"], "readerFeatures": ["new"]}}),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_commit_raises_the_error_of_core(content: bytes, tmp_path: Path) -> None:
    table = TableInMemory()
    table.commit(0, MODERN_PROTOCOL, metadata())
    table.put(name(1), content)
    table.commit(2, add("later"))
    with pytest.raises(SharingError):
        DeltaTables().snapshot(table.storage())
    check_as_core(table, on_disk(table, tmp_path))


def test_an_empty_folder_raises_the_error_of_core(tmp_path: Path) -> None:
    check_as_core(TableInMemory(), TableStorage(tmp_path.as_uri()))


def test_a_log_that_was_replaced_after_its_segment_was_chosen_is_detected(tmp_path: Path) -> None:
    table = TableInMemory()
    table.commit(0, PROTOCOL, metadata())
    table.commit(1, add("a"))
    storage = on_disk(table, tmp_path)
    segment = segment_of(storage.open())
    (tmp_path / name(1)).write_bytes(commit(add("another")))
    with pytest.raises(ChangedLogError):
        list(rows_of(storage, segment, "commits"))


def test_slices_have_about_the_same_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableInMemory()
    rows = pq.read_table(BytesIO(checkpoint(PROTOCOL, metadata(), *(add(f"{number}") for number in range(998)))))
    table.put(name(1, "checkpoint.parquet"), parquet(rows, row_group_size=100))
    for version in range(2, 12):
        table.commit(version, add(f"of {version}"))
    storage = on_disk(table, tmp_path)
    segment = segment_of(storage.open())
    first = pq.read_metadata(tmp_path / name(1, "checkpoint.parquet")).row_group(0)
    group_bytes = sum(first.column(leaf).total_compressed_size for leaf in range(first.num_columns))
    monkeypatch.setattr(source, "SLICE_BYTES", 4 * group_bytes)
    monkeypatch.setattr(source, "COMMIT_BYTES", group_bytes)
    checkpoint_slices = LogReader(options(storage, segment, "checkpoint")).partitions()
    groups = [piece.row_groups for each in checkpoint_slices for piece in each.pieces]
    assert sum(map(len, groups)) == len({*chain.from_iterable(groups)}) == 10
    assert 2 <= len(groups) <= 3
    commit_slices = LogReader(options(storage, segment, "commits")).partitions()
    assert [len(each.commits) for each in commit_slices] == [4, 4, 2]
