"""A runtime for Lambda functions that stream their answers.

Lambda's own runtime for Python cannot stream. `AWS_LAMBDA_EXEC_WRAPPER` can start `python -m core.runtime.streaming`
instead. It takes events from Lambda's Runtime API and sends answers to it while they are written. Everything that knows
this API is here, so that it can go when the managed runtime streams.
"""

import base64
import contextlib
import http.client
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from core.runtime.deadline import seconds_to_answer
from core.runtime.streamed import StreamedAnswer, TransferBrokenError

API = "/2018-06-01/runtime"
ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"
ERROR_BODY = "Lambda-Runtime-Function-Error-Body"
TRACE_ID = "_X_AMZN_TRACE_ID"
PRELUDE_END = bytes(8)


class Context:
    """The second argument of a handler, as Lambda's runtime passes it."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        environment = os.environ
        self.aws_request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        self.invoked_function_arn = headers.get("Lambda-Runtime-Invoked-Function-Arn", "")
        self.function_name = environment.get("AWS_LAMBDA_FUNCTION_NAME", "")
        self.function_version = environment.get("AWS_LAMBDA_FUNCTION_VERSION", "")
        self.memory_limit_in_mb = environment.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
        self.log_group_name = environment.get("AWS_LAMBDA_LOG_GROUP_NAME", "")
        self.log_stream_name = environment.get("AWS_LAMBDA_LOG_STREAM_NAME", "")
        self._deadline_ms = int(headers["Lambda-Runtime-Deadline-Ms"])

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self._deadline_ms - int(time.time() * 1000))


class ClientGoneError(Exception):
    """Lambda does not take the rest of an answer."""


class RuntimeApi:
    """A connection to the Runtime API. It stays open between invocations, unless an answer broke off."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address)

    def next(self) -> tuple[Context, bytes]:
        """Waits for the next invocation."""
        self._connection.request("GET", f"{API}/invocation/next")
        response = self._connection.getresponse()
        content = response.read()
        if response.status != http.client.OK:
            raise RuntimeError(f"the Runtime API answered {response.status}")
        trace_id = response.headers["Lambda-Runtime-Trace-Id"]
        if trace_id is None:
            os.environ.pop(TRACE_ID, None)
        else:
            os.environ[TRACE_ID] = trace_id
        return Context(dict(response.headers)), content

    def respond(self, request_id: str, document: object) -> None:
        self._post(f"invocation/{request_id}/response", json.dumps(document, ensure_ascii=False).encode())

    def fail(self, request_id: str, error: BaseException) -> None:
        document = error_document(error)
        self._post(f"invocation/{request_id}/error", json.dumps(document).encode(), document["errorType"])

    def fail_init(self, error: BaseException) -> None:
        document = error_document(error)
        self._post("init/error", json.dumps(document).encode(), document["errorType"])

    def _post(self, path: str, content: bytes, error_type: str | None = None) -> None:
        headers = {"Content-Type": "application/json"} | ({ERROR_TYPE: error_type} if error_type else {})
        self._connection.request("POST", f"{API}/{path}", content, headers)
        self._connection.getresponse().read()

    def stream(self, request_id: str, answer: StreamedAnswer, seconds: float) -> None:
        """Sends an answer while it is written. Raises an error if Lambda does not take it within `seconds`."""
        connection = self._connection
        try:
            self._begin_stream(request_id)
            _send_blocks(_TimedSocket(connection.sock, seconds), answer)
            connection.getresponse().read()
            connection.sock.settimeout(None)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ClientGoneError from error

    def _begin_stream(self, request_id: str) -> None:
        connection = self._connection
        connection.putrequest("POST", f"{API}/invocation/{request_id}/response", skip_accept_encoding=True)
        for name, value in (
            ("Lambda-Runtime-Function-Response-Mode", "streaming"),
            ("Content-Type", "application/vnd.awslambda.http-integration-response"),
            ("Transfer-Encoding", "chunked"),
            ("Trailer", f"{ERROR_TYPE}, {ERROR_BODY}"),
        ):
            connection.putheader(name, value)
        connection.endheaders()


class _TimedSocket:
    """A socket that sends only for some time in total. Waits for Lambda, which takes an answer as the client does."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._end = time.monotonic() + seconds

    def send(self, data: bytes) -> None:
        if select.select([self._connection], [], [], 0)[0]:
            raise ConnectionAbortedError("the Runtime API answered before the end of the request")
        self._connection.settimeout(max(self._end - time.monotonic(), 0.001))
        self._connection.sendall(data)


def _send_blocks(connection: _TimedSocket, answer: StreamedAnswer) -> None:
    prelude = json.dumps({"statusCode": answer.status, "headers": answer.headers}).encode()
    connection.send(_chunk(prelude + PRELUDE_END))
    trailers = b""
    try:
        for block in answer:
            connection.send(_chunk(block))
    except TransferBrokenError as error:
        document = error_document(error, with_trace=False)
        body = base64.b64encode(json.dumps(document).encode()).decode()
        trailers = f"{ERROR_TYPE}: {document['errorType']}\r\n{ERROR_BODY}: {body}\r\n".encode()
    connection.send(b"0\r\n" + trailers + b"\r\n")


def _chunk(block: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(block), block)


def error_document(error: BaseException, *, with_trace: bool = True) -> dict[str, Any]:
    trace = traceback.format_tb(error.__traceback__) if with_trace else []
    return {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": trace}


def find_handler(name: str) -> Callable[[Any, object], object]:
    """`name` is the function's handler setting, such as `handlers.list_shares.lambda_handler`."""
    module, _, attribute = name.replace("/", ".").rpartition(".")
    handler: Callable[[Any, object], object] = getattr(importlib.import_module(module), attribute)
    return handler


def handle_next(api: RuntimeApi, handler: Callable[[Any, object], object]) -> None:
    """Handles one invocation. An event of API Gateway gets a streamed answer if the handler can stream."""
    context, content = api.next()
    try:
        event = json.loads(content)
        if not hasattr(handler, "stream") or not isinstance(event, dict) or "httpMethod" not in event:
            api.respond(context.aws_request_id, handler(event, context))
            return
        answer: StreamedAnswer = handler.stream(event, context)
    except Exception as error:  # noqa: BLE001
        _log(error, context.aws_request_id)
        api.fail(context.aws_request_id, error)
        return
    with contextlib.closing(answer), contextlib.suppress(ClientGoneError):
        api.stream(context.aws_request_id, answer, _seconds_to_send(context))


def _seconds_to_send(context: Context) -> float:
    """Returns a time between the deadline of the answer and that of the function, which leaves time for the log."""
    seconds = context.get_remaining_time_in_millis() / 1000
    return (seconds + (seconds_to_answer(context) or 0)) / 2


def _log(error: BaseException, request_id: str | None = None) -> None:
    line = {"level": "ERROR", "message": "unhandled exception", "request_id": request_id, **error_document(error)}
    sys.stdout.write(json.dumps(line) + "\n")


def _exit(_signal: int, _frame: FrameType | None) -> None:
    # At once: Python drops the exception of `sys.exit` if the signal arrives in a destructor.
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, _exit)
    # Lambda's log has one entry per line, but a pipe would be written in blocks.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
    api = RuntimeApi(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        handler = find_handler(os.environ["_HANDLER"])
    except Exception as error:  # noqa: BLE001
        _log(error)
        api.fail_init(error)
        sys.exit(1)
    while True:
        handle_next(api, handler)


if __name__ == "__main__":
    main()
