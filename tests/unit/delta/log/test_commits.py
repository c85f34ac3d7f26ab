"""Ranges of commits: in order, read ahead but not too far, and none left running."""

import threading
from collections.abc import Callable

import pytest

from core.delta.log import commits as commits_module
from core.delta.log import listing
from core.delta.log.commits import MAX_COMMITS, parse_commit
from core.delta.tables import DeltaTables
from core.errors import AnswerTooLargeError, MalformedRequestError, TableFilesError
from tests.unit.delta.builder import PROTOCOL, TableInMemory, add, checkpoint, commit, metadata, name, remove

PATIENCE = 60


def table_of(versions: int) -> TableInMemory:
    table = TableInMemory()
    table.commit(0, PROTOCOL, metadata(), add("0"))
    for version in range(1, versions):
        table.commit(version, add(str(version)))
    return table


def paths_of(commits) -> list[str]:
    return [file.path for each in commits for file in each.files]


def test_commits_come_in_order_with_all_that_they_say():
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
def test_a_range_has_its_first_and_its_last_version(start, end):
    table = table_of(100)
    commits = list(DeltaTables().commits(table.storage(), start, end))
    assert [each.version for each in commits] == list(range(start, end + 1))
    assert paths_of(commits) == [str(version) for version in range(start, end + 1)]


def test_a_range_costs_a_look_and_its_commits():
    table = table_of(100)
    tables = DeltaTables()
    tables.latest_version(table.storage())
    table.requests.clear()
    assert len(list(tables.commits(table.storage(), 90, 99))) == 10
    assert table.requests == ["ListObjectsV2", *["GetObject"] * 10]


def test_commits_are_read_at_the_same_time():
    table = table_of(20)
    together = threading.Barrier(10, timeout=PATIENCE)

    def wait_for_nine_others(key: str) -> None:
        if key.endswith(".json"):
            together.wait()

    table.s3.on_get = wait_for_nine_others
    assert len(list(DeltaTables().commits(table.storage(), 0, 19))) == 20


def test_commits_that_arrive_in_another_order_are_handed_out_in_their_own():
    table = table_of(5)
    last_was_read = threading.Event()

    def hold_back_all_but_the_last(key: str) -> None:
        if key.endswith("4.json"):
            last_was_read.set()
        elif key.endswith(".json"):
            assert last_was_read.wait(PATIENCE)

    table.s3.on_get = hold_back_all_but_the_last
    assert paths_of(DeltaTables().commits(table.storage(), 0, 4)) == ["0", "1", "2", "3", "4"]


@pytest.fixture
def settle() -> Callable[[], None]:
    """Waits until no thread is left that the test has started."""
    before = set(threading.enumerate())

    def wait() -> None:
        for thread in set(threading.enumerate()) - before:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    return wait


def read_while_taking_one(table: TableInMemory, settle: Callable[[], None]) -> int:
    """How many commits have been read when one was taken of a range of a thousand."""
    commits = DeltaTables().commits(table.storage(), 0, 999)
    next(commits)
    commits.close()  # type: ignore[attr-defined]
    settle()
    return sum(key.endswith(".json") for key in table.s3.keys_read)


def test_no_more_is_read_ahead_than_a_bounded_number_of_commits(settle):
    assert read_while_taking_one(table_of(1000), settle) <= 2 * commits_module.PARALLEL_READS + 1


def test_large_commits_are_read_ahead_by_a_bounded_number_of_bytes(monkeypatch, settle):
    monkeypatch.setattr(commits_module, "AHEAD_BYTES", 3000)
    table = table_of(1000)
    for version in range(1, 1000):
        table.commit(version, add("a", stats="x" * 1000))
    assert read_while_taking_one(table, settle) <= 5


def test_one_commit_that_is_larger_than_all_that_may_be_read_ahead_is_read(monkeypatch):
    monkeypatch.setattr(commits_module, "AHEAD_BYTES", 1)
    assert paths_of(DeltaTables().commits(table_of(5).storage(), 0, 4)) == ["0", "1", "2", "3", "4"]


def test_nothing_is_read_before_the_first_commit_is_taken():
    table = table_of(3)
    DeltaTables().commits(table.storage(), 0, 2)
    assert not [key for key in table.s3.keys_read if key.endswith(".json")]


@pytest.mark.parametrize("taken", [0, 1, 500])
def test_a_range_that_is_given_up_leaves_nothing_running(taken, settle):
    table = table_of(1000)
    commits = DeltaTables().commits(table.storage(), 0, 999)
    for _ in range(taken):
        next(commits)
    commits.close()  # type: ignore[attr-defined]
    settle()
    assert len(table.s3.keys_read) < 1000
    assert list(commits) == []


def test_what_is_committed_while_a_range_is_read_is_no_part_of_it():
    table, tables = table_of(100), DeltaTables()
    commits = tables.commits(table.storage(), 0, 99)
    next(commits)
    table.commit(100, add("100"))
    assert tables.latest_version(table.storage()) == 100
    assert paths_of(commits) == [str(version) for version in range(1, 100)]


def test_a_commit_that_is_not_there_is_known_before_the_first_is_taken():
    table = table_of(3)
    table.put(name(5, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata()))
    table.commit(6, add("6"))
    with pytest.raises(MalformedRequestError, match="the commit of version 3 is missing"):
        DeltaTables().commits(table.storage(), 1, 6)
    with pytest.raises(MalformedRequestError, match="the commit of version 5 is missing"):
        DeltaTables().commits(table.storage(), 5, 6)


def test_a_version_that_does_not_exist_is_refused():
    with pytest.raises(MalformedRequestError, match="Cannot load table version 3 as it does not exist"):
        DeltaTables().commits(table_of(3).storage(), 3, 3)
    with pytest.raises(MalformedRequestError, match="the commit of version 3 is missing"):
        DeltaTables().commits(table_of(3).storage(), 2, 3)


@pytest.mark.parametrize("look_back", [0, 100])
def test_a_start_that_was_cleaned_up_is_refused_with_the_earliest(monkeypatch, look_back):
    monkeypatch.setattr(listing, "LOOK_BACK", look_back)
    table = table_of(20)
    table.put(name(10, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata()))
    table.hint(10)
    table.delete(*(name(version) for version in range(10)))
    with pytest.raises(MalformedRequestError, match="has been truncated .* earliest available version is 10."):
        DeltaTables().commits(table.storage(), 9, 19)
    assert paths_of(DeltaTables().commits(table.storage(), 10, 12)) == ["10", "11", "12"]


def test_a_commit_that_vanishes_while_the_range_is_read_ends_it(settle):
    table = table_of(200)
    commits = DeltaTables().commits(table.storage(), 0, 199)
    next(commits)
    table.delete(name(150))
    with pytest.raises(MalformedRequestError, match="the commit of version 150 is missing"):
        list(commits)
    settle()


def test_a_commit_that_cannot_be_read_though_it_is_listed_ends_the_range(settle):
    table = table_of(200)
    commits = DeltaTables().commits(table.storage(), 0, 199)
    next(commits)
    table.commit(150, add("another"))
    with pytest.raises(TableFilesError, match="^table files missing$"):
        list(commits)
    settle()


def test_a_damaged_commit_ends_the_range_where_it_is(settle):
    table = table_of(5)
    table.put(name(3), b'{"add":')
    commits = DeltaTables().commits(table.storage(), 0, 4)
    assert paths_of(next(commits) for _ in range(3)) == ["0", "1", "2"]
    with pytest.raises(MalformedRequestError, match="not a valid Delta action"):
        next(commits)
    settle()


def test_more_commits_than_a_function_has_time_for_are_refused():
    table = TableInMemory()
    for version in range(MAX_COMMITS + 2):
        table.put(name(version))
    tables = DeltaTables()
    with pytest.raises(AnswerTooLargeError, match="needs 20,001 commits .* more than the 20,000") as raised:
        tables.commits(table.storage(), 1, MAX_COMMITS + 1)
    assert raised.value.status == 400
    tables.commits(table.storage(), 2, MAX_COMMITS + 1)


def test_a_commit_that_states_its_time_has_that_one():
    stated = {"commitInfo": {"timestamp": 1, "inCommitTimestamp": 5}}
    assert parse_commit(commit(stated), 3, 70).timestamp == 5
    assert parse_commit(commit({"commitInfo": {"timestamp": 1}}), 3, 70).timestamp == 70
    assert parse_commit(commit(add("a"), stated), 3, 70).timestamp == 5


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
def test_a_merge_that_says_that_it_found_nothing_changes_no_row(info, changes_no_row):
    parsed = parse_commit(commit({"commitInfo": info}, add("a")), 1, 1)
    assert parsed.changes_no_row is changes_no_row
    assert len(parsed.files) == 1
