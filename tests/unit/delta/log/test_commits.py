"""Ranges of commits: in order, read ahead within bounds, and without threads left behind."""

import threading
from collections.abc import Callable

import pytest

from core.delta.log import commits as commits_module
from core.delta.log import listing
from core.delta.log.commits import MAX_COMMITS, parse_commit
from core.delta.tables import DeltaTables
from core.errors import AnswerTooLargeError, DamagedLogError, MalformedRequestError, TableFilesError
from tests.unit.delta.builder import PROTOCOL, TableInMemory, add, checkpoint, commit, metadata, name, remove

TIMEOUT_SECONDS = 60


def table_of(versions: int) -> TableInMemory:
    table = TableInMemory()
    table.commit(0, PROTOCOL, metadata(), add("0"))
    for version in range(1, versions):
        table.commit(version, add(str(version)))
    return table


def paths_of(commits) -> list[str]:
    return [file.path for each in commits for file in each.files]


def test_commits_are_returned_in_order_with_all_their_actions():
    table = table_of(1)
    table.commit(1, remove("0"), add("1"), {"cdc": {"path": "c", "partitionValues": {}, "size": 3}})
    table.commit(2, metadata(name="renamed"), PROTOCOL)
    first, second, third = DeltaTables().commits(table.storage(), 0, 2)
    assert (first.version, first.timestamp, first.protocol is not None) == (0, 0, True)
    assert [type(file).__name__ for file in second.files] == ["Remove", "Add", "Cdc"]
    assert (second.version, second.timestamp, second.metadata, second.protocol) == (1, 1000, None, None)
    assert third.metadata is not None
    assert (third.metadata.name, third.protocol is not None, third.files) == ("renamed", True, ())


@pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 99), (40, 60), (99, 99), (50, 49)])
def test_a_range_includes_its_first_and_last_version(start, end):
    table = table_of(100)
    commits = list(DeltaTables().commits(table.storage(), start, end))
    assert [each.version for each in commits] == list(range(start, end + 1))
    assert paths_of(commits) == [str(version) for version in range(start, end + 1)]


def test_a_range_takes_one_listing_and_one_read_per_commit():
    table = table_of(100)
    tables = DeltaTables()
    tables.latest_version(table.storage())
    table.requests.clear()
    assert len(list(tables.commits(table.storage(), 90, 99))) == 10
    assert table.requests == ["ListObjectsV2", *["GetObject"] * 10]


def test_commits_are_read_in_parallel():
    table = table_of(20)
    together = threading.Barrier(10, timeout=TIMEOUT_SECONDS)

    def wait_for_nine_others(key: str) -> None:
        if key.endswith(".json"):
            together.wait()

    table.s3.on_get = wait_for_nine_others
    assert len(list(DeltaTables().commits(table.storage(), 0, 19))) == 20


def test_commits_that_arrive_out_of_order_are_returned_in_order():
    table = table_of(5)
    last_was_read = threading.Event()

    def wait_for_the_last(key: str) -> None:
        if key.endswith("4.json"):
            last_was_read.set()
        elif key.endswith(".json"):
            assert last_was_read.wait(TIMEOUT_SECONDS)

    table.s3.on_get = wait_for_the_last
    assert paths_of(DeltaTables().commits(table.storage(), 0, 4)) == ["0", "1", "2", "3", "4"]


@pytest.fixture
def wait_for_threads() -> Callable[[], None]:
    """Waits until all threads that the test started have ended."""
    before = set(threading.enumerate())

    def wait() -> None:
        for thread in set(threading.enumerate()) - before:
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive()

    return wait


def read_while_taking_one(table: TableInMemory, wait_for_threads: Callable[[], None]) -> int:
    """Number of commits read after one commit was taken from a range of a thousand."""
    commits = DeltaTables().commits(table.storage(), 0, 999)
    next(commits)
    commits.close()  # type: ignore[attr-defined]
    wait_for_threads()
    return sum(key.endswith(".json") for key in table.s3.keys_read)


def test_a_bounded_number_of_commits_is_read_ahead(wait_for_threads):
    assert read_while_taking_one(table_of(1000), wait_for_threads) <= 2 * commits_module.PARALLEL_READS + 1


def test_a_bounded_number_of_bytes_is_read_ahead(monkeypatch, wait_for_threads):
    monkeypatch.setattr(commits_module, "AHEAD_BYTES", 3000)
    table = table_of(1000)
    for version in range(1, 1000):
        table.commit(version, add("a", stats="x" * 1000))
    assert read_while_taking_one(table, wait_for_threads) <= 5


def test_a_commit_larger_than_the_read_ahead_limit_is_read(monkeypatch):
    monkeypatch.setattr(commits_module, "AHEAD_BYTES", 1)
    assert paths_of(DeltaTables().commits(table_of(5).storage(), 0, 4)) == ["0", "1", "2", "3", "4"]


def test_nothing_is_read_before_the_first_commit_is_taken():
    table = table_of(3)
    DeltaTables().commits(table.storage(), 0, 2)
    assert not [key for key in table.s3.keys_read if key.endswith(".json")]


@pytest.mark.parametrize("taken", [0, 1, 500])
def test_a_range_that_is_closed_early_leaves_no_threads(taken, wait_for_threads):
    table = table_of(1000)
    commits = DeltaTables().commits(table.storage(), 0, 999)
    for _ in range(taken):
        next(commits)
    commits.close()  # type: ignore[attr-defined]
    wait_for_threads()
    assert len(table.s3.keys_read) < 1000
    assert list(commits) == []


def test_a_range_does_not_include_later_commits():
    table, tables = table_of(100), DeltaTables()
    commits = tables.commits(table.storage(), 0, 99)
    next(commits)
    table.commit(100, add("100"))
    assert tables.latest_version(table.storage()) == 100
    assert paths_of(commits) == [str(version) for version in range(1, 100)]


def test_a_missing_commit_is_reported_before_the_first_is_taken():
    table = table_of(3)
    table.put(name(5, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata()))
    table.commit(6, add("6"))
    with pytest.raises(DamagedLogError, match="the commit of version 3 is missing"):
        DeltaTables().commits(table.storage(), 1, 6)
    with pytest.raises(DamagedLogError, match="the commit of version 5 is missing"):
        DeltaTables().commits(table.storage(), 5, 6)


def test_a_version_that_does_not_exist_is_refused():
    with pytest.raises(MalformedRequestError, match="Cannot load table version 3 as it does not exist"):
        DeltaTables().commits(table_of(3).storage(), 3, 3)
    with pytest.raises(DamagedLogError, match="the commit of version 3 is missing"):
        DeltaTables().commits(table_of(3).storage(), 2, 3)


@pytest.mark.parametrize("look_back", [0, 100])
def test_the_error_for_a_start_that_was_cleaned_up_names_the_earliest_version(monkeypatch, look_back):
    monkeypatch.setattr(listing, "LOOK_BACK", look_back)
    table = table_of(20)
    table.put(name(10, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata()))
    table.hint(10)
    table.delete(*(name(version) for version in range(10)))
    with pytest.raises(MalformedRequestError, match="has been truncated .* earliest available version is 10."):
        DeltaTables().commits(table.storage(), 9, 19)
    assert paths_of(DeltaTables().commits(table.storage(), 10, 12)) == ["10", "11", "12"]


def test_a_commit_that_is_deleted_during_the_read_is_an_error(wait_for_threads):
    table = table_of(200)
    commits = DeltaTables().commits(table.storage(), 0, 199)
    next(commits)
    table.delete(name(150))
    with pytest.raises(DamagedLogError, match="the commit of version 150 is missing"):
        list(commits)
    wait_for_threads()


def test_a_commit_that_is_overwritten_during_the_read_is_an_error(wait_for_threads):
    table = table_of(200)
    commits = DeltaTables().commits(table.storage(), 0, 199)
    next(commits)
    table.commit(150, add("another"))
    with pytest.raises(TableFilesError, match="^table files missing$"):
        list(commits)
    wait_for_threads()


def test_the_commits_before_a_damaged_one_are_returned(wait_for_threads):
    table = table_of(5)
    table.put(name(3), b'{"add":')
    commits = DeltaTables().commits(table.storage(), 0, 4)
    assert paths_of(next(commits) for _ in range(3)) == ["0", "1", "2"]
    with pytest.raises(DamagedLogError, match="^_delta_log/00000000000000000003.json, line 1: not valid JSON"):
        next(commits)
    wait_for_threads()


def test_too_many_commits_are_refused():
    table = TableInMemory()
    for version in range(MAX_COMMITS + 2):
        table.put(name(version))
    tables = DeltaTables()
    with pytest.raises(AnswerTooLargeError, match="needs 20,001 commits .* more than the 20,000") as raised:
        tables.commits(table.storage(), 1, MAX_COMMITS + 1)
    assert raised.value.status == 400
    tables.commits(table.storage(), 2, MAX_COMMITS + 1)


def test_an_in_commit_timestamp_is_the_time_of_the_commit():
    commit_info = {"commitInfo": {"timestamp": 1, "inCommitTimestamp": 5}}
    assert parse_commit(commit(commit_info), 3, 70).timestamp == 5
    assert parse_commit(commit({"commitInfo": {"timestamp": 1}}), 3, 70).timestamp == 70
    assert parse_commit(commit(add("a"), commit_info), 3, 70).timestamp == 5


NO_ROWS = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0", "numTargetRowsDeleted": "0"}


@pytest.mark.parametrize(
    ("info", "changes_no_row"),
    [
        ({"operation": "MERGE", "operationMetrics": NO_ROWS}, True),
        ({"operation": "MERGE", "operationMetrics": NO_ROWS | {"numTargetRowsCopied": "5"}}, True),
        ({"operation": "MERGE", "operationMetrics": NO_ROWS | {"numTargetRowsUpdated": "1"}}, False),
        ({"operation": "MERGE", "operationMetrics": {"numTargetRowsInserted": "0"}}, False),
        ({"operation": "MERGE", "operationMetrics": "none"}, False),
        ({"operation": "MERGE"}, False),
        ({"operation": "UPDATE", "operationMetrics": NO_ROWS}, False),
        ({}, False),
    ],
)
def test_a_merge_whose_metrics_are_zero_changes_no_row(info, changes_no_row):
    parsed = parse_commit(commit({"commitInfo": info}, add("a")), 1, 1)
    assert parsed.changes_no_row is changes_no_row
    assert len(parsed.files) == 1
