"""Answers that are sent while they are written: how they end, what a client sees, and what the log says."""

import itertools
import threading
from collections.abc import Iterable, Iterator

import pytest

from core.api.response import Response, json_response, ndjson_response
from core.errors import DamagedLogError, InvalidParameterError, SharingError
from core.runtime.function import Handle, function
from core.runtime.handover import MAX_BYTES
from core.runtime.streamed import TransferBrokenError
from core.sharing.call import Call
from tests.unit.delta.builder import PROTOCOL, add, metadata
from tests.unit.runtime.streams import BLOCK, Context, event, lines, query_handle, read, stream
from tests.unit.runtime.test_function import log_lines, metrics
from tests.unit.sharing.shared_table import SharedTable

__all__ = ["log_lines"]

Lines = list[dict[str, object]]


def answering(body: Iterable[bytes], *, ends_with_action: bool = False) -> Handle:
    return lambda _: ndjson_response(body, headers={"X": "y"}, ends_with_action=ends_with_action)


def failing_after(number: int, error: BaseException) -> Iterator[bytes]:
    yield from lines(number)
    raise error


def requests_of(log: Lines) -> Lines:
    return [line for line in log if line["message"] == "request"]


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set at the end of the test, so that late work ends."""
    event = threading.Event()
    yield event
    event.set()


def hanging_after(number: int, released: threading.Event) -> Iterator[bytes]:
    yield from lines(number)
    released.wait(60)
    yield b"late\n"


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("unthrottled_bytes", [None, 1000])
def test_a_streamed_answer_equals_the_buffered_one(encoding: str, unthrottled_bytes: int | None) -> None:
    table = SharedTable([PROTOCOL, metadata(), *(add(f"f{number}") for number in range(2000))])
    asked = event(encoding=encoding, body={"includeRefreshToken": False})
    seen = read(stream(query_handle(table), asked, unthrottled_bytes=unthrottled_bytes))
    buffered = function("query_table", query_handle(table))(event(encoding="identity", body={}), Context())
    assert (seen.status, seen.body) == (200, buffered["body"].encode())
    assert buffered["headers"].items() <= seen.headers.items()


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_small_and_empty_answers(encoding: str) -> None:
    seen = read(stream(lambda _: json_response({"a": 1}, status=201), event(encoding=encoding)))
    assert (seen.status, seen.documents, seen.complete) == (201, [{"a": 1}], True)
    empty = read(stream(lambda _: Response(204, {"X": "y"}), event(encoding=encoding)))
    assert (empty.status, empty.headers, empty.body) == (204, {"X": "y"}, b"")


@pytest.mark.parametrize("fails", [False, True])
def test_head_has_no_body(fails: bool) -> None:
    closed = threading.Event()

    def body() -> Iterator[bytes]:
        try:
            yield b"never"
        finally:
            closed.set()

    def handle(_: Call) -> Response:
        if fails:
            raise InvalidParameterError("no")
        response = Response(200, {"X": "y"}, body())
        next(response.body)
        return response

    seen = read(stream(handle, event("HEAD")))
    assert (seen.status, seen.body) == ((400, b"") if fails else (200, b""))
    assert "Content-Encoding" not in seen.headers
    assert fails or closed.wait(60)


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (InvalidParameterError("not this"), 400, "not this"),
        (DamagedLogError("add", file="_delta_log/1.json"), 400, "damaged"),
        (ZeroDivisionError("s3://bucket"), 500, "The request could not be answered. (request id: req-1)"),
    ],
)
@pytest.mark.parametrize("in_body", [False, True])
def test_an_error_before_the_first_block_is_an_error_response(
    error: Exception, status: int, text: str, in_body: bool, log_lines: Lines
) -> None:
    def handle(_: Call) -> Response:
        if in_body:
            return Response(200, {}, failing_after(0, error))
        raise error

    seen = read(stream(handle))
    (document,) = seen.documents
    assert (seen.status, seen.complete) == (status, True)
    assert text in document["message"]
    assert b"bucket" not in seen.body
    assert [(line["status"], line["ended"]) for line in requests_of(log_lines)] == [(status, "complete")]


LATE_ERRORS = [
    (InvalidParameterError("not this"), 400, "not this"),
    (ZeroDivisionError("s3://bucket"), 500, "The request could not be answered. (request id: req-1)"),
    (SystemExit(3), 500, "The request could not be answered. (request id: req-1)"),
]


@pytest.mark.parametrize(("error", "status", "text"), LATE_ERRORS)
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_late_error_is_the_last_line_for_a_client_that_checks_it(
    error: BaseException, status: int, text: str, encoding: str, log_lines: Lines
) -> None:
    answer = stream(answering(failing_after(20, error), ends_with_action=True), event(encoding=encoding))
    seen = read(answer)
    assert (seen.status, seen.complete, seen.broken) == (200, True, None)
    assert len(seen.documents) == 21
    assert seen.error == {"errorMessage": text, "httpStatusErrorCode": status}
    code = error.code if isinstance(error, SharingError) else "INTERNAL_ERROR"
    assert [(line["ended"], line["error_code"]) for line in requests_of(log_lines)] == [("failed", code)]


@pytest.mark.parametrize(("error", "status", "text"), LATE_ERRORS)
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_late_error_breaks_the_transfer_to_any_other_client(
    error: BaseException, status: int, text: str, encoding: str, log_lines: Lines
) -> None:
    seen = read(stream(answering(failing_after(20, error)), event(encoding=encoding)))
    assert (seen.complete, seen.broken, len(seen.documents)) == (False, text, 20)
    assert b"endStreamAction" not in seen.body
    assert [line["ended"] for line in requests_of(log_lines)] == ["failed"]


def test_only_a_client_that_asked_for_it_gets_the_error_as_a_last_line() -> None:
    """Older Spark connectors read a refresh or page token from the last line, but not an error."""
    table = SharedTable([PROTOCOL, metadata(), add("a")])

    def ends_with_action(body: dict[str, object], capabilities: str) -> bool:
        asked = event(body=body, **{"delta-sharing-capabilities": capabilities})
        responses = []

        def handle(call: Call) -> Response:
            responses.append(query_handle(table)(call))
            return responses[0]

        read(stream(handle, asked))
        return bool(responses[0].ends_with_action)

    assert ends_with_action({}, "includeendstreamaction=true")
    assert not ends_with_action({}, "")
    assert not ends_with_action({"includeRefreshToken": True}, "responseformat=parquet")
    assert not ends_with_action({"maxFiles": 1}, "")


def test_the_deadline_before_the_first_block_is_an_error_response(released: threading.Event, log_lines: Lines) -> None:
    seen = read(stream(answering(hanging_after(0, released)), milliseconds=50))
    assert (seen.status, seen.complete) == (400, True)
    assert seen.documents[0]["errorCode"] == "DEADLINE_EXCEEDED"
    assert [(line["status"], line["error_code"]) for line in log_lines] == [(400, "DEADLINE_EXCEEDED")]


@pytest.mark.parametrize("ends_with_action", [False, True])
def test_the_deadline_in_mid_stream_ends_the_answer_in_time(
    released: threading.Event, ends_with_action: bool, log_lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = read(stream(answering(hanging_after(2, released), ends_with_action=ends_with_action), milliseconds=1500))
    if ends_with_action:
        assert seen.complete
        assert "could not answer this request in time" in seen.error["errorMessage"]
        assert seen.error["httpStatusErrorCode"] == 400
    else:
        assert not seen.complete
        assert "in time" in str(seen.broken)
    assert [(line["ended"], line["error_code"]) for line in log_lines] == [("deadline", "DEADLINE_EXCEEDED")]
    assert metrics(capsys)[1]["code"] == "DEADLINE_EXCEEDED"


def test_an_answer_that_the_client_reads_too_slowly_ends_at_the_deadline(log_lines: Lines) -> None:
    answer = stream(answering(lines(10**6)), milliseconds=1000)
    blocks = iter(answer)
    next(blocks)
    with pytest.raises(TransferBrokenError):
        for _ in blocks:
            pass
    answer.close()
    assert [line["ended"] for line in log_lines] == ["deadline"]


def test_a_client_that_leaves_ends_the_work_at_the_next_block(log_lines: Lines) -> None:
    ended, written = threading.Event(), itertools.count()

    def body() -> Iterator[bytes]:
        try:
            for line in lines(10**6):
                next(written)
                yield line
        finally:
            ended.set()

    answer = stream(answering(body()))
    next(iter(answer))
    answer.close()
    assert ended.wait(60)
    assert next(written) < 20
    answer.close()
    assert [(line["ended"], line.get("error_code")) for line in log_lines] == [("disconnected", None)]
    assert read(stream(lambda _: json_response({"a": 1}))).documents == [{"a": 1}]


def test_a_client_that_leaves_before_the_first_block_is_logged_too(log_lines: Lines) -> None:
    stream(answering(lines(100))).close()
    assert [line["ended"] for line in log_lines] == ["disconnected"]


def test_a_slow_client_does_not_make_the_answer_pile_up() -> None:
    written = itertools.count()

    def body() -> Iterator[bytes]:
        for line in lines(100):
            next(written)
            yield line

    blocks = iter(stream(answering(body()), event(encoding="identity")))
    most = 0
    for sent, _ in enumerate(blocks, 1):
        most = max(most, int(repr(written)[6:-1]) - sent)
    assert most <= MAX_BYTES // BLOCK + 2


def test_the_log_line_and_metrics_of_a_stream(log_lines: Lines, capsys: pytest.CaptureFixture[str]) -> None:
    table = SharedTable([PROTOCOL, metadata(), *(add(f"f{number}") for number in range(50))])
    answer = stream(query_handle(table), event(body={}))
    assert not log_lines
    content = b"".join(answer)
    answer.close()
    (line,) = log_lines
    expected = {"status": 200, "ended": "complete", "files_listed": 50, "bytes_sent": len(content), "stage": "answer"}
    assert expected.items() <= line.items()
    assert 0 < float(str(line["first_byte_ms"])) <= float(str(line["latency_ms"]))
    assert "stats_reduced" not in line
    (emitted,) = metrics(capsys)
    assert (emitted["Requests"], emitted["FilesListed"], emitted["BytesSent"]) == ([1.0], [50.0], [float(len(content))])
    assert "FirstByte" in emitted


def test_a_stream_without_a_deadline() -> None:
    answer = function("query_table", answering(lines(3))).stream(event(), object())
    assert len(read(answer).documents) == 3


def test_streams_share_a_thread() -> None:
    threads = []

    def handle(_: Call) -> Response:
        threads.append(threading.current_thread())
        return ndjson_response(lines(5), headers={})

    for _ in range(3):
        read(stream(handle))
    assert len(set(threads)) == 1
