"""The runtime that streams, against an emulator of Lambda's Runtime API that checks every byte."""

import contextlib
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from tests.runtime_api import Invocation, Received, RuntimeApiEmulator, environment
from tests.unit.runtime.streams import event

ROOT = Path(__file__).parents[3]
FUNCTIONS = """
import os, threading
from core.api.response import Response, json_response, ndjson_response
from core.errors import InvalidParameterError
from core.runtime.function import function

def lines(call):
    number, fails = int(call.request.query["lines"]), call.request.query.get("fails")
    for count in range(number):
        yield b'{"file":{"id":"%d"}}\\n' % count
    if fails == "hang":
        threading.Event().wait()
    if fails:
        raise ZeroDivisionError("s3://bucket/secret")

def handle(call):
    if call.request.query.get("refused"):
        raise InvalidParameterError("not this")
    return ndjson_response(lines(call), headers={"X-Name": "é"}, ends_with_action="action" in call.request.query)

lambda_handler = function("query_table", handle)

def context_of(event, context):
    if event == "fail":
        raise ValueError("broken é")
    names = ("aws_request_id", "function_name", "function_version", "memory_limit_in_mb", "log_group_name",
             "log_stream_name", "invoked_function_arn")
    seconds = context.get_remaining_time_in_millis() / 1000
    return {"event": event, "trace": os.environ.get("_X_AMZN_TRACE_ID"), "seconds": seconds,
            **{name: getattr(context, name) for name in names}}
"""


@dataclass
class Runtime:
    emulator: RuntimeApiEmulator
    process: "subprocess.Popen[str]"
    output: "Queue[str]"

    def invoke(self, asked: object, **options: Any) -> Received:
        return self.emulator.invoke(Invocation(asked, **options))

    def request_line(self) -> dict[str, Any]:
        """Returns the next line about a request from the log."""
        while True:
            line = json.loads(self.output.get(timeout=60))
            if line.get("message") == "request":
                return dict(line)

    def end(self) -> list[dict[str, Any]]:
        """Ends the runtime as Lambda does. Returns the rest of its log."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        self._reader.join(60)
        return [json.loads(self.output.get()) for _ in range(self.output.qsize())]

    def __post_init__(self) -> None:
        self._reader = Thread(target=lambda: [self.output.put(line) for line in self.process.stdout or ()], daemon=True)
        self._reader.start()


@contextlib.contextmanager
def running(folder: Path, handler: str, **variables: str) -> Iterator[Runtime]:
    (folder / "functions.py").write_text(FUNCTIONS)
    with RuntimeApiEmulator() as emulator:
        variables |= environment(emulator, handler, str(folder))
        process = subprocess.Popen(
            [sys.executable, "-m", "core.runtime.streaming"],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield Runtime(emulator, process, Queue())
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with running(tmp_path_factory.mktemp("functions"), "functions.lambda_handler") as runtime:
        yield runtime


def query(encoding: str = "gzip", **parameters: object) -> dict[str, Any]:
    values = {name: str(value) for name, value in parameters.items()}
    return event("GET", encoding) | {"queryStringParameters": values}


def plain(received: Received) -> bytes:
    """Decodes the body as far as it came."""
    if received.prelude["headers"].get("Content-Encoding") != "gzip":
        return received.body
    return zlib.decompressobj(31).decompress(received.body)


def ids(received: Received) -> list[int]:
    documents = map(json.loads, plain(received).splitlines())
    return [int(document["file"]["id"]) for document in documents if "file" in document]


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("number", [0, 1, 200_000])
def test_an_answer_arrives_whole(runtime: Runtime, encoding: str, number: int) -> None:
    received = runtime.invoke(query(encoding, lines=number))
    assert (received.streamed, received.status, received.error) == (True, 200, None)
    assert received.prelude["headers"]["X-Name"] == "é"
    assert ids(received) == list(range(number))
    line = runtime.request_line()
    assert (line["ended"], line["bytes_sent"]) == ("complete", len(received.body))


def test_an_error_before_the_first_byte_is_an_error_response(runtime: Runtime) -> None:
    received = runtime.invoke(query("identity", lines=1, refused=1))
    assert (received.status, json.loads(received.body)["message"]) == (400, "not this")
    failed = runtime.invoke(query("identity", lines=0, fails=1))
    assert failed.status == 500
    assert b"secret" not in failed.content
    assert [runtime.request_line()["status"] for _ in range(2)] == [400, 500]


def test_a_late_failure_is_reported_in_the_trailers(runtime: Runtime) -> None:
    received = runtime.invoke(query(lines=200_000, fails="error"))
    assert received.status == 200
    assert received.error is not None
    assert received.error["errorType"] == "TransferBrokenError"
    assert received.error["errorMessage"] == "The request could not be answered. (request id: req-1)"
    with pytest.raises(EOFError):
        gzip.decompress(received.body)
    with pytest.raises(ValueError, match="Unterminated"):
        ids(received)
    line = runtime.request_line()
    assert (line["ended"], line["error_code"]) == ("failed", "INTERNAL_ERROR")


def test_a_late_failure_is_the_last_line_for_a_client_that_checks_it(runtime: Runtime) -> None:
    received = runtime.invoke(query(lines=200_000, fails="error", action=1))
    assert received.error is None
    last = json.loads(gzip.decompress(received.body).splitlines()[-1])
    assert last["endStreamAction"]["httpStatusErrorCode"] == 500
    assert runtime.request_line()["ended"] == "failed"


@pytest.mark.parametrize("action", [False, True])
def test_the_deadline_in_mid_stream_ends_the_answer_before_lambda_does(runtime: Runtime, action: bool) -> None:
    asked = query(lines=200_000, fails="hang", **({"action": 1} if action else {}))
    received = runtime.invoke(asked, seconds=1.0)
    assert (received.error is None) == action
    assert "in time" in (plain(received).decode() if received.error is None else received.error["errorMessage"])
    line = runtime.request_line()
    assert (line["ended"], line["error_code"]) == ("deadline", "DEADLINE_EXCEEDED")
    assert line["latency_ms"] < 2000


@pytest.mark.parametrize("answer_early", [False, True])
def test_a_client_that_leaves_ends_the_answer_and_the_next_one_works(runtime: Runtime, answer_early: bool) -> None:
    asked = query("identity", lines=10**7)
    assert not runtime.invoke(asked, stop_after=1_000_000, answer_early=answer_early).complete
    line = runtime.request_line()
    assert line["ended"] == "disconnected"
    assert line["bytes_sent"] < 50_000_000
    assert ids(runtime.invoke(query(lines=3))) == [0, 1, 2]
    assert runtime.request_line()["ended"] == "complete"


def test_a_client_that_reads_nothing_ends_at_the_deadline(runtime: Runtime) -> None:
    assert not runtime.invoke(query("identity", lines=10**7), seconds=1.0, stop_after=100_000, stalls=True).complete
    line = runtime.request_line()
    assert line["ended"] == "deadline"
    assert line["latency_ms"] < 2000


def test_many_invocations_share_a_connection(runtime: Runtime) -> None:
    for number in range(50):
        assert ids(runtime.invoke(query(lines=number))) == list(range(number))
        assert runtime.request_line()["ended"] == "complete"


def test_the_context_and_the_trace_of_an_invocation(tmp_path: Path) -> None:
    variables = {
        "AWS_LAMBDA_FUNCTION_NAME": "f",
        "AWS_LAMBDA_FUNCTION_VERSION": "7",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/f",
        "AWS_LAMBDA_LOG_STREAM_NAME": "stream",
    }
    with running(tmp_path, "functions.context_of", **variables) as runtime:
        trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0"
        received = runtime.invoke({"é": 1}, seconds=30, trace_id=trace)
        document = json.loads(received.content)
        assert not received.streamed
        assert 0 < document.pop("seconds") <= 30
        assert document == {
            "event": {"é": 1},
            "trace": trace,
            "aws_request_id": "00000000-0000-4000-8000-000000000001",
            "function_name": "f",
            "function_version": "7",
            "memory_limit_in_mb": "1769",
            "log_group_name": "/aws/lambda/f",
            "log_stream_name": "stream",
            "invoked_function_arn": "arn:aws:lambda:eu-central-1:123456789012:function:f",
        }
        assert json.loads(runtime.invoke(["list"]).content)["trace"] is None
        failed = runtime.invoke("fail")
        assert failed.path.endswith("/error")
        error = json.loads(failed.content)
        assert (error["errorType"], error["errorMessage"]) == ("ValueError", "broken é")
        assert failed.headers["lambda-runtime-function-error-type"] == "ValueError"
        assert json.loads(runtime.invoke("ok").content)["event"] == "ok"
        (line,) = runtime.end()
        expected = {"level": "ERROR", "errorType": "ValueError", "request_id": "00000000-0000-4000-8000-000000000003"}
        assert expected.items() <= line.items()


def test_an_event_that_is_not_from_api_gateway_fails_and_the_next_one_works(runtime: Runtime) -> None:
    assert runtime.invoke({"Records": []}).path.endswith("/error")
    assert ids(runtime.invoke(query(lines=1))) == [0]
    assert runtime.request_line()["ended"] == "complete"


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        ("functions.missing", "AttributeError"),
        ("missing/functions.lambda_handler", "ModuleNotFoundError"),
        ("broken.lambda_handler", "ZeroDivisionError"),
    ],
)
def test_an_error_while_a_function_is_imported_ends_the_runtime(tmp_path: Path, handler: str, error: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with running(tmp_path, handler) as runtime:
        assert runtime.emulator.init_failed.wait(60)
        assert runtime.process.wait(60) == 1
        received = runtime.emulator.init_error
        assert received is not None
        assert received.headers["lambda-runtime-function-error-type"] == error
        assert json.loads(received.content)["errorType"] == error
        assert json.loads(runtime.output.get(timeout=60))["errorType"] == error


def test_a_handler_can_be_named_with_slashes(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("def handler(event, context):\n    return event\n")
    with running(tmp_path, "package/module.handler") as runtime:
        assert json.loads(runtime.invoke([1]).content) == [1]
        assert runtime.end() == []


def test_the_x_ray_segment_of_a_sampled_request_ends_with_the_stream(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(60)
        address = f"127.0.0.1:{daemon.getsockname()[1]}"
        with running(tmp_path, "functions.lambda_handler", AWS_XRAY_DAEMON_ADDRESS=address) as runtime:
            trace_id = "1-5759e988-bd862e3fe1be46a994272793"
            trace = f"Root={trace_id};Parent=53995c3f42cd8ad8;Sampled=1"
            runtime.invoke(query(lines=200_000, fails="hang"), seconds=1.0, trace_id=trace)
            segment = json.loads(daemon.recv(65_536).splitlines()[1])
            assert (segment["trace_id"], segment["name"]) == (trace_id, "## lambda_handler")
            assert segment["end_time"] - segment["start_time"] > 0.5
            runtime.invoke(query(lines=1), trace_id=trace.replace("Sampled=1", "Sampled=0"))
            runtime.invoke(query(lines=1), trace_id=trace)
            assert json.loads(daemon.recv(65_536).splitlines()[1])["id"] != segment["id"]
            assert all("message" in line or "_aws" in line for line in runtime.end())
