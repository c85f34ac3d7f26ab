"""Versions, snapshots and timestamps of a table, and which tables are refused."""

import subprocess
import sys
import uuid

import pytest

from cli.embedded.ministack import EmbeddedAws
from core.delta.history import AfterHistoryError, BeforeHistoryError
from core.delta.log import commits, listing
from core.delta.tables import DeltaTables
from core.errors import (
    AnswerTooLargeError,
    DamagedLogError,
    MalformedRequestError,
    TableFilesError,
    UnsupportedOperationError,
)
from tests.unit.delta.builder import (
    PROTOCOL,
    TableInMemory,
    TableInS3,
    add,
    checkpoint,
    commit,
    metadata,
    name,
    paths,
    remove,
)


@pytest.fixture
def table() -> TableInMemory:
    return TableInMemory()


def test_a_new_table_is_read_at_its_latest_version(table):
    table.commit(0, PROTOCOL, metadata(), add("a"), add("b"))
    table.commit(1, remove("a"), add("c"))
    snapshot = DeltaTables().snapshot(table.storage())
    assert (snapshot.version, snapshot.timestamp, paths(snapshot)) == (1, 1000, ["b", "c"])


def test_a_table_may_have_any_prefix(aws: EmbeddedAws):
    table = TableInS3(aws, prefix=f"{uuid.uuid4()}/a b/100%/é#?&+=")
    table.commit(0, PROTOCOL, metadata(), add("a"))
    table.put(name(0, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a")))
    table.commit(1, add("b"))
    tables = DeltaTables()
    assert paths(tables.snapshot(table.storage())) == ["a", "b"]
    assert table.requests == ["GetObject", "ListObjectsV2", "GetObject", "GetObject"]
    assert [each.version for each in tables.commits(table.storage(), 0, 1)] == [0, 1]


def test_a_log_that_is_deleted_during_the_read_is_missing(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    table.commit(1, add("b"))
    table.s3.on_get = lambda key: key.endswith("_last_checkpoint") or table.s3.objects.clear()
    with pytest.raises(TableFilesError, match="^table files missing$"):
        DeltaTables().snapshot(table.storage())


@pytest.mark.parametrize("look_back", [0, 5, 100])
def test_a_version_older_than_the_hint_is_found_in_the_whole_log(table, monkeypatch, look_back):
    monkeypatch.setattr(listing, "LOOK_BACK", look_back)
    for version in range(21):
        table.commit(version, *([PROTOCOL, metadata()] if version == 0 else []), add(str(version)))
    for version in (10, 20):
        rows = [add(str(each)) for each in range(version + 1)]
        table.put(name(version, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), *rows))
    table.hint(20)
    tables = DeltaTables()
    for version in (20, 12, 3, 19, 0, 10, 20):
        assert tables.snapshot(table.storage(), version=version).num_files == version + 1


@pytest.mark.parametrize("look_back", [0, 100])
def test_the_error_for_a_version_that_was_cleaned_up_names_the_earliest(table, monkeypatch, look_back):
    monkeypatch.setattr(listing, "LOOK_BACK", look_back)
    table.put(name(10, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a")))
    table.hint(10)
    table.commit(10, add("a"))
    table.commit(11, add("b"))
    tables = DeltaTables()
    assert tables.snapshot(table.storage(), version=11).num_files == 2
    with pytest.raises(MalformedRequestError, match="truncated .* The earliest available version is 10."):
        tables.snapshot(table.storage(), version=9)
    assert tables.snapshot(table.storage(), version=10).num_files == 1


def test_a_timestamp_gives_the_version_that_was_current(table):
    table.commit(0, PROTOCOL, metadata(), add("a"), at_ms=1000)
    table.commit(1, add("b"), at_ms=2000)
    tables, storage = DeltaTables(), table.storage()
    for timestamp, before, after in ((1000, 0, 0), (1001, 0, 1), (2000, 1, 1)):
        assert tables.snapshot(storage, timestamp_ms=timestamp).version == before
        assert tables.version_at_or_before(storage, timestamp) == before
        assert tables.version_at_or_after(storage, timestamp) == after
    assert tables.version_at_or_after(storage, 0) == 0
    for read in (tables.version_at_or_before, lambda s, timestamp: tables.snapshot(s, timestamp_ms=timestamp)):
        with pytest.raises(BeforeHistoryError):
            read(storage, 999)
        with pytest.raises(AfterHistoryError):
            read(storage, 2001)
    with pytest.raises(AfterHistoryError):
        tables.version_at_or_after(storage, 2001)


def test_a_timestamp_is_compared_with_in_commit_timestamps(table):
    with_timestamps = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    table.commit(0, {"commitInfo": {"inCommitTimestamp": 10}}, PROTOCOL, with_timestamps, at_ms=9000)
    table.commit(1, {"commitInfo": {"inCommitTimestamp": 20}}, add("a"), at_ms=9001)
    tables, storage = DeltaTables(), table.storage()
    assert tables.version_at_or_after(storage, 11) == 1
    snapshot = tables.snapshot(storage, timestamp_ms=19)
    assert (snapshot.version, snapshot.timestamp) == (0, 10)


@pytest.mark.parametrize("hinted", [False, True])
def test_the_time_of_a_version_does_not_depend_on_the_start_of_the_listing(table, hinted):
    """S3 times are whole seconds, so commits within a second are distinguished by counting."""
    for version in range(8):
        table.commit(version, *([PROTOCOL, metadata()] if version == 0 else []), add(str(version)), at_ms=5000)
    table.put(name(4, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata()), at_ms=5000)
    if hinted:
        table.hint(4)
    tables, storage = DeltaTables(), table.storage()
    timestamp = tables.snapshot(storage).timestamp
    assert timestamp == 5007
    assert [each.timestamp for each in tables.commits(storage, 5, 7)] == [5005, 5006, 5007]
    assert tables.snapshot(storage, timestamp_ms=timestamp).version == 7


def test_a_version_that_does_not_exist_is_refused(table):
    table.commit(0, PROTOCOL, metadata())
    with pytest.raises(MalformedRequestError, match="Cannot load table version 1 as it does not exist"):
        DeltaTables().snapshot(table.storage(), version=1)


def upgraded(table):
    table.commit(0, PROTOCOL, metadata())
    table.commit(1, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v"]}})


@pytest.mark.parametrize(
    ("arrange", "error"),
    [
        (lambda table: None, TableFilesError),
        (lambda table: table.put(name(0), b""), DamagedLogError),
        (lambda table: table.put(name(0), commit(PROTOCOL, metadata())[:-20]), DamagedLogError),
        (lambda table: table.commit(1, PROTOCOL, metadata()), DamagedLogError),
        (lambda table: table.put(name(0, "checkpoint.parquet"), b"PAR1"), DamagedLogError),
        (upgraded, UnsupportedOperationError),
    ],
)
def test_the_error_for_an_unreadable_table_does_not_show_its_location(table, arrange, error):
    arrange(table)
    with pytest.raises(error) as raised:
        DeltaTables().snapshot(table.storage())
    assert raised.value.status == 400
    for secret in (table.location.bucket, table.location.prefix, "_delta_log", "s3:"):
        assert secret not in raised.value.message


def test_a_bucket_that_does_not_exist_is_reported_as_missing_files(aws: EmbeddedAws):
    table = TableInS3(aws)
    table.location = type(table.location)("no-such-bucket-anywhere", "x")
    with pytest.raises(TableFilesError, match="^table files missing$"):
        DeltaTables().snapshot(table.storage())


def test_the_latest_version_is_refused_if_the_log_has_a_gap(table):
    table.commit(0, PROTOCOL, metadata())
    table.commit(2, add("a"))
    with pytest.raises(DamagedLogError, match="the commit of version 1 is missing"):
        DeltaTables().latest_version(table.storage())


@pytest.mark.parametrize(
    ("needed", "not_needed"),
    [("core.delta.tables", "arro3.io"), ("core.delta.tables", "deltalake"), ("core.delta.reader", "deltalake")],
)
def test_versions_do_not_import_the_parquet_reader_and_nothing_imports_deltalake(needed, not_needed):
    imports = f"import sys, {needed}; sys.exit({not_needed!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", imports], check=False).returncode == 0


def test_a_log_replaced_within_a_second_is_detected_by_its_content(table):
    table.commit(0, PROTOCOL, metadata(), add("old"), at_ms=5000)
    tables = DeltaTables()
    assert paths(tables.snapshot(table.storage())) == ["old"]
    table.commit(0, PROTOCOL, metadata(), add("new"), at_ms=5000)
    assert paths(tables.snapshot(table.storage())) == ["new"]


def test_a_log_that_is_replaced_during_the_read_is_never_mixed_with_the_new_one(table):
    table.commit(0, PROTOCOL, metadata(), add("a0"))
    table.commit(1, add("a1"))

    def replace_log(key: str) -> None:
        table.s3.on_get = lambda _: None
        table.commit(0, PROTOCOL, metadata(), add("b0"))
        table.commit(1, add("b1"))

    tables = DeltaTables()
    assert tables.latest_version(table.storage()) == 1
    table.s3.on_get = replace_log
    assert paths(tables.snapshot(table.storage())) == ["b0", "b1"]


def test_commits_that_do_not_fit_in_memory_are_refused(table, monkeypatch):
    monkeypatch.setattr(commits, "MAX_COMMIT_BYTES", 1000)
    table.commit(0, PROTOCOL, metadata())
    table.commit(1, add("a", stats="x" * 500))
    with pytest.raises(AnswerTooLargeError, match="Ask the table's owner to create a checkpoint"):
        DeltaTables().snapshot(table.storage())
    assert len(list(DeltaTables().commits(table.storage(), 0, 1))) == 2
    table.commit(2, add("b", stats="x" * 1000))
    with pytest.raises(AnswerTooLargeError):
        DeltaTables().commits(table.storage(), 2, 2)


def test_a_range_is_refused_if_its_commits_were_cleaned_up(table):
    table.put(name(3, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a")))
    table.commit(4, add("b"))
    assert DeltaTables().snapshot(table.storage(), version=3).num_files == 1
    with pytest.raises(MalformedRequestError, match="truncated .* The earliest available version is 4"):
        DeltaTables().commits(table.storage(), 3, 4)
