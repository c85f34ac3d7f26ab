"""The cache of tables: what it keeps, and how many requests to S3 a cached table takes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.delta import reader
from core.delta.cache import snapshots
from core.delta.cache import tables as cached_tables
from core.delta.cache.tables import CacheLimits
from core.delta.tables import DeltaTables
from tests.unit.delta.builder import (
    PROTOCOL,
    TableInMemory,
    add,
    checkpoint,
    commit,
    compaction,
    metadata,
    name,
    paths,
    remove,
)


@pytest.fixture
def table() -> TableInMemory:
    return TableInMemory()


def test_an_unchanged_table_takes_one_listing_and_returns_the_same_snapshot(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    first = tables.snapshot(table.storage())
    table.requests.clear()
    assert tables.snapshot(table.storage()) is first
    assert tables.latest_version(table.storage()) == 0
    assert table.requests == ["ListObjectsV2", "ListObjectsV2"]


def test_the_version_of_a_cached_table_takes_one_listing_however_long_its_log(table):
    for version in range(3000):
        table.put(name(version))
    tables = DeltaTables()
    tables.latest_version(table.storage())
    table.put(name(3000))
    table.requests.clear()
    assert tables.latest_version(table.storage()) == 3000
    assert table.requests == ["ListObjectsV2"]


def test_new_commits_are_visible_immediately_and_only_they_are_read(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.commit(1, add("b"))
    table.commit(2, add("c"))
    table.requests.clear()
    assert paths(tables.snapshot(table.storage())) == ["a", "b", "c"]
    assert table.requests == ["ListObjectsV2", "GetObject", "GetObject"]


def test_a_snapshot_that_is_being_read_does_not_change_with_new_commits(table):
    table.put(name(0, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a"), add("b")))
    table.commit(1, add("c"), add("d"))
    tables = DeltaTables()
    adds = tables.snapshot(table.storage()).adds()
    written = [next(adds).path]
    table.commit(2, *map(remove, "abcd"), add("e"))
    assert paths(tables.snapshot(table.storage())) == ["e"]
    assert sorted([*written, *(file.path for file in adds)]) == ["a", "b", "c", "d"]


def test_a_new_checkpoint_is_read_if_the_commits_before_it_are_missing(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.put(name(2, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("b")))
    table.commit(3, add("c"))
    assert paths(tables.snapshot(table.storage())) == ["b", "c"]


def test_new_commits_are_read_from_a_compacted_log_file(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    for version in range(1, 6):
        table.commit(version, add(str(version)))
    table.put(compaction(1, 4), commit(*(add(str(version)) for version in range(1, 5))))
    table.requests.clear()
    assert paths(tables.snapshot(table.storage())) == ["1", "2", "3", "4", "5", "a"]
    assert table.requests == ["ListObjectsV2", "GetObject", "GetObject"]


@pytest.mark.parametrize(("constant", "rebased"), [("MANY_COMMITS", True), ("MANY_FILES", True), (None, False)])
def test_a_newer_checkpoint_becomes_the_base_if_that_is_shorter(table, monkeypatch, constant, rebased):
    if constant:
        monkeypatch.setattr(snapshots, constant, 1)
    table.commit(0, PROTOCOL, metadata(), add("a"), add("b"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.commit(1, add("c"))
    table.commit(2, remove("a"))
    table.put(name(2, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("b"), add("c")))
    table.commit(3, add("d"))
    assert paths(tables.snapshot(table.storage())) == ["b", "c", "d"]
    assert any(key.endswith("checkpoint.parquet") for key in table.s3.keys_read) is rebased


def test_a_log_that_was_cleaned_up_since_the_listing_is_listed_again(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    table.commit(1, add("b"))
    table.commit(2, add("c"))
    tables = DeltaTables()
    assert tables.latest_version(table.storage()) == 2
    table.put(name(1, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a"), add("b")))
    table.delete(name(0), name(1))
    assert paths(tables.snapshot(table.storage())) == ["a", "b", "c"]


def test_the_latest_version_by_number_is_not_read_again(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    latest = tables.snapshot(table.storage())
    table.requests.clear()
    assert tables.snapshot(table.storage(), version=0) == latest
    assert table.requests == ["ListObjectsV2"]


def test_the_log_is_not_listed_within_the_accepted_staleness(table):
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


def test_a_table_that_was_replaced_is_read_again(table):
    table.commit(0, PROTOCOL, metadata(), add("old"))
    table.commit(1, add("older"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.delete(name(1))
    table.commit(0, PROTOCOL, metadata(), add("new"))
    assert tables.latest_version(table.storage()) == 0
    assert paths(tables.snapshot(table.storage())) == ["new"]


def test_a_table_that_was_replaced_at_the_same_version_is_read_again(table):
    table.commit(0, PROTOCOL, metadata(), add("old"), at_ms=1000)
    tables = DeltaTables()
    tables.snapshot(table.storage())
    tables.snapshot(table.storage(), version=0)
    table.commit(0, PROTOCOL, metadata(), add("new"), at_ms=2000)
    assert paths(tables.snapshot(table.storage(), version=0)) == ["new"]
    assert paths(tables.snapshot(table.storage())) == ["new"]


def test_a_cached_table_is_served_only_to_the_credentials_that_read_it(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables = DeltaTables()
    tables.snapshot(table.storage())
    table.requests.clear()
    tables.snapshot(table.storage("another key"), staleness_seconds=1000)
    assert "GetObject" in table.requests


def test_the_least_recently_used_table_is_evicted_first(monkeypatch):
    monkeypatch.setattr(cached_tables, "MAX_TABLES", 2)
    one, two, three = (TableInMemory(prefix) for prefix in ("one", "two", "three"))
    tables = DeltaTables()
    for table in (one, two, one, three):
        table.commit(0, PROTOCOL, metadata())
        tables.latest_version(table.storage(), staleness_seconds=1000)
        table.requests.clear()
    for table in (one, three, two):
        tables.latest_version(table.storage(), staleness_seconds=1000)
    assert (one.requests, three.requests) == ([], [])
    assert two.requests


def table_of_bytes(prefix: str, size: int) -> TableInMemory:
    table = TableInMemory(prefix)
    table.commit(0, PROTOCOL, metadata(), add("a", stats="x" * size))
    return table


def is_kept(tables: DeltaTables, table: TableInMemory) -> bool:
    table.requests.clear()
    tables.snapshot(table.storage(), staleness_seconds=1000)
    return table.requests == []


def test_the_least_recently_used_snapshots_are_evicted_if_memory_is_full():
    one, two, three = (table_of_bytes(prefix, 10_000) for prefix in ("one", "two", "three"))
    tables = DeltaTables(limits=CacheLimits(30_000, 0))
    for table in (one, two, three):
        tables.snapshot(table.storage())
    assert is_kept(tables, three)
    assert is_kept(tables, two)
    assert not is_kept(tables, one)


def test_a_snapshot_that_does_not_fit_is_served_without_evicting_others():
    small, large = table_of_bytes("small", 1000), table_of_bytes("large", 50_000)
    tables = DeltaTables(limits=CacheLimits(20_000, 0))
    tables.snapshot(small.storage())
    assert paths(tables.snapshot(large.storage())) == ["a"]
    assert not is_kept(tables, large)
    assert is_kept(tables, small)


def test_the_least_recently_used_checkpoints_are_evicted_if_the_disk_is_full(monkeypatch):
    monkeypatch.setattr(reader, "MAX_IN_MEMORY", 0)
    one, two = TableInMemory("one"), TableInMemory("two")
    content = checkpoint(PROTOCOL, metadata(), add("a"))
    for table in (one, two):
        table.put(name(0, "checkpoint.parquet"), content)
    tables = DeltaTables(limits=CacheLimits(10**9, len(content) + 1))
    for table in (one, two):
        tables.snapshot(table.storage())
    assert is_kept(tables, two)
    assert not is_kept(tables, one)


def test_an_older_version_counts_towards_the_limit():
    table = table_of_bytes("one", 10_000)
    table.commit(1, add("b", stats="x" * 10_000))
    tables = DeltaTables(limits=CacheLimits(30_000, 0))
    tables.snapshot(table.storage())
    tables.snapshot(table.storage(), version=0)
    table.requests.clear()
    tables.snapshot(table.storage(), version=0)
    assert "GetObject" in table.requests
    assert is_kept(tables, table)


def test_concurrent_requests_for_a_table_share_one_read(table):
    table.commit(0, PROTOCOL, metadata(), add("a"))
    tables, ready = DeltaTables(), threading.Barrier(4)

    def read(_):
        ready.wait()
        return tables.snapshot(table.storage())

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(read, range(4))
    assert all(other is first for other in others)
    assert table.requests.count("GetObject") == 2  # `_last_checkpoint` and the commit


def test_every_snapshot_is_consistent_during_concurrent_commits(table):
    """Version N has the files 0 to N. Every tenth version has a checkpoint."""
    table.commit(0, PROTOCOL, metadata(), add("0"))
    tables, done = DeltaTables(), threading.Event()

    def read(_) -> int:
        reads = 0
        while not done.is_set():
            snapshot = tables.snapshot(table.storage())
            assert paths(snapshot) == sorted(str(number) for number in range(snapshot.version + 1))
            assert snapshot.num_files == snapshot.version + 1
            reads += 1
        return reads

    with ThreadPoolExecutor(4) as pool:
        reading = pool.map(read, range(4))
        for version in range(1, 101):
            table.commit(version, add(str(version)))
            if version % 10 == 0:
                files = (add(str(number)) for number in range(version + 1))
                table.put(name(version, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), *files))
        done.set()
        assert all(reading)


def test_requests_for_different_tables_do_not_wait_for_each_other():
    slow, fast = TableInMemory("slow"), TableInMemory("fast")
    for table in (slow, fast):
        table.commit(0, PROTOCOL, metadata(), add("a"))
    tables, was_served = DeltaTables(), threading.Event()
    slow.s3.on_get = lambda _: was_served.wait(60) or pytest.fail("the other table was not served meanwhile")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tables.snapshot, slow.storage())
        assert tables.snapshot(fast.storage()).num_files == 1
        was_served.set()
        assert waiting.result(10).num_files == 1


def test_an_older_version_is_cached_for_the_next_request(table):
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


def test_the_version_after_a_cached_older_one_takes_one_commit(table):
    table.commit(0, PROTOCOL, metadata())
    for version in range(1, 20):
        table.commit(version, add(str(version)))
    tables = DeltaTables()
    tables.snapshot(table.storage(), version=10)
    for version in (11, 12):
        table.requests.clear()
        assert tables.snapshot(table.storage(), version=version).num_files == version
        assert table.requests == ["ListObjectsV2", "GetObject"]
