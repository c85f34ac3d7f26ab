"""The version at a timestamp: by object times, by in-commit timestamps, and across the change from one to the other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.history import AfterHistoryError, BeforeHistoryError, History, check_version
from core.delta.log.listing import list_log
from core.delta.log.segment import Log
from core.errors import InvalidParameterError, MalformedRequestError
from tests.unit.delta.builder import TableInMemory, name

DAY = 86_400_000


def log_of(times: dict[str, int]) -> Log:
    table = TableInMemory()
    for relative, at_ms in times.items():
        table.put(relative, b"{}", at_ms=at_ms)
    return list_log(table.objects(), table.location)


def history(times: dict[str, int], in_commit: dict[int, int] | None = None) -> History:
    return History(log_of(times), (in_commit or {}).get)


THREE_DAYS = {name(0): DAY, name(1): 2 * DAY, name(2): 3 * DAY}
TRUNCATED = {name(3): DAY, name(4): 2 * DAY, name(4, "checkpoint.parquet"): 2 * DAY, name(5): 3 * DAY}


@pytest.mark.parametrize(
    ("timestamp", "before", "after"),
    [(DAY, 0, 0), (DAY + 1, 0, 1), (2 * DAY - 1, 0, 1), (2 * DAY, 1, 1), (3 * DAY, 2, 2)],
)
def test_a_timestamp_is_resolved_to_the_version_before_or_after_it(timestamp, before, after):
    assert history(THREE_DAYS).at_or_before(timestamp) == before
    assert history(THREE_DAYS).at_or_after(timestamp) == after


def test_a_timestamp_before_the_first_commit_has_no_snapshot():
    with pytest.raises(BeforeHistoryError) as raised:
        history(THREE_DAYS).at_or_before(DAY - 1)
    assert raised.value.message == (
        "The provided timestamp 86399999 ms (1970-01-01T23:59:59.999Z) is before the earliest available version 0. "
        "Please use a timestamp greater than or equal to 86400000 ms (1970-01-02T00:00:00Z)."
    )
    assert (raised.value.timestamp_ms, raised.value.version, raised.value.edge_ms) == (DAY - 1, 0, DAY)
    assert isinstance(raised.value, InvalidParameterError)


def test_the_version_after_a_timestamp_before_the_first_commit_is_the_first():
    assert history(THREE_DAYS).at_or_after(-5) == 0
    assert history(TRUNCATED).at_or_after(0) == 4


@pytest.mark.parametrize("resolve", [History.at_or_before, History.at_or_after])
def test_a_timestamp_after_the_last_commit_is_refused(resolve):
    with pytest.raises(AfterHistoryError) as raised:
        resolve(history(THREE_DAYS), 3 * DAY + 1000)
    assert raised.value.message == (
        "The provided timestamp 259201000 ms (1970-01-04T00:00:01Z) is after the latest available version 2. "
        "Please use a timestamp less than or equal to 259200000 ms (1970-01-04T00:00:00Z)."
    )
    assert (raised.value.timestamp_ms, raised.value.version, raised.value.edge_ms) == (3 * DAY + 1000, 2, 3 * DAY)
    assert isinstance(raised.value, InvalidParameterError)


@pytest.mark.parametrize("timestamp", [10**18, -(10**18)])
def test_a_timestamp_outside_the_calendar_is_refused(timestamp):
    with pytest.raises(InvalidParameterError, match=f"The provided timestamp {timestamp} ms is "):
        history(THREE_DAYS).at_or_before(timestamp)


def test_a_timestamp_before_the_earliest_readable_version_is_refused():
    with pytest.raises(BeforeHistoryError, match="is before the earliest available version 4"):
        history(TRUNCATED).at_or_before(DAY)


@pytest.mark.parametrize(
    ("resolve", "latest_refused"), [(History.at_or_before, 3 * DAY - 1), (History.at_or_after, 2 * DAY)]
)
def test_a_search_from_a_version_on_names_no_version_before_it(resolve, latest_refused):
    for timestamp in (0, DAY, latest_refused):
        with pytest.raises(BeforeHistoryError) as raised:
            resolve(history(THREE_DAYS), timestamp, 2)
        assert (raised.value.version, raised.value.edge_ms) == (2, 3 * DAY)
    assert resolve(history(THREE_DAYS), latest_refused + 1, 2) == 2


@pytest.mark.parametrize("resolve", [History.at_or_before, History.at_or_after])
@pytest.mark.parametrize("timestamp", [0, 2 * DAY, 9 * DAY])
def test_a_search_from_a_version_that_does_not_exist_yet_is_refused(resolve, timestamp):
    with pytest.raises(BeforeHistoryError, match=r"before the earliest available version 3\.$"):
        resolve(history(THREE_DAYS), timestamp, 3)


# The objects were copied on day 100. Commits from version 2 on have in-commit timestamps.
COPIED = {name(version): 100 * DAY + version for version in range(5)}
IN_COMMIT = {2: 20 * DAY, 3: 30 * DAY, 4: 40 * DAY}


@pytest.mark.parametrize(
    ("timestamp", "before", "after"),
    [
        (20 * DAY, 2, 2),
        (20 * DAY + 1, 2, 3),
        (35 * DAY, 3, 4),
        (40 * DAY, 4, 4),
    ],
)
def test_in_commit_timestamps_count_and_not_the_times_of_copied_objects(timestamp, before, after):
    versions = history(COPIED, IN_COMMIT)
    assert versions.at_or_before(timestamp) == before
    assert versions.at_or_after(timestamp) == after


def test_object_times_count_before_the_first_in_commit_timestamp():
    original = {name(0): DAY, name(1): 2 * DAY} | {name(version): 100 * DAY for version in (2, 3, 4)}
    versions = history(original, IN_COMMIT)
    assert versions.at_or_before(20 * DAY - 1) == 1
    assert versions.at_or_after(2 * DAY + 1) == 2
    assert (versions.at_or_before(DAY), versions.at_or_after(DAY + 1)) == (0, 1)


def test_versions_before_the_first_in_commit_timestamp_come_first_even_if_their_objects_are_newer():
    versions = history(COPIED, IN_COMMIT)
    assert versions.at_or_after(10 * DAY) == 0
    with pytest.raises(BeforeHistoryError) as raised:
        versions.at_or_before(20 * DAY - 1)
    assert (raised.value.version, raised.value.edge_ms) == (0, 100 * DAY)


def test_a_timestamp_after_the_last_in_commit_timestamp_is_refused():
    with pytest.raises(AfterHistoryError) as raised:
        history(COPIED, IN_COMMIT).at_or_before(40 * DAY + 1)
    assert (raised.value.version, raised.value.edge_ms) == (4, 40 * DAY)


def test_few_commits_are_read_for_their_in_commit_timestamps():
    read: list[int] = []

    def in_commit_timestamp(version: int) -> int | None:
        read.append(version)
        return 10 * version if version >= 700 else None

    versions = History(log_of({name(version): 0 for version in range(1000)}), in_commit_timestamp)
    assert versions.at_or_before(9005) == 900
    assert len(read) == len(set(read)) < 30


@settings(deadline=None)
@given(
    file_gaps=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    in_commit_gaps=st.lists(st.integers(1, 5), max_size=8),
    timestamp=st.integers(-1, 60),
)
def test_the_search_equals_a_scan_of_all_commits(file_gaps, in_commit_gaps, timestamp):
    """Object times end before in-commit timestamps begin, as in a table that was not copied."""
    times = [sum((*file_gaps, *in_commit_gaps)[: count + 1]) for count in range(len(file_gaps) + len(in_commit_gaps))]
    divide = len(file_gaps)
    versions = history(
        {name(version): at_ms if version < divide else 10_000 + version for version, at_ms in enumerate(times)},
        {version: at_ms for version, at_ms in enumerate(times) if version >= divide},
    )
    before = [version for version, at_ms in enumerate(times) if at_ms <= timestamp]
    after = [version for version, at_ms in enumerate(times) if at_ms >= timestamp]
    if not after:
        for resolve in (versions.at_or_before, versions.at_or_after):
            with pytest.raises(AfterHistoryError):
                resolve(timestamp)
        return
    assert versions.at_or_after(timestamp) == after[0]
    if before:
        assert versions.at_or_before(timestamp) == before[-1]
    else:
        with pytest.raises(BeforeHistoryError):
            versions.at_or_before(timestamp)


def test_the_error_for_a_version_that_does_not_exist_names_the_latest():
    with pytest.raises(MalformedRequestError) as raised:
        check_version(log_of(THREE_DAYS), 3)
    assert raised.value.message == (
        "Cannot load table version 3 as it does not exist. The latest available version is 2."
    )


def test_the_error_for_a_version_that_was_cleaned_up_names_the_earliest():
    with pytest.raises(MalformedRequestError) as raised:
        check_version(log_of(TRUNCATED), 3)
    assert raised.value.message == (
        "Cannot load table version 3 as the transaction log has been truncated due to manual deletion or the "
        "log/checkpoint retention policy. The earliest available version is 4."
    )
