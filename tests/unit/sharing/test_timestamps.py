"""Timestamps outside the history: one error code on all routes, and nothing about versions before the start version."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidParameterError
from tests.unit.delta.builder import PROTOCOL, add, metadata
from tests.unit.sharing.pages import FEED
from tests.unit.sharing.shared_table import SharedTable

LAST = 5
FIRST_MOMENT, LAST_MOMENT = "0 ms (1970-01-01T00:00:00Z)", "5000 ms (1970-01-01T00:00:05Z)"
Ask = Callable[[SharedTable, str], object]


def six_versions(**table: Any) -> SharedTable:
    """Version n was committed n seconds after 1970."""
    commits = ([add(f"f{number}")] for number in range(1, LAST + 1))
    return SharedTable([PROTOCOL, metadata(configuration=FEED)], *commits, **table)


def at(milliseconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)).isoformat()


def version(env: SharedTable, moment: str) -> int:
    return env.tables.version(env.table, moment)


def table_metadata(env: SharedTable, moment: str) -> object:
    return env.metadata(timestamp=moment)


def query(env: SharedTable, moment: str) -> object:
    return env.query(timestamp=moment)


def changes_from(env: SharedTable, moment: str) -> object:
    return env.changes(startingTimestamp=moment)


def changes_until(env: SharedTable, moment: str) -> object:
    return env.changes(startingVersion=env.table.start_version, endingTimestamp=moment)


SNAPSHOTS: list[Ask] = [table_metadata, query]
CHANGES: list[Ask] = [changes_from, changes_until]


def refused(ask: Ask, env: SharedTable, moment: str) -> str:
    with pytest.raises(InvalidParameterError) as caught:
        ask(env, moment)
    assert caught.value.code == "INVALID_PARAMETER_VALUE"
    return caught.value.message


@pytest.mark.parametrize("ask", [*SNAPSHOTS, *CHANGES])
def test_a_timestamp_before_the_first_commit_has_the_same_error_code_on_all_routes(ask: Ask) -> None:
    message = refused(ask, six_versions(), at(-1))
    assert message.endswith(f"Please use a timestamp greater than or equal to {FIRST_MOMENT}.")
    assert "since version" not in message


@pytest.mark.parametrize("ask", SNAPSHOTS)
def test_the_error_for_a_snapshot_before_the_first_commit_names_the_earliest_version(ask: Ask) -> None:
    assert "is before the earliest available version 0. " in refused(ask, six_versions(), at(-1))


@pytest.mark.parametrize("ask", [version, *SNAPSHOTS, *CHANGES])
@pytest.mark.parametrize("start_version", [0, 2])
def test_a_timestamp_after_the_last_commit_has_the_same_error_code_on_all_routes(ask: Ask, start_version: int) -> None:
    message = refused(ask, six_versions(start_version=start_version), at(5001))
    assert message.endswith(f"Please use a timestamp less than or equal to {LAST_MOMENT}.")


def test_changes_until_the_last_commit_are_returned_and_until_a_later_moment_refused() -> None:
    env = six_versions()
    assert len(env.changes(startingVersion=1, endingTimestamp=at(5000))) == 7
    assert refused(changes_until, env, "2999-01-01T00:00:00Z") == (
        "The provided timestamp (32472144000000 ms (2999-01-01T00:00:00Z)) is after the latest version available to "
        f"this table ({LAST_MOMENT}). Please use a timestamp less than or equal to {LAST_MOMENT}."
    )


@pytest.mark.parametrize("ask", SNAPSHOTS)
@pytest.mark.parametrize("milliseconds", [-1, 0, 1000, 1999])
def test_a_snapshot_before_the_start_version_is_refused_with_the_start_as_the_earliest_version(
    ask: Ask, milliseconds: int
) -> None:
    message = refused(ask, six_versions(start_version=2), at(milliseconds))
    assert message.startswith("You can only query table data since version 2. The provided timestamp ")
    assert message.endswith(
        " is before the earliest available version 2. "
        "Please use a timestamp greater than or equal to 2000 ms (1970-01-01T00:00:02Z)."
    )


def test_the_version_at_a_timestamp_before_the_start_version_is_refused_without_naming_a_hidden_version() -> None:
    env = six_versions(start_version=2)
    assert refused(version, env, at(0)) == (
        f"You can only query table data since version 2.The provided timestamp({at(0)}) is before the earliest "
        "available version 2. Please use a timestamp greater than or equal to 2000 ms (1970-01-01T00:00:02Z)."
    )
    assert version(env, at(1001)) == 2
    assert version(six_versions(), at(-1)) == 0


@pytest.mark.parametrize("ask", CHANGES)
def test_changes_before_the_start_version_are_refused_with_the_start_as_the_earliest_version(ask: Ask) -> None:
    message = refused(ask, six_versions(start_version=2), at(0))
    assert message == (
        f"You can only query table changes since version 2. The provided timestamp ({FIRST_MOMENT}) is before the "
        "earliest version available to this table (2000 ms (1970-01-01T00:00:02Z)). "
        "Please use a timestamp greater than or equal to 2000 ms (1970-01-01T00:00:02Z)."
    )


@given(ask=st.sampled_from([version, *SNAPSHOTS, changes_until]), moments=st.tuples(*[st.integers(-9_000, 999)] * 2))
def test_no_error_depends_on_versions_before_the_start_version(ask: Ask, moments: tuple[int, int]) -> None:
    env = six_versions(start_version=2)
    first, second = (refused(ask, env, at(moment)) for moment in moments)
    assert without_moment(first, moments[0]) == without_moment(second, moments[1])


@pytest.mark.parametrize("ask", [version, *SNAPSHOTS, changes_from])
@pytest.mark.parametrize("milliseconds", [0, 3000, 9000])
def test_a_table_whose_start_version_does_not_exist_yet_reveals_nothing(ask: Ask, milliseconds: int) -> None:
    message = refused(ask, six_versions(start_version=9), at(milliseconds))
    assert "since version 9." in message
    assert "5" not in message
    assert "Please use" not in message


@pytest.mark.parametrize("ask", [version, *SNAPSHOTS, changes_from])
def test_the_error_for_an_unparsable_timestamp_contains_the_value(ask: Ask) -> None:
    assert refused(ask, six_versions(), "randomTimestamp") == (
        "Invalid startingTimestamp: 'randomTimestamp' is not a time in ISO 8601, such as 2022-01-01T00:00:00Z."
    )
    assert len(refused(ask, six_versions(), "x" * 5000)) < 250


def test_the_error_for_an_unparsable_end_names_the_end() -> None:
    assert refused(changes_until, six_versions(), "yesterday").startswith("Invalid endingTimestamp: 'yesterday' is not")


def without_moment(message: str, milliseconds: int) -> str:
    shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    for precision in ("milliseconds", "seconds"):
        text = shown.replace(tzinfo=None).isoformat(timespec=precision)
        message = message.replace(f"{milliseconds} ms ({text}Z)", "…")
    return message.replace(at(milliseconds), "…")
