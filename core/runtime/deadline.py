"""Answers a request shortly before Lambda would end it.

At its timeout, Lambda ends a function without a log line, API Gateway answers 502, and clients retry that for minutes.
The work of a request therefore runs in another thread, and the function waits for it only as long as it has time to log
and to answer. A thread cannot be ended from outside: late work stops at the next block of its answer. Until then it
loads the table, which the next request finds in memory.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import TypeVar

from core.errors import DeadlineExceededError
from core.sharing.call import CATALOG, Observed

# Enough to log and to send a short answer, even if the late work keeps the processor busy.
MARGIN_SECONDS = 1.0
LESS = {
    "query_table": "Request less at a time: send a predicate (jsonPredicateHints) or a limitHint, ask for pages with "
    "maxFiles, or request a shorter range of versions.",
    "table_changes": "Request less at a time: a shorter range of versions, or pages with maxFiles.",
}
LATER = "Please send the request again later."

T = TypeVar("T")


class _Worker:
    """A thread that works for one request at a time. Kept, because a new thread costs 0.1 ms and memory of its own."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._run, name="request", daemon=True).start()

    def start(self, task: Callable[[], None]) -> None:
        self._tasks.put(task)

    def _run(self) -> None:
        while True:
            self._tasks.get()()


_idle: deque[_Worker] = deque()
os.register_at_fork(after_in_child=_idle.clear)  # a fork has none of the threads


class StoppedError(Exception):
    """The function has answered already. Nobody waits for the rest of the work."""


def seconds_to_answer(context: object) -> float | None:
    """Returns how long a request may take. None if the context does not say when the function ends, as in tests."""
    remaining_milliseconds = getattr(context, "get_remaining_time_in_millis", None)
    if remaining_milliseconds is None:
        return None
    seconds: float = remaining_milliseconds() / 1000
    return seconds - min(MARGIN_SECONDS, seconds / 10)


def finish_within(seconds: float | None, work: Callable[[threading.Event], T]) -> T | None:
    """Returns the result of `work`, or None if it takes too long. It can then see that its argument is set."""
    stopped = threading.Event()
    if seconds is None:
        return work(stopped)
    results: list[T] = []
    failures: list[BaseException] = []
    finished = threading.Event()

    def task() -> None:
        try:
            results.append(work(stopped))
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            failures.append(error)

    start_work(task, then=finished.set)
    if not finished.wait(seconds):
        stopped.set()
        return None
    if failures:
        raise failures[0]
    return results[0]


def start_work(work: Callable[[], None], *, then: Callable[[], None]) -> None:
    """Runs `work` in a thread that no other request uses. It must not raise. Calls `then` when the thread is idle."""
    worker = _idle_worker()

    def task() -> None:
        work()
        _idle.append(worker)
        then()

    worker.start(task)


def _idle_worker() -> _Worker:
    try:
        return _idle.pop()
    except IndexError:
        return _Worker()


def until_stopped(blocks: Iterable[bytes], stopped: threading.Event) -> Iterator[bytes]:
    for block in blocks:
        if stopped.is_set():
            raise StoppedError
        yield block


def deadline_error(route: str, observed: Observed, request_id: str) -> DeadlineExceededError:
    advice = LATER if observed.stage == CATALOG else LESS.get(route, LATER)
    return DeadlineExceededError(
        f"The server could not answer this request in time. {advice} If that does not help, please contact your share "
        f"provider (request id: {request_id})."
    )
