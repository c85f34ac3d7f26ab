import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from core.errors import TableFilesError
from core.settings import MIN_URL_SECONDS
from core.storage.roles import MARGIN_SECONDS, MAX_CACHED_ROLES, Credentials, StorageRole, StorageRoles
from tests.unit.storage.fake_sts import LIFE_SECONDS, Clock, FakeSts, sts_error

ROLE = StorageRole("arn:aws:iam::123456789012:role/storage")
THREADS = 8


class SlowSts(FakeSts):
    """Blocks its callers until they are released, so that others arrive in the meantime."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.entered = threading.Semaphore(0)
        self.released = threading.Event()

    def assume_role(self, **request: Any) -> dict[str, Any]:
        self.entered.release()
        assert self.released.wait(60)
        return super().assume_role(**request)


class WatchedClock(Clock):
    def __init__(self) -> None:
        super().__init__()
        self.reads = threading.Semaphore(0)

    def __call__(self) -> float:
        self.reads.release()
        return super().__call__()


@contextlib.contextmanager
def threads_waiting_for_sts(
    roles: StorageRoles, sts: SlowSts, clock: WatchedClock
) -> Iterator[list[Future[Credentials]]]:
    """Threads that all request a role whose credentials have expired, before STS answers the first."""
    sts.released.set()
    roles.credentials(ROLE)
    sts.released.clear()
    clock.seconds += LIFE_SECONDS
    clock.reads = threading.Semaphore(0)
    with ThreadPoolExecutor(THREADS) as pool:
        requests = [pool.submit(roles.credentials, ROLE) for _ in range(THREADS)]
        # Each thread reads the clock while it joins the pending call. The thread that calls STS reads it twice.
        try:
            assert all(clock.reads.acquire(timeout=60) for _ in range(THREADS + 1))
            yield requests
        finally:
            sts.released.set()


def test_a_role_is_assumed_for_an_hour_with_our_session_name() -> None:
    clock = Clock()
    sts = FakeSts(clock)
    credentials = StorageRoles(sts, now=clock).credentials(ROLE)
    assert sts.calls == [{"RoleArn": ROLE.arn, "RoleSessionName": "sluice", "DurationSeconds": 3600}]
    assert credentials == Credentials("ASIA1", "the-secret", "the-token", clock() + LIFE_SECONDS)


def test_an_external_id_is_sent_only_if_there_is_one() -> None:
    sts = FakeSts(Clock())
    roles = StorageRoles(sts)
    roles.credentials(ROLE)
    roles.credentials(StorageRole(ROLE.arn, "acme-7"))
    assert [call.get("ExternalId") for call in sts.calls] == [None, "acme-7"]


def test_credentials_are_cached_for_half_of_their_lifetime() -> None:
    clock = Clock()
    sts = FakeSts(clock)
    roles = StorageRoles(sts, now=clock)
    first = roles.credentials(ROLE)
    clock.seconds += LIFE_SECONDS / 2 - 1
    assert roles.credentials(ROLE) is first
    clock.seconds += 1
    assert roles.credentials(ROLE).access_key_id == "ASIA2"


@pytest.mark.parametrize("life_seconds", [900, MIN_URL_SECONDS, 2000, 2400, 3600, 43200])
def test_cached_credentials_always_outlive_the_shortest_url(life_seconds: int) -> None:
    clock = Clock()
    sts = FakeSts(clock, life_seconds=life_seconds)
    roles = StorageRoles(sts, now=clock)
    roles.credentials(ROLE)
    for _ in range(100):
        clock.seconds += life_seconds / 90
        calls = len(sts.calls)
        credentials = roles.credentials(ROLE)
        if len(sts.calls) == calls:
            assert credentials.expires_at - clock() > MIN_URL_SECONDS + MARGIN_SECONDS


def test_concurrent_requests_for_a_role_share_one_call() -> None:
    clock = WatchedClock()
    sts = SlowSts(clock)
    with threads_waiting_for_sts(StorageRoles(sts, now=clock), sts, clock) as requests:
        sts.released.set()
        assert {request.result(10).access_key_id for request in requests} == {"ASIA2"}
    assert len(sts.calls) == 2


def test_a_failure_reaches_all_waiting_threads_and_is_not_cached() -> None:
    clock = WatchedClock()
    sts = SlowSts(clock)
    roles = StorageRoles(sts, now=clock)
    with threads_waiting_for_sts(roles, sts, clock) as requests:
        sts.failures = [sts_error("AccessDenied")]
        sts.released.set()
        assert all(isinstance(request.exception(10), TableFilesError) for request in requests)
    assert len(sts.calls) == 2
    assert roles.credentials(ROLE).access_key_id == "ASIA3"


def test_roles_do_not_wait_for_each_other() -> None:
    sts = SlowSts(Clock())
    roles = StorageRoles(sts)
    others = [StorageRole(f"{ROLE.arn}-{number}") for number in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        requests = [pool.submit(roles.credentials, role) for role in others]
        all_inside_at_once = all(sts.entered.acquire(timeout=60) for _ in others)
        sts.released.set()
        assert all_inside_at_once
        assert len({request.result(10).access_key_id for request in requests}) == THREADS


@pytest.mark.parametrize(
    "refusal",
    [sts_error("AccessDenied"), sts_error("ValidationError"), ParamValidationError(report="arn:nonsense")],
)
def test_a_role_that_cannot_be_assumed_is_reported_as_permission_denied_without_details(refusal: Exception) -> None:
    sts = FakeSts(Clock())
    sts.failures = [refusal]
    with pytest.raises(TableFilesError) as raised:
        StorageRoles(sts).credentials(ROLE)
    assert raised.value.message == "permission denied"
    assert raised.value.__cause__ is refusal


def test_other_errors_of_sts_are_raised_unchanged() -> None:
    sts = FakeSts(Clock())
    sts.failures = [sts_error("Throttling")]
    with pytest.raises(ClientError, match="Throttling"):
        StorageRoles(sts).credentials(ROLE)


def test_the_oldest_credentials_are_evicted() -> None:
    sts = FakeSts(Clock())
    roles = StorageRoles(sts)
    many = [StorageRole(f"{ROLE.arn}-{number}") for number in range(MAX_CACHED_ROLES + 1)]
    for role in many:
        roles.credentials(role)
    roles.credentials(many[-1])
    roles.credentials(many[1])
    assert len(sts.calls) == len(many)
    roles.credentials(many[0])
    assert len(sts.calls) == len(many) + 1


def test_the_repr_of_credentials_hides_secrets() -> None:
    shown = repr(Credentials("ASIA1", "the-secret", "the-token", 0.0))
    assert "ASIA1" in shown
    assert "the-" not in shown
