import pytest

from core.delta.history import check_version, version_at_or_after, version_at_or_before
from core.delta.log import list_log
from core.errors import MalformedRequestError
from core.storage.location import S3Location
from tests.unit.delta.builder import MemoryObjects, name

DAY = 86_400_000


def log_of(times: dict[str, int]):
    objects = MemoryObjects()
    for relative, at_ms in times.items():
        objects.put(relative, at_ms=at_ms)
    return list_log(objects, S3Location("bucket", ""))


THREE_DAYS = log_of({name(0): DAY, name(1): 2 * DAY, name(2): 3 * DAY})
TRUNCATED = log_of({name(3): DAY, name(4): 2 * DAY, name(4, "checkpoint.parquet"): 2 * DAY, name(5): 3 * DAY})


@pytest.mark.parametrize(
    ("timestamp", "before", "after"),
    [(DAY, 0, 0), (DAY + 1, 0, 1), (2 * DAY - 1, 0, 1), (2 * DAY, 1, 1), (3 * DAY, 2, 2)],
)
def test_a_moment_means_the_version_at_or_before_it_or_at_or_after_it(timestamp, before, after):
    assert version_at_or_before(THREE_DAYS, timestamp) == before
    assert version_at_or_after(THREE_DAYS, timestamp) == after


def test_before_the_first_commit_there_is_no_snapshot():
    with pytest.raises(MalformedRequestError) as raised:
        version_at_or_before(THREE_DAYS, DAY - 1)
    assert raised.value.message == (
        "The provided timestamp 86399999 ms (1970-01-01T23:59:59.999Z) is before the earliest available version 0. "
        "Please use a timestamp greater than or equal to 86400000 ms (1970-01-02T00:00:00Z)."
    )


def test_before_the_first_commit_the_next_version_is_the_first():
    assert version_at_or_after(THREE_DAYS, -5) == 0
    assert version_at_or_after(TRUNCATED, 0) == 4


@pytest.mark.parametrize("resolve", [version_at_or_before, version_at_or_after])
def test_after_the_last_commit_there_is_no_version(resolve):
    with pytest.raises(MalformedRequestError) as raised:
        resolve(THREE_DAYS, 3 * DAY + 1000)
    assert raised.value.message == (
        "The provided timestamp 259201000 ms (1970-01-04T00:00:01Z) is after the latest available version 2. "
        "Please use a timestamp less than or equal to 259200000 ms (1970-01-04T00:00:00Z)."
    )


@pytest.mark.parametrize("timestamp", [10**18, -(10**18)])
def test_a_moment_outside_the_calendar_is_refused_all_the_same(timestamp):
    with pytest.raises(MalformedRequestError, match=f"The provided timestamp {timestamp} ms is "):
        version_at_or_before(THREE_DAYS, timestamp)


def test_a_version_that_does_not_exist_is_refused_with_the_latest():
    with pytest.raises(MalformedRequestError) as raised:
        check_version(THREE_DAYS, 3)
    assert raised.value.message == (
        "Cannot load table version 3 as it does not exist. The latest available version is 2."
    )


def test_a_version_that_was_cleaned_up_is_refused_with_the_earliest():
    with pytest.raises(MalformedRequestError) as raised:
        check_version(TRUNCATED, 3)
    assert raised.value.message == (
        "Cannot load table version 3 as the transaction log has been truncated due to manual deletion or the "
        "log/checkpoint retention policy. The earliest available version is 4."
    )


def test_a_moment_before_the_earliest_readable_version_is_refused():
    with pytest.raises(MalformedRequestError, match="is before the earliest available version 4"):
        version_at_or_before(TRUNCATED, DAY)
