"""A request that takes too long is logged and answered before Lambda ends the function."""

import importlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.serve.app import Front
from cli.serve.gateway import HttpRequest
from cli.serve.routes import Function, Route, Routes
from core.api.response import Response, json_response
from core.runtime.deadline import finish_within, seconds_to_answer
from core.runtime.events import ProxyResponse
from core.runtime.function import Handle, function
from core.sharing.call import TABLE, Call
from core.sharing.services import process_services
from infra import build
from tests.unit.runtime.test_function import EVENT, log_lines, metrics

__all__ = ["log_lines"]

ROOT = Path(__file__).parents[3]
ROUTES = sorted({path.stem for path in (ROOT / "handlers").glob("[!_]*.py")} - build.OTHER_STACKS - build.WORKERS)


@dataclass(frozen=True)
class Context:
    milliseconds: int

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set at the end of the test, so that late work ends."""
    event = threading.Event()
    yield event
    event.set()


def hanging(released: threading.Event, at: Callable[[Call], object] = lambda _: None) -> Handle:
    def handle(call: Call) -> Response:
        call.observed.recipient, call.observed.table, call.observed.stage = "acme", "s.c.t", TABLE
        at(call)
        released.wait(60)
        return Response(200)

    return handle


def ask(handle: Handle, *, route: str = "query_table", milliseconds: int = 50) -> ProxyResponse:
    return function(route, handle)(EVENT, Context(milliseconds))


def refusal(answer: ProxyResponse) -> str:
    document = json.loads(answer["body"])
    assert (answer["statusCode"], document["errorCode"]) == (400, "DEADLINE_EXCEEDED")
    return str(document["message"])


def test_a_request_that_takes_too_long_is_a_400_that_says_what_to_do(released: threading.Event) -> None:
    message = refusal(ask(hanging(released)))
    for advice in ("jsonPredicateHints", "limitHint", "maxFiles", "shorter range", "provider", "request id: req-1"):
        assert advice in message
    assert "shorter range of versions, or pages with maxFiles" in refusal(ask(hanging(released), route="table_changes"))
    assert "again later" in refusal(ask(hanging(released), route="list_shares"))


def test_a_slow_catalog_is_not_a_reason_to_request_less(released: threading.Event) -> None:
    def unknown_caller(call: Call) -> None:
        call.observed.stage = "catalog"

    assert "again later" in refusal(ask(hanging(released, unknown_caller)))


def test_the_log_line_of_a_late_request_names_recipient_table_and_stage(
    released: threading.Event, log_lines: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    ask(hanging(released))
    (line,) = log_lines
    expected = {
        "message": "request",
        "request_id": "req-1",
        "status": 400,
        "error_code": "DEADLINE_EXCEEDED",
        "recipient": "acme",
        "table": "s.c.t",
        "stage": "table",
    }
    assert expected.items() <= line.items()
    assert metrics(capsys)[1]["code"] == "DEADLINE_EXCEEDED"


def test_late_work_stops_at_the_next_block_and_logs_nothing(
    released: threading.Event, log_lines: list[dict[str, object]]
) -> None:
    ended = threading.Event()
    blocks = []

    def body() -> Iterator[bytes]:
        try:
            while True:
                released.wait(60)
                blocks.append(1)
                yield b"x"
        finally:
            ended.set()

    assert "maxFiles" in refusal(ask(lambda _: Response(200, {}, body())))
    assert [line["stage"] for line in log_lines] == ["answer"]
    released.set()
    assert ended.wait(60)
    assert len(blocks) == 1
    assert len(log_lines) == 1


def test_a_request_in_time_is_answered_as_usual(log_lines: list[dict[str, object]]) -> None:
    answer = ask(lambda _: json_response({"a": 1}), milliseconds=60_000)
    assert (answer["statusCode"], answer["body"]) == (200, '{"a":1}')
    assert [(line["status"], line["stage"]) for line in log_lines] == [(200, "answer")]

    def broken(_: Call) -> Response:
        raise ZeroDivisionError

    assert ask(broken, milliseconds=60_000)["statusCode"] == 500


def test_requests_share_a_thread_unless_it_is_late(released: threading.Event) -> None:
    threads = []

    def handle(_: Call) -> Response:
        threads.append(threading.current_thread())
        return Response(200)

    for _ in range(3):
        ask(handle, milliseconds=60_000)
    ask(hanging(released, lambda _: threads.append(threading.current_thread())))
    ask(handle, milliseconds=60_000)
    assert len(set(threads[:4])) == 1
    assert threads[4] is not threads[3]


def test_an_exit_reaches_the_runtime() -> None:
    def leave(_: object) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        finish_within(60, leave)


@pytest.mark.parametrize(("remaining", "expected"), [(28_000, 27.0), (10_000, 9.0), (3_000, 2.7), (0, 0.0)], ids=str)
def test_a_tenth_of_the_remaining_time_and_at_most_a_second_is_kept_for_the_answer(
    remaining: int, expected: float
) -> None:
    assert seconds_to_answer(Context(remaining)) == pytest.approx(expected)


def test_without_a_context_there_is_no_deadline_and_no_thread() -> None:
    threads = []

    def handle(_: Call) -> Response:
        threads.append(threading.current_thread())
        return Response(200)

    function("a_route", handle)(EVENT, object())
    assert threads == [threading.current_thread()]


@pytest.fixture
def silent_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An AWS that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test")
        process_services.cache_clear()
        yield
    process_services.cache_clear()


@pytest.mark.parametrize("route", sorted({*ROUTES} - {"unknown_route"}))
@pytest.mark.usefixtures("silent_aws")
def test_every_route_answers_in_time(route: str) -> None:
    event: dict[str, Any] = json.loads((ROOT / "events" / f"{route}.json").read_text())
    event["headers"] |= {"Authorization": f"Bearer slc_{'x' * 43}", "Accept-Encoding": "identity"}
    answer = importlib.import_module(f"handlers.{route}").lambda_handler(event, Context(500))
    assert "again later" in refusal(answer)


def test_sluice_serve_answers_in_time(released: threading.Event) -> None:
    slow = function("query_table", hanging(released))
    routes = Routes([Route("GET", "/api/slow", Function("Slow", "slow", 128, 0))])
    with ThreadPoolExecutor(1) as threads:
        answer = Front(routes, {"slow": slow}, threads).answer(HttpRequest("GET", "/api/slow"))
    assert answer.status == 400
    assert json.loads(answer.body)["errorCode"] == "DEADLINE_EXCEEDED"
