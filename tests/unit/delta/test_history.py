"""Which version a moment means: by the times of objects, by those that commits state, and across the divide."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.history import AfterHistoryError, BeforeHistoryError, History, check_version
from core.delta.log.listing import list_log
from core.delta.log.segment import Log
from core.errors import MalformedRequestError
from tests.unit.delta.builder import TableInMemory, name

DAY = 86_400_000


def log_of(times: dict[str, int]) -> Log:
    table = TableInMemory()
    for relative, at_ms in times.items():
        table.put(relative, b"{}", at_ms=at_ms)
    return list_log(table.objects(), table.location)


def history(times: dict[str, int], stated: dict[int, int] | None = None) -> History:
    return History(log_of(times), (stated or {}).get)


THREE_DAYS = {name(0): DAY, name(1): 2 * DAY, name(2): 3 * DAY}
TRUNCATED = {name(3): DAY, name(4): 2 * DAY, name(4, "checkpoint.parquet"): 2 * DAY, name(5): 3 * DAY}


@pytest.mark.parametrize(
    ("timestamp", "before", "after"),
    [(DAY, 0, 0), (DAY + 1, 0, 1), (2 * DAY - 1, 0, 1), (2 * DAY, 1, 1), (3 * DAY, 2, 2)],
)
def test_a_moment_means_the_version_at_or_before_it_or_at_or_after_it(timestamp, before, after):
    assert history(THREE_DAYS).at_or_before(timestamp) == before
    assert history(THREE_DAYS).at_or_after(timestamp) == after


def test_before_the_first_commit_there_is_no_snapshot():
    with pytest.raises(BeforeHistoryError) as raised:
        history(THREE_DAYS).at_or_before(DAY - 1)
    assert raised.value.message == (
        "The provided timestamp 86399999 ms (1970-01-01T23:59:59.999Z) is before the earliest available version 0. "
        "Please use a timestamp greater than or equal to 86400000 ms (1970-01-02T00:00:00Z)."
    )
    assert (raised.value.timestamp_ms, raised.value.version, raised.value.edge_ms) == (DAY - 1, 0, DAY)
    assert isinstance(raised.value, MalformedRequestError)


def test_before_the_first_commit_the_next_version_is_the_first():
    assert history(THREE_DAYS).at_or_after(-5) == 0
    assert history(TRUNCATED).at_or_after(0) == 4


@pytest.mark.parametrize("resolve", [History.at_or_before, History.at_or_after])
def test_after_the_last_commit_there_is_no_version(resolve):
    with pytest.raises(AfterHistoryError) as raised:
        resolve(history(THREE_DAYS), 3 * DAY + 1000)
    assert raised.value.message == (
        "The provided timestamp 259201000 ms (1970-01-04T00:00:01Z) is after the latest available version 2. "
        "Please use a timestamp less than or equal to 259200000 ms (1970-01-04T00:00:00Z)."
    )
    assert (raised.value.timestamp_ms, raised.value.version, raised.value.edge_ms) == (3 * DAY + 1000, 2, 3 * DAY)
    assert isinstance(raised.value, MalformedRequestError)


@pytest.mark.parametrize("timestamp", [10**18, -(10**18)])
def test_a_moment_outside_the_calendar_is_refused_all_the_same(timestamp):
    with pytest.raises(MalformedRequestError, match=f"The provided timestamp {timestamp} ms is "):
        history(THREE_DAYS).at_or_before(timestamp)


def test_a_moment_before_the_earliest_readable_version_is_refused():
    with pytest.raises(BeforeHistoryError, match="is before the earliest available version 4"):
        history(TRUNCATED).at_or_before(DAY)


# The objects were copied on the hundredth day; from version 2 on commits state their time.
COPIED = {name(version): 100 * DAY + version for version in range(5)}
STATED = {2: 20 * DAY, 3: 30 * DAY, 4: 40 * DAY}


@pytest.mark.parametrize(
    ("timestamp", "before", "after"),
    [
        (20 * DAY, 2, 2),
        (20 * DAY + 1, 2, 3),
        (35 * DAY, 3, 4),
        (40 * DAY, 4, 4),
    ],
)
def test_what_commits_state_counts_and_not_when_they_were_copied(timestamp, before, after):
    moments = history(COPIED, STATED)
    assert moments.at_or_before(timestamp) == before
    assert moments.at_or_after(timestamp) == after


def test_before_the_first_commit_that_states_its_time_the_times_of_objects_count():
    original = {name(0): DAY, name(1): 2 * DAY} | {name(version): 100 * DAY for version in (2, 3, 4)}
    moments = history(original, STATED)
    assert moments.at_or_before(20 * DAY - 1) == 1
    assert moments.at_or_after(2 * DAY + 1) == 2
    assert (moments.at_or_before(DAY), moments.at_or_after(DAY + 1)) == (0, 1)


def test_objects_that_are_younger_than_what_commits_state_are_before_it_all_the_same():
    moments = history(COPIED, STATED)
    assert moments.at_or_after(10 * DAY) == 0
    with pytest.raises(BeforeHistoryError) as raised:
        moments.at_or_before(20 * DAY - 1)
    assert (raised.value.version, raised.value.edge_ms) == (0, 100 * DAY)


def test_after_the_time_that_the_last_commit_states_there_is_no_version():
    with pytest.raises(AfterHistoryError) as raised:
        history(COPIED, STATED).at_or_before(40 * DAY + 1)
    assert (raised.value.version, raised.value.edge_ms) == (4, 40 * DAY)


def test_few_commits_are_read_for_the_times_that_they_state():
    asked: list[int] = []

    def stated(version: int) -> int | None:
        asked.append(version)
        return 10 * version if version >= 700 else None

    moments = History(log_of({name(version): 0 for version in range(1000)}), stated)
    assert moments.at_or_before(9005) == 900
    assert len(asked) == len(set(asked)) < 30


@settings(deadline=None)
@given(
    file_gaps=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    stated_gaps=st.lists(st.integers(1, 5), max_size=8),
    timestamp=st.integers(-1, 60),
)
def test_a_moment_is_found_as_if_every_commit_had_been_asked(file_gaps, stated_gaps, timestamp):
    """Where the times of objects end before the stated ones begin, as they do in a table that nobody copied."""
    times = [sum((*file_gaps, *stated_gaps)[: count + 1]) for count in range(len(file_gaps) + len(stated_gaps))]
    divide = len(file_gaps)
    moments = history(
        {name(version): at_ms if version < divide else 10_000 + version for version, at_ms in enumerate(times)},
        {version: at_ms for version, at_ms in enumerate(times) if version >= divide},
    )
    before = [version for version, at_ms in enumerate(times) if at_ms <= timestamp]
    after = [version for version, at_ms in enumerate(times) if at_ms >= timestamp]
    if not after:
        for resolve in (moments.at_or_before, moments.at_or_after):
            with pytest.raises(AfterHistoryError):
                resolve(timestamp)
        return
    assert moments.at_or_after(timestamp) == after[0]
    if before:
        assert moments.at_or_before(timestamp) == before[-1]
    else:
        with pytest.raises(BeforeHistoryError):
            moments.at_or_before(timestamp)


def test_a_version_that_does_not_exist_is_refused_with_the_latest():
    with pytest.raises(MalformedRequestError) as raised:
        check_version(log_of(THREE_DAYS), 3)
    assert raised.value.message == (
        "Cannot load table version 3 as it does not exist. The latest available version is 2."
    )


def test_a_version_that_was_cleaned_up_is_refused_with_the_earliest():
    with pytest.raises(MalformedRequestError) as raised:
        check_version(log_of(TRUNCATED), 3)
    assert raised.value.message == (
        "Cannot load table version 3 as the transaction log has been truncated due to manual deletion or the "
        "log/checkpoint retention policy. The earliest available version is 4."
    )
