"""Lambda's Runtime API for one function process, with the time of every byte and with Lambda's limit on the link.

It times answers and does not check them: `tests/runtime_api.py` does. It reads the first bytes of an answer as fast as
they come, and the rest at the speed of the link.
"""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

API = "/2018-06-01/runtime"
PRELUDE_END = bytes(8)
READ_BYTES = 256 * 1024
SECONDS = 900
# Small, because what waits in the buffers of a connection has passed the link as far as the function can see.
BUFFER_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class Link:
    """`free_bytes` of an answer pass as fast as they are written, the rest at `bytes_per_second`."""

    free_bytes: int
    bytes_per_second: float


@dataclass(slots=True)
class Answer:
    prelude: dict[str, Any]
    first_byte: float
    """Seconds from the invocation to the first byte of the body."""
    seconds: float
    """Seconds from the invocation to the end of the answer."""
    body: bytes = field(repr=False)


class RuntimeApi:
    def __init__(self, link: Link | None = None) -> None:
        self._link = link
        self._listening = socket.create_server(("127.0.0.1", 0))
        if link:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._connection: socket.socket | None = None
        self._unread = bytearray()
        self._number = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection:
            self._connection.close()
        self._listening.close()

    def wait_until_ready(self) -> None:
        """Waits until the function asks for its next invocation."""
        if self._connection is None:
            self._connection, _ = self._listening.accept()
        line, _ = self._request_head()
        if not line.startswith(f"GET {API}/invocation/next "):
            raise ConnectionError(f"the function did not start: {line}")

    def invoke(self, event: Mapping[str, Any]) -> Answer:
        """Hands out an event to the waiting function, and reads its answer. The function then waits again."""
        assert self._connection
        self._number += 1
        headers = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": f"request-{self._number}",
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + SECONDS) * 1000)),
        }
        started = time.perf_counter()
        self._send("200 OK", json.dumps(event).encode(), headers)
        line, _ = self._request_head()
        if not line.startswith(f"POST {API}/invocation/request-{self._number}/response "):
            raise ConnectionError(f"the function failed: {line}")
        content, first_byte, received = bytearray(), 0.0, 0
        for chunk in self._chunks():
            content += chunk
            received += len(chunk)
            if not first_byte and content.find(PRELUDE_END) not in (-1, len(content) - len(PRELUDE_END)):
                first_byte = time.perf_counter() - started
        seconds = time.perf_counter() - started
        self._send("202 Accepted", b"{}", {})
        self.wait_until_ready()
        prelude, _, body = content.partition(PRELUDE_END)
        return Answer(json.loads(prelude), first_byte, seconds, bytes(body))

    def _chunks(self) -> Iterator[bytes]:
        received, throttled_at = 0, 0.0
        while size := int(self._line(), 16):
            yield self._exactly(size)
            self._exactly(len(b"\r\n"))
            received += size
            if self._link and received > self._link.free_bytes:
                throttled_at = throttled_at or time.perf_counter()
                due = throttled_at + (received - self._link.free_bytes) / self._link.bytes_per_second
                time.sleep(max(due - time.perf_counter(), 0))
        while trailer := self._line():
            raise ConnectionError(f"the answer broke off: {trailer}")

    def _request_head(self) -> tuple[str, dict[str, str]]:
        line, headers = self._line(), {}
        while header := self._line():
            name, _, value = header.partition(": ")
            headers[name.lower()] = value
        return line, headers

    def _line(self) -> str:
        while (end := self._unread.find(b"\r\n")) < 0:
            self._fill()
        line = self._unread[:end].decode("latin-1")
        del self._unread[: end + 2]
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._fill()
        content = bytes(self._unread[:size])
        del self._unread[:size]
        return content

    def _fill(self) -> None:
        assert self._connection
        received = self._connection.recv(READ_BYTES)
        if not received:
            raise ConnectionError("the function closed the connection")
        self._unread += received

    def _send(self, status: str, content: bytes, headers: Mapping[str, str]) -> None:
        assert self._connection
        fields = {"Content-Length": str(len(content)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._connection.sendall(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content)
