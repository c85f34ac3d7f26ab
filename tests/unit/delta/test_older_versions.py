"""Repeated reads of a version, as for the pages of an answer."""

import pytest

from core.delta.cache import snapshots
from core.delta.cache.tables import CacheLimits
from core.delta.log.listing import list_log
from core.delta.tables import DeltaTables
from core.errors import MalformedRequestError
from tests.unit.delta.builder import (
    PROTOCOL,
    SCHEMA,
    TableInMemory,
    add,
    checkpoint,
    commit,
    compaction,
    metadata,
    name,
    remove,
    v2_name,
)


@pytest.fixture
def table() -> TableInMemory:
    return TableInMemory()


class TestSummaries:
    """Snapshots without files, which every page of a range needs."""

    def test_they_are_cached_for_the_next_page(self, table):
        for version in range(12):
            table.commit(version, *([PROTOCOL, metadata()] if version == 0 else []), add(str(version)))
        tables = DeltaTables()
        for version in (2, 11, 5):
            assert tables.summary(table.storage(), version).num_files == version + 1
        table.requests.clear()
        for version in (2, 11, 5):
            assert tables.summary(table.storage(), version).num_files == version + 1
        assert table.requests == ["ListObjectsV2"] * 3

    def test_the_least_recently_used_is_evicted(self, table, monkeypatch):
        monkeypatch.setattr(snapshots, "MAX_SUMMARIES", 2)
        for version in range(12):
            table.commit(version, *([PROTOCOL, metadata()] if version == 0 else []), add(str(version)))
        tables = DeltaTables()
        for version in (2, 5, 2, 7):
            tables.summary(table.storage(), version)
        table.requests.clear()
        tables.summary(table.storage(), 2)
        assert table.requests == ["ListObjectsV2"]
        tables.summary(table.storage(), 5)
        assert table.requests.count("GetObject") == 6

    def test_a_replaced_log_is_read_again(self, table):
        table.commit(0, PROTOCOL, metadata())
        table.commit(1, add("a"))
        tables = DeltaTables()
        tables.summary(table.storage(), 1)
        table.commit(1, add("b"), add("c"))
        assert tables.summary(table.storage(), 1).num_files == 2

    def test_they_count_towards_the_cache_limit(self, table):
        table.commit(0, PROTOCOL, metadata(schemaString=SCHEMA + " " * 10_000))
        tables = DeltaTables(limits=CacheLimits(memory_bytes=9_000))
        for _ in range(2):
            table.requests.clear()
            assert tables.summary(table.storage(), 0).num_files == 0
            assert "GetObject" in table.requests


class TestNextPage:
    """The same version read again, for the next page of an answer."""

    def ten_files(self, table: TableInMemory) -> None:
        table.commit(0, PROTOCOL, metadata(), *(add(letter) for letter in "edcba"))
        table.commit(1, *(add(letter) for letter in "jihgf"))

    def checkpoint(self, table: TableInMemory, version: int, letters: str) -> None:
        rows = (add(letter) for letter in letters)
        table.put(name(version, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), *rows))

    def test_a_cached_version_takes_one_listing(self, table):
        self.ten_files(table)
        tables = DeltaTables()
        first = tables.snapshot(table.storage())
        table.requests.clear()
        assert tables.snapshot_from_checkpoint(table.storage(), first.checkpoint_id, 1) is first
        assert table.requests == ["ListObjectsV2"]

    @pytest.mark.parametrize("warm", [False, True])
    def test_the_order_stays_after_new_commits_checkpoints_and_compactions(self, table, warm):
        self.ten_files(table)
        tables = DeltaTables()
        first = tables.snapshot(table.storage())
        self.checkpoint(table, 1, "jacebdfhgi")
        table.put(compaction(0, 1), commit(PROTOCOL, metadata(), *(add(letter) for letter in "bcdefghija")))
        table.commit(2, remove("a"), add("k"))
        tables = tables if warm else DeltaTables()
        tables.snapshot(table.storage())
        assert [file.path for file in tables.snapshot(table.storage(), version=1).adds()] != list("abcdefghij")
        again = tables.snapshot_from_checkpoint(table.storage(), first.checkpoint_id, 1)
        assert [file.path for file in again.adds()] == list("abcdefghij")
        table.requests.clear()
        assert tables.snapshot_from_checkpoint(table.storage(), first.checkpoint_id, 1) is again
        assert table.requests == ["ListObjectsV2"]

    def test_the_first_page_is_read_from_the_newest_checkpoint(self, table):
        self.ten_files(table)
        tables = DeltaTables()
        old = tables.snapshot(table.storage())
        assert tables.snapshot_for_paging(table.storage(), old) is old
        self.checkpoint(table, 1, "jihgfedcba")
        table.delete(name(0))
        assert tables.snapshot(table.storage()) is old
        first = tables.snapshot_for_paging(table.storage(), old)
        again = DeltaTables().snapshot_from_checkpoint(table.storage(), first.checkpoint_id, 1)
        assert [file.path for file in first.adds()] == [file.path for file in again.adds()] == list("jihgfedcba")
        assert tables.snapshot(table.storage()) is first

    @pytest.mark.parametrize("new", [name(1, "checkpoint.parquet"), name(2, "checkpoint.parquet")])
    def test_a_checkpoint_that_is_newer_than_the_cached_listing_is_found(self, table, new):
        """A checkpoint of an old version, or a second one of the last version."""
        self.ten_files(table)
        table.commit(2)
        table.put(v2_name(2, "json"), commit(PROTOCOL, metadata(), *(add(letter) for letter in "abcdefghij")))
        tables = DeltaTables()
        tables.snapshot(table.storage())
        table.put(new, checkpoint(PROTOCOL, metadata(), *(add(letter) for letter in "jihgfedcba")))
        checkpoint_id = list_log(table.objects(), table.location).segment(int(new[11:31])).checkpoint_id
        for _ in range(2):
            again = tables.snapshot_from_checkpoint(table.storage(), checkpoint_id, 2)
            assert [file.path for file in again.adds()] == list("jihgfedcba")

    def test_a_start_that_was_cleaned_up_is_an_error_even_if_it_is_in_the_cached_listing(self, table):
        self.ten_files(table)
        tables = DeltaTables()
        first = tables.snapshot(table.storage())
        self.checkpoint(table, 2, "abc")
        table.commit(2, add("k"))
        tables.snapshot(table.storage())
        table.delete(name(0), name(1))
        with pytest.raises(MalformedRequestError, match="Please restart the query"):
            tables.snapshot_from_checkpoint(table.storage(), first.checkpoint_id, 1)
        with pytest.raises(MalformedRequestError, match="Please restart the query"):
            DeltaTables().snapshot_from_checkpoint(table.storage(), first.checkpoint_id, 1)

    def test_a_replaced_table_is_an_error(self, table):
        self.ten_files(table)
        tables = DeltaTables()
        first = tables.snapshot(table.storage())
        table.commit(0, PROTOCOL, metadata(id="another"), add("x"))
        table.commit(1, add("y"))
        with pytest.raises(MalformedRequestError, match="Please restart the query"):
            tables.snapshot_from_checkpoint(table.storage(), first.checkpoint_id, 1)
