"""`DeltaTables` over the embedded S3, because `deltalake`, the judge, speaks to S3 itself."""

import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from cli.embedded.ministack import EmbeddedAws
from core.delta.tables import DeltaTables
from core.errors import MalformedRequestError, SharingError, TableFilesError, UnsupportedOperationError
from tests.unit.delta.builder import PROTOCOL, TableInS3, add, checkpoint, commit, metadata, name, remove


@pytest.fixture
def table(aws: EmbeddedAws) -> TableInS3:
    return TableInS3(aws)


def paths(snapshot) -> list[str]:
    return [file.path for file in snapshot.adds()]


def test_a_new_table_is_read_at_its_latest_version(table):
    table.commit(0, PROTOCOL, metadata(), add("a"), add("b"))
    table.commit(1, remove("a"), add("c"))
    snapshot = DeltaTables().snapshot(table.storage())
    assert (snapshot.version, paths(snapshot)) == (1, ["b", "c"])


def test_a_table_lies_anywhere_in_a_bucket(aws):
    table = TableInS3(aws, prefix=f"{uuid.uuid4()}/a b/100%/é#?&+=")
    table.commit(0, PROTOCOL, metadata(), add("a"))
    assert DeltaTables().snapshot(table.storage()).num_files == 1


def test_a_warm_request_with_nothing_new_costs_one_listing_and_gives_the_same_snapshot(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    first = tables.snapshot(table.storage())
    table.requests.clear()
    assert tables.snapshot(table.storage()) is first
    assert tables.latest_version(table.storage()) == 0
    assert table.requests == ["ListObjectsV2", "ListObjectsV2"]


def test_a_new_commit_is_seen_at_once_and_only_it_is_read(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.commit(1, add("b"))
    table.requests.clear()
    assert paths(tables.snapshot(table.storage())) == ["a", "b"]
    assert table.requests == ["ListObjectsV2", "GetObject"]


def test_new_commits_that_a_new_checkpoint_replaced_are_read_from_it(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.put(name(2, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("b")))
    table.commit(3, add("c"))
    assert paths(tables.snapshot(table.storage())) == ["b", "c"]


def test_a_new_checkpoint_does_not_hide_the_commits_before_it(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.commit(1, add("b"))
    table.commit(2, remove("a"))
    table.put(name(2, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("b")))
    table.commit(3, add("c"))
    assert paths(tables.snapshot(table.storage())) == ["b", "c"]


def test_a_log_that_was_cleaned_up_behind_a_look_is_looked_at_anew(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    table.commit(1, add("b"))
    table.commit(2, add("c"))
    tables = DeltaTables()
    assert tables.latest_version(table.storage()) == 2
    table.put(name(1, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a"), add("b")))
    table.delete(name(0))
    table.delete(name(1))
    assert paths(tables.snapshot(table.storage())) == ["a", "b", "c"]


def test_the_latest_version_by_its_number_is_not_read_again(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    latest = tables.snapshot(table.storage())
    table.requests.clear()
    assert tables.snapshot(table.storage(), version=0) == latest
    assert table.requests == ["ListObjectsV2"]


def test_within_the_accepted_staleness_the_log_is_not_looked_at(table):
    clock = [1000.0]
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables(now=lambda: clock[0])
    tables.snapshot(table.storage())
    table.commit(1, add("b"))
    table.requests.clear()

    clock[0] += 9
    assert tables.latest_version(table.storage(), staleness_seconds=10) == 0
    assert tables.snapshot(table.storage(), staleness_seconds=10).version == 0
    assert table.requests == []

    clock[0] += 1
    assert tables.latest_version(table.storage(), staleness_seconds=10) == 1
    assert tables.snapshot(table.storage(), staleness_seconds=10).version == 1


def test_a_table_that_was_made_anew_is_read_anew(table):
    table.commit(0, PROTOCOL, metadata(), add("old"))
    table.commit(1, add("older"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.delete(name(1))
    table.commit(0, PROTOCOL, metadata(), add("new"))
    assert tables.latest_version(table.storage()) == 0
    assert paths(tables.snapshot(table.storage())) == ["new"]


def test_what_is_cached_is_served_to_the_credentials_that_read_it_only(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.requests.clear()
    # The emulator takes this key id with any secret, like the root's.
    tables.snapshot(table.storage(access_key_id="test"), staleness_seconds=1000)
    assert "GetObject" in table.requests


def test_the_least_recently_used_table_is_forgotten_first(aws):
    one, two, three = TableInS3(aws), TableInS3(aws), TableInS3(aws)
    tables = DeltaTables(max_tables=2)
    for table in (one, two, one, three):
        table.commit(0, PROTOCOL, metadata())
        tables.latest_version(table.storage(), staleness_seconds=1000)
        table.requests.clear()
    for table in (one, three, two):
        tables.latest_version(table.storage(), staleness_seconds=1000)
    assert (one.requests, three.requests) == ([], [])
    assert two.requests


def test_concurrent_requests_for_a_table_share_one_read(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables, ready = DeltaTables(), threading.Barrier(4)

    def read(_):
        ready.wait()
        return tables.snapshot(table.storage())

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(read, range(4))
    assert all(other is first for other in others)
    assert table.requests.count("GetObject") == 2  # the hint to a checkpoint, and the commit


def test_an_older_version_is_read_and_kept_for_the_next_request(table):
    table.commit(0, PROTOCOL, metadata(name="first"), add("a"))
    table.commit(1, metadata(name="second"), add("b"))
    table.commit(2, remove("a"))
    tables = DeltaTables()
    snapshot = tables.snapshot(table.storage(), version=1)
    assert (snapshot.version, paths(snapshot), snapshot.metadata.name) == (1, ["a", "b"], "second")
    table.requests.clear()
    assert tables.snapshot(table.storage(), version=1) is snapshot
    assert table.requests == ["ListObjectsV2"]
    assert paths(tables.snapshot(table.storage(), version=0)) == ["a"]
    assert paths(tables.snapshot(table.storage())) == ["b"]


def test_a_moment_gives_the_version_that_was_current(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    table.commit(1, add("b"))
    tables = DeltaTables()
    first, second = (tables.snapshot(table.storage(), version=version) for version in (0, 1))
    assert first.timestamp < second.timestamp
    for snapshot in (first, second):
        assert tables.snapshot(table.storage(), timestamp_ms=snapshot.timestamp).version == snapshot.version
        assert tables.version_at_or_after(table.storage(), snapshot.timestamp) == snapshot.version
    assert tables.version_at_or_after(table.storage(), 0) == 0
    with pytest.raises(MalformedRequestError, match="is before the earliest available version 0"):
        tables.snapshot(table.storage(), timestamp_ms=first.timestamp - 1)


def test_a_version_that_is_not_there_is_refused(table):
    table.commit(0, PROTOCOL, metadata())
    with pytest.raises(MalformedRequestError, match="Cannot load table version 1 as it does not exist"):
        DeltaTables().snapshot(table.storage(), version=1)


def missing_bucket(table):
    table.location = type(table.location)("no-such-bucket-anywhere", "x")


def upgraded(table):
    table.commit(0, PROTOCOL, metadata())
    table.commit(1, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v"]}})


def undecodable_schema(table):
    table.commit(0, PROTOCOL, metadata(schemaString='{"type":"struct","fields":[{"name":"g","type":"geometry"}]}'))


@pytest.mark.parametrize(
    ("arrange", "error"),
    [
        (lambda table: None, TableFilesError),
        (missing_bucket, TableFilesError),
        (lambda table: table.put(name(0), b""), MalformedRequestError),
        (lambda table: table.put(name(0), commit(PROTOCOL, metadata())[:-20]), MalformedRequestError),
        (lambda table: table.commit(1, PROTOCOL, metadata()), MalformedRequestError),
        (lambda table: table.put(name(0, "checkpoint.parquet"), b"PAR1"), MalformedRequestError),
        (undecodable_schema, MalformedRequestError),
        (upgraded, UnsupportedOperationError),
        (lambda table: table.commit(0, PROTOCOL, metadata(), add("s3://b/k")), UnsupportedOperationError),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_without_showing_where_it_lies(table, arrange, error):
    arrange(table)
    with pytest.raises(error) as raised:
        DeltaTables().snapshot(table.storage())
    assert raised.value.status == 400
    for secret in (table.location.bucket, table.location.prefix, "_delta_log", "s3:"):
        assert secret not in raised.value.message


def test_a_change_of_schema_is_judged_again(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.commit(1, metadata(schemaString='{"type":"struct","fields":[{"name":"g","type":"geometry"}]}'))
    with pytest.raises(SharingError, match="needs what this server does not support"):
        tables.snapshot(table.storage())


def test_a_version_is_not_named_if_the_log_cannot_be_read_up_to_it(table):
    table.commit(0, PROTOCOL, metadata())
    table.commit(2, add("a"))
    with pytest.raises(MalformedRequestError, match="the commit of version 1 is missing"):
        DeltaTables().latest_version(table.storage())


def test_the_version_alone_does_not_need_deltalake(table, monkeypatch):
    table.commit(0, PROTOCOL, metadata())
    monkeypatch.delitem(sys.modules, "core.delta.reader", raising=False)
    assert DeltaTables().latest_version(table.storage()) == 0
    assert "core.delta.reader" not in sys.modules
    imports = "import sys, core.delta.tables; sys.exit('deltalake' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", imports], check=False).returncode == 0
