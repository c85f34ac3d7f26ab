"""Writing to a DynamoDB that throttles, fails and breaks connections."""

from typing import Any, cast

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from hypothesis import given, settings
from hypothesis import strategies as st

from core.index.layout.head import Head
from core.index.layout.items import CONTENT_BYTES, ItemKey, root_pk
from core.index.read.store import IndexStore
from core.index.write.writer import ATTEMPTS, MAX_WAIT_SECONDS, IndexWriter, WriteFailedError
from tests.examples import examples
from tests.memory_dynamodb import MemoryDynamoDB, error

FAULTS: dict[str, Exception] = {
    "throttled": error("ProvisionedThroughputExceededException", 400),
    "throttled on demand": error("ThrottlingException", 400),
    "over the account's limit": error("RequestLimitExceeded", 400),
    "internal": error("InternalServerError", 500),
    "unavailable": error("ServiceUnavailable", 503),
    "unknown": error("Whatever", 502),
    "connection closed": ConnectionClosedError(endpoint_url="http://dynamodb"),
}
HEAD = Head("b", 3, 5, 1, 10, 7.5, 0.25)


class Clock:
    """A clock that only `sleep` moves."""

    def __init__(self) -> None:
        self.at = 100.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.waits.append(seconds)
        self.at += seconds


class Environment:
    def __init__(self, units_per_second: float | None = None) -> None:
        self.dynamodb = MemoryDynamoDB()
        self.clock = Clock()
        client = cast("Any", self.dynamodb)
        self.writer = IndexWriter(
            client, "index", units_per_second=units_per_second, sleep=self.clock.sleep, now=self.clock.now
        )
        self.store = IndexStore(client, "index")

    def contents(self) -> dict[tuple[str, str], bytes]:
        return {key: item["content"]["B"] for key, item in self.dynamodb.items.items()}

    def fail(self, times: int, fault: Exception) -> None:
        faults = iter([fault] * times)

        def before(_: str) -> None:
            if next_fault := next(faults, None):
                raise next_fault

        self.dynamodb.before = before


def items(number: int, size: int = 10) -> list[tuple[ItemKey, bytes]]:
    return [(ItemKey(f"p{n % 3}", f"{n:04d}"), bytes([n % 256]) * size) for n in range(number)]


@pytest.mark.parametrize("fault", FAULTS)
def test_failed_writes_are_retried_with_growing_delays(fault: str) -> None:
    env = Environment()
    env.fail(6, FAULTS[fault])
    env.writer.put(items(3))
    assert env.contents() == dict(items(3))
    assert len(env.clock.waits) == 6
    assert sum(env.clock.waits[3:]) > sum(env.clock.waits[:3])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_write_that_keeps_failing_is_given_up(fault: str) -> None:
    env = Environment()
    env.fail(10**6, FAULTS[fault])
    with pytest.raises(WriteFailedError, match="DynamoDB"):
        env.writer.put(items(3))
    assert env.dynamodb.requests == ["BatchWriteItem"] * ATTEMPTS
    assert max(env.clock.waits) <= MAX_WAIT_SECONDS


def test_a_permanent_error_is_not_retried() -> None:
    env = Environment()
    env.fail(1, error("AccessDeniedException", 400))
    with pytest.raises(ClientError):
        env.writer.put(items(3))
    assert env.dynamodb.requests == ["BatchWriteItem"]


@settings(deadline=None, max_examples=examples(50))
@given(
    st.lists(st.integers(0, 300_000), max_size=60),
    st.lists(st.booleans(), max_size=ATTEMPTS - 1),  # fewer than the attempts, so no write is given up
    st.booleans(),
)
def test_unprocessed_items_are_sent_again_until_all_are_written(
    sizes: list[int], unprocessed: list[bool], also_delete: bool
) -> None:
    env = Environment()
    answers = iter(unprocessed)
    env.dynamodb.unprocessed = lambda _: next(answers, False)
    wanted = {ItemKey(f"p{n % 3}", f"{n:04d}"): bytes(size) for n, size in enumerate(sizes)}
    env.writer.put(wanted.items())
    assert env.contents() == wanted
    if also_delete:
        env.writer.delete(wanted)
        assert env.contents() == {}


def test_items_that_stay_unprocessed_are_given_up() -> None:
    env = Environment()
    env.dynamodb.unprocessed = lambda _: True
    with pytest.raises(WriteFailedError):
        env.writer.put(items(1))


@pytest.mark.parametrize("size", [100, 1024, 1025, 300_000])
def test_writes_stay_below_the_rate_limit(size: int) -> None:
    units = 60 * -(-size // 1024)
    env = Environment(units_per_second=50)
    env.writer.put(items(60, size))
    env.writer.put(items(1, 1))  # starts only when the limit allows it
    assert env.writer.units == units + 1
    assert env.clock.at - 100 == pytest.approx(units / 50)


def test_writes_below_the_rate_limit_do_not_wait() -> None:
    env = Environment(units_per_second=50)
    for _ in range(20):
        env.writer.put(items(1))
        env.clock.at += 1
    assert env.clock.waits == []


@settings(deadline=None, max_examples=examples(20))
@given(st.integers(1, 3 * CONTENT_BYTES))
def test_a_root_of_any_size_comes_back(size: int) -> None:
    env = Environment()
    content = bytes(n % 251 for n in range(0, size, 97)) * 97
    env.writer.put_root("t", "b", content)
    assert env.store.root("t", "b") == content
    assert len(list(env.writer.keys(root_pk("t", "b")))) == -(-len(content) // CONTENT_BYTES)


def test_the_head_moves_only_from_the_expected_build() -> None:
    env = Environment()
    move = env.writer.move_head
    second, third = (Head(name, 4, 5, 1, 10, 8.5, 0.25) for name in ("c", "d"))
    assert move("t", HEAD, None) is None
    assert env.store.head("t") == env.writer.head("t") == HEAD
    assert move("t", second, None) == HEAD
    assert move("t", second, "other") == HEAD
    assert move("t", second, "b") is None
    assert move("t", third, "b") == second
    assert env.writer.head("t") == second
    assert env.writer.head("another") is None


def test_moving_the_head_succeeds_if_the_response_to_the_first_attempt_is_lost() -> None:
    """The request is sent again, and DynamoDB reports that its condition failed."""
    env = Environment()
    env.writer.move_head("t", HEAD, None)
    assert env.writer.move_head("t", HEAD, None) is None


def test_a_deleted_head_is_not_moved() -> None:
    env = Environment()
    with pytest.raises(ClientError):
        env.writer.move_head("t", HEAD, "expected")
    assert env.writer.head("t") is None
