"""Routes as Lambda functions: responses, errors, log lines and metrics."""

import json
import logging
from collections.abc import Iterator

import pytest

from core.api.response import Response, json_response
from core.errors import (
    DamagedLogError,
    InvalidParameterError,
    QueryFailedError,
    SharingError,
    UnauthenticatedError,
)
from core.runtime.events import ProxyResponse
from core.runtime.function import Handle, function
from core.runtime.observability import logger
from core.sharing.call import Call
from core.sharing.services import process_services

EVENT = {
    "httpMethod": "GET",
    "headers": {"Authorization": "Bearer slc_secret"},
    "pathParameters": None,
    "requestContext": {"requestId": "req-1"},
}


def call(handle: Handle, event: dict[str, object] = EVENT) -> ProxyResponse:
    return function("a_route", handle)(event, object())


def raising(error: Exception) -> Handle:
    def handle(_: Call) -> Response:
        raise error

    return handle


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, object]]]:
    """Collects the log lines as CloudWatch would receive them."""
    lines: list[dict[str, object]] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(logger.registered_formatter.format(record)))

    collector = Collect()
    logger.addHandler(collector)
    logger.setLevel("INFO")
    yield lines
    logger.removeHandler(collector)


def metrics(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in lines if "_aws" in line]


def test_an_answer_has_the_form_that_api_gateway_expects() -> None:
    answer = call(lambda _: json_response({"a": 1}))
    assert answer == {
        "statusCode": 200,
        "headers": {"Content-Type": "application/json; charset=utf-8"},
        "body": '{"a":1}',
        "isBase64Encoded": False,
    }


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidParameterError("no"), 400, "INVALID_PARAMETER_VALUE"),
        (UnauthenticatedError("no", token_was_sent=True), 401, "UNAUTHENTICATED"),
        (QueryFailedError("no"), 400, "QUERY_FAILED"),
    ],
)
def test_a_sharing_error_becomes_its_status_and_code(error: SharingError, status: int, code: str) -> None:
    answer = call(raising(error))
    assert answer["statusCode"] == status
    assert json.loads(answer["body"]) == {"errorCode": code, "message": "no"}


def test_only_a_caller_who_sent_a_token_learns_that_it_is_invalid() -> None:
    sent = call(raising(UnauthenticatedError("no", token_was_sent=True)))["headers"]["WWW-Authenticate"]
    none = call(raising(UnauthenticatedError("no", token_was_sent=False)))["headers"]["WWW-Authenticate"]
    assert sent == 'Bearer realm="delta-sharing", error="invalid_token"'
    assert none == 'Bearer realm="delta-sharing"'


def test_an_unexpected_exception_is_a_500_with_the_request_id_and_without_the_cause(
    log_lines: list[dict[str, object]],
) -> None:
    answer = call(raising(ZeroDivisionError("secret s3://bucket")))
    document = json.loads(answer["body"])
    assert answer["statusCode"] == 500
    assert document["errorCode"] == "INTERNAL_ERROR"
    assert "req-1" in document["message"]
    assert "bucket" not in answer["body"]
    failure = next(line for line in log_lines if line["level"] == "ERROR")
    assert failure["request_id"] == "req-1"
    assert "secret s3://bucket" in str(failure["exception"])


def test_an_invalid_setting_is_a_500_and_the_log_names_it(
    monkeypatch: pytest.MonkeyPatch, log_lines: list[dict[str, object]]
) -> None:
    monkeypatch.setenv("SLUICE_URL_SECONDS", "an hour")
    process_services.cache_clear()
    assert call(lambda _: Response(200))["statusCode"] == 500
    assert any("SLUICE_URL_SECONDS is 'an hour'" in str(line.get("exception")) for line in log_lines)
    process_services.cache_clear()


def test_an_error_halfway_through_the_body_becomes_an_error_response() -> None:
    def halfway(_: Call) -> Response:
        def body() -> Iterator[bytes]:
            yield b"line\n"
            raise ZeroDivisionError

        return Response(200, {}, body())

    answer = call(halfway)
    assert answer["statusCode"] == 500
    assert "line" not in answer["body"]


def test_the_log_line_of_a_damaged_log_names_the_problem_and_the_answer_does_not(
    log_lines: list[dict[str, object]],
) -> None:
    for cause in (None, TypeError("size")):
        error = DamagedLogError("add: size is missing", file="_delta_log/00000000000000000003.json", line=2)
        error.__cause__ = cause
        answer = call(raising(error))
        assert (answer["statusCode"], "_delta_log" in answer["body"]) == (400, False)
        assert json.loads(answer["body"])["errorCode"] == "TABLE_UNREADABLE"
        warning = next(line for line in log_lines if line["level"] == "WARNING")
        assert warning["problem"] == "_delta_log/00000000000000000003.json, line 2: add: size is missing"
        assert (warning["message"], warning["request_id"]) == (error.message, "req-1")
        log_lines.clear()


def test_the_cause_of_an_error_appears_only_in_the_log(log_lines: list[dict[str, object]]) -> None:
    error = InvalidParameterError("no")
    error.__cause__ = KeyError("s3://bucket/key")
    assert "bucket" not in call(raising(error))["body"]
    assert any("s3://bucket/key" in json.dumps(line) for line in log_lines)


def test_each_request_logs_one_line_with_recipient_table_and_outcome(
    log_lines: list[dict[str, object]],
) -> None:
    def handle(call: Call) -> Response:
        call.observed.recipient, call.observed.token_id, call.observed.table = "acme", "t-1", "s.c.t"
        call.observed.files_listed, call.observed.files_pruned = 3, 7
        call.observed.hints_ignored = ["x: why"]
        return Response(200)

    call(handle)
    (line,) = log_lines
    expected = {
        "request_id": "req-1",
        "route": "a_route",
        "status": 200,
        "recipient": "acme",
        "token_id": "t-1",
        "table": "s.c.t",
        "files_listed": 3,
        "files_pruned": 7,
        "hints_ignored": ["x: why"],
    }
    assert expected.items() <= line.items()
    assert float(str(line["latency_ms"])) >= 0
    assert "slc_secret" not in json.dumps(line)


def test_metrics_count_requests_files_and_urls_by_route(capsys: pytest.CaptureFixture[str]) -> None:
    def handle(call: Call) -> Response:
        call.observed.files_listed = call.observed.urls_signed = 3
        return Response(200)

    call(handle)
    (emitted,) = metrics(capsys)
    assert emitted["route"] == "a_route"
    assert (emitted["Requests"], emitted["FilesListed"], emitted["UrlsSigned"], emitted["FilesPruned"]) == (
        [1.0], [3.0], [3.0], [0.0],
    )  # fmt: skip
    assert "Latency" in emitted


def test_errors_are_counted_by_code(capsys: pytest.CaptureFixture[str]) -> None:
    call(raising(InvalidParameterError("no")))
    errors = metrics(capsys)[1]
    assert (errors["code"], errors["Errors"]) == ("INVALID_PARAMETER_VALUE", [1.0])
