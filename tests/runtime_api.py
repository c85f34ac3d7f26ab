"""An emulator of Lambda's Runtime API that reads every byte of a raw socket and checks it.

It hands out invocations one after the other and returns what the runtime sent for each. For a streamed answer, it
checks the request line, the headers, the prelude, the separator, the framing of chunks and the trailers. It can read
slowly, and close the connection in mid-stream as Lambda does when the client is gone.
"""

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Self

API = "/2018-06-01/runtime"
STREAM_HEADERS = {
    "lambda-runtime-function-response-mode": "streaming",
    "transfer-encoding": "chunked",
    "content-type": "application/vnd.awslambda.http-integration-response",
    "trailer": "Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body",
}


class WireError(Exception):
    """The runtime sent something that Lambda would not accept."""


@dataclass(frozen=True)
class Invocation:
    event: object
    seconds: float = 60.0
    trace_id: str | None = None
    stop_after: int | None = None
    """Close the connection after that many bytes of the body of the request, including the framing."""
    answer_early: bool = False
    """Answer 400 instead of only closing the connection."""
    stalls: bool = False
    """Stop reading after `stop_after`, and close the connection only long after the deadline."""
    bytes_per_second: float | None = None


@dataclass
class Received:
    """What the runtime sent for an invocation."""

    path: str
    headers: dict[str, str]
    content: bytes
    """The body of the request without the framing of chunks."""
    chunk_sizes: list[int] = field(default_factory=list)
    trailers: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    """False if the emulator closed the connection."""

    @property
    def streamed(self) -> bool:
        return self.headers.get("lambda-runtime-function-response-mode") == "streaming"

    @property
    def prelude(self) -> dict[str, Any]:
        document, separator, _ = self.content.partition(bytes(8))
        assert separator, "there is no separator after the prelude"
        prelude: dict[str, Any] = json.loads(document)
        assert set(prelude) == {"statusCode", "headers"}
        return prelude

    @property
    def status(self) -> int:
        return int(self.prelude["statusCode"])

    @property
    def body(self) -> bytes:
        return self.content.partition(bytes(8))[2]

    @property
    def error(self) -> dict[str, Any] | None:
        """The error in the trailers of a streamed answer."""
        if not self.trailers:
            return None
        assert set(self.trailers) == {"lambda-runtime-function-error-type", "lambda-runtime-function-error-body"}
        error: dict[str, Any] = json.loads(base64.b64decode(self.trailers["lambda-runtime-function-error-body"]))
        assert error["errorType"] == self.trailers["lambda-runtime-function-error-type"]
        return error


class _Reader:
    """Reads from a socket as fast as allowed, and stops after a number of bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self.left: int | None = None
        self.bytes_per_second: float | None = None

    def _fill(self) -> None:
        size = 65_536
        if self.bytes_per_second is not None:
            time.sleep(size / self.bytes_per_second)
        if self.left is not None:
            if self.left <= 0:
                raise _StoppedError
            size = min(size, self.left)
        data = self._connection.recv(size)
        if not data:
            raise EOFError
        if self.left is not None:
            self.left -= len(data)
        self._buffer += data

    def line(self) -> str:
        while (end := self._buffer.find(b"\r\n")) < 0:
            self._fill()
        line = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + 2]
        return line

    def exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._fill()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    @property
    def unread(self) -> bytes:
        return bytes(self._buffer)


class _StoppedError(Exception):
    pass


class RuntimeApiEmulator:
    """Serves one runtime. `invoke` waits for its answer."""

    def __init__(self) -> None:
        self._invocations: SimpleQueue[Invocation | None] = SimpleQueue()
        self._results: SimpleQueue[Received | BaseException] = SimpleQueue()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._current: Invocation | None = None
        self._number = 0
        self.init_error: Received | None = None
        self.init_failed = threading.Event()
        self.idle = threading.Event()
        """Set while the runtime waits for an invocation."""
        threading.Thread(target=self._serve, name="runtime-api", daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._invocations.put(None)
        self._server.close()

    def invoke(self, invocation: Invocation) -> Received:
        """Returns what the runtime sent. Raises an error if Lambda would not have accepted it."""
        self._invocations.put(invocation)
        result = self._results.get(timeout=max(invocation.seconds, 60))
        if isinstance(result, BaseException):
            raise result
        return result

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                try:
                    self._serve_connection(connection)
                except (EOFError, ConnectionError):
                    if self._current is not None:
                        self._finish(WireError("the runtime closed the connection in the middle of a request"))
                except _StoppedError:
                    pass
                except Exception as error:  # noqa: BLE001 - raised again by `invoke`
                    self._finish(error)

    def _finish(self, result: Received | BaseException) -> None:
        self._current = None
        self._results.put(result)

    def _serve_connection(self, connection: socket.socket) -> None:
        reader = _Reader(connection)
        while True:
            method, path, version = reader.line().split(" ")
            headers = dict(_headers(reader))
            _require(version == "HTTP/1.1", f"version {version}")
            _require("host" in headers, "no Host header")
            if (method, path) == ("GET", f"{API}/invocation/next"):
                if not self._hand_out(connection):
                    return
            elif method == "POST":
                self._take(connection, reader, path, headers)
            else:
                raise WireError(f"{method} {path}")

    def _hand_out(self, connection: socket.socket) -> bool:
        _require(self._current is None, "the runtime asked for the next invocation before it answered the last one")
        self.idle.set()
        invocation = self._invocations.get()
        self.idle.clear()
        if invocation is None:
            return False
        self._current, self._number = invocation, self._number + 1
        deadline_ms = int((time.time() + invocation.seconds) * 1000)
        headers = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": self._request_id,
            "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:eu-central-1:123456789012:function:f",
        } | ({"Lambda-Runtime-Trace-Id": invocation.trace_id} if invocation.trace_id else {})
        _answer(connection, "200 OK", json.dumps(invocation.event).encode(), headers)
        return True

    @property
    def _request_id(self) -> str:
        return f"00000000-0000-4000-8000-{self._number:012}"

    def _take(self, connection: socket.socket, reader: _Reader, path: str, headers: dict[str, str]) -> None:
        if path == f"{API}/init/error":
            self.init_error = _read_message(reader, path, headers)
            _answer(connection, "202 Accepted", b'{"status":"OK"}')
            self.init_failed.set()
            return
        invocation = self._current
        _require(invocation is not None, f"POST {path} without an invocation")
        assert invocation is not None
        kinds = [f"{API}/invocation/{self._request_id}/{kind}" for kind in ("response", "error")]
        _require(path in kinds, f"POST {path}")
        reader.left, reader.bytes_per_second = invocation.stop_after, invocation.bytes_per_second
        received = Received(path, headers, b"")
        try:
            received = _read_message(reader, path, headers)
        except _StoppedError:
            if invocation.stalls:
                time.sleep(3 * invocation.seconds)
            if invocation.answer_early:
                _answer(connection, "400 Bad Request", b"{}")
            received.complete = False
            self._finish(received)
            raise
        reader.left = reader.bytes_per_second = None
        _require(not reader.unread, f"{reader.unread!r} after the end of the request")
        _answer(connection, "202 Accepted", b'{"status":"OK"}')
        self._finish(received)


def _headers(reader: _Reader) -> Iterator[tuple[str, str]]:
    while line := reader.line():
        name, separator, value = line.partition(": ")
        _require(bool(separator), f"header line {line!r}")
        yield name.lower(), value


def _read_message(reader: _Reader, path: str, headers: dict[str, str]) -> Received:
    if headers.get("transfer-encoding") != "chunked":
        return Received(path, headers, reader.exactly(int(headers["content-length"])))
    for name, value in STREAM_HEADERS.items():
        _require(headers.get(name) == value, f"{name}: {headers.get(name)}")
    _require("content-length" not in headers, "Content-Length in a chunked request")
    received = Received(path, headers, b"")
    pieces = []
    while True:
        line = reader.line()
        size = int(line, 16)
        _require(f"{size:x}" == line, f"size of a chunk {line!r}")
        if size == 0:
            break
        pieces.append(reader.exactly(size))
        received.chunk_sizes.append(size)
        _require(reader.exactly(2) == b"\r\n", "a chunk is longer than its size")
    received.trailers = dict(_headers(reader))
    received.content = b"".join(pieces)
    _require(bytes(8) in received.content, "no separator after the prelude")
    return received


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise WireError(problem)


def _answer(connection: socket.socket, status: str, content: bytes, headers: Mapping[str, str] | None = None) -> None:
    fields = {"Content-Length": str(len(content)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    connection.sendall(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content)


def environment(emulator: RuntimeApiEmulator, handler: str, task_root: str) -> dict[str, str]:
    """Returns the variables with which Lambda starts a runtime."""
    return {"AWS_LAMBDA_RUNTIME_API": emulator.address, "_HANDLER": handler, "LAMBDA_TASK_ROOT": task_root}
