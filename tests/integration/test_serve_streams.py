"""Streamed answers of `sluice serve` on a real socket, with fake functions: order, flow control and how they end."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from cli.serve import server
from cli.serve.app import Front
from cli.serve.gateway import SentStream
from cli.serve.routes import Function, Route, Routes
from cli.serve.server import bind, serving
from core.runtime.streamed import TransferBrokenError

SECONDS = 60
MEGABYTE = b"x" * 2**20
LAST_CHUNK = b"0\r\n\r\n"


@dataclass
class FakeStream:
    """An answer whose blocks a test makes."""

    blocks: Callable[[], Iterator[bytes]]
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/x-ndjson"})
    closed: threading.Event = field(default_factory=threading.Event)

    def __iter__(self) -> Iterator[bytes]:
        return self.blocks()

    def close(self) -> None:
        self.closed.set()


@dataclass
class FakeFunction:
    answer: FakeStream

    def __call__(self, event: object, context: object) -> dict[str, object]:
        return {"statusCode": 200, "headers": {"Content-Type": "text/plain"}, "body": "buffered"}

    def stream(self, event: object, context: object) -> FakeStream:
        return self.answer


@dataclass
class Running:
    port: int
    log: list[tuple[int, object]]
    """The status of each answer, and how a stream ended."""
    logged: threading.Semaphore

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)

    def socket(self, version: str = "1.1") -> socket.socket:
        """Returns a connection on which the request was sent."""
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        raw.sendall(f"GET /api HTTP/{version}\r\nHost: h\r\n\r\n".encode())
        return raw

    def wait_for_log(self) -> tuple[int, object]:
        assert self.logged.acquire(timeout=SECONDS)
        return self.log[-1]


@contextlib.contextmanager
def running(answer: FakeStream) -> Iterator[Running]:
    routes = Routes([Route("GET", "/api", Function("f", "f", 128, 28), streams=True)])
    bound = bind("127.0.0.1", 0)
    log: list[tuple[int, object]] = []
    logged = threading.Semaphore(0)

    def access(_request, sent, _seconds):
        log.append((sent.status, (sent.size, sent.ended) if isinstance(sent, SentStream) else len(sent.body)))
        logged.release()

    with (
        ThreadPoolExecutor(4) as threads,
        serving(Front(routes, {"f": FakeFunction(answer)}, threads, access), bound),
    ):
        yield Running(bound.getsockname()[1], log, logged)


def read_all(raw: socket.socket) -> bytes:
    with raw:
        return b"".join(iter(lambda: raw.recv(65_536), b""))


def test_a_block_arrives_before_the_next_one_is_written():
    received = threading.Event()

    def blocks():
        yield b"first\n"
        assert received.wait(SECONDS)
        yield b"second\n"

    answer = FakeStream(blocks)
    with running(answer) as front, contextlib.closing(front.connect()) as connection:
        connection.request("GET", "/api")
        response = connection.getresponse()
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert response.headers["X-Amzn-RequestId"]
        assert response.readline() == b"first\n"
        received.set()
        assert response.read() == b"second\n"
        assert front.wait_for_log() == (200, (13, "complete"))
        assert answer.closed.wait(SECONDS)
        connection.request("GET", "/api")
        assert connection.getresponse().status == 200, "the connection stays usable"


@pytest.mark.parametrize(
    "error", [TransferBrokenError("s3://secret-bucket failed"), RuntimeError("s3://secret-bucket")]
)
def test_an_answer_that_breaks_off_has_no_last_chunk(error, caplog):
    def blocks():
        yield b"first\n"
        raise error

    answer = FakeStream(blocks)
    with running(answer) as front:
        raw = read_all(front.socket())
        assert raw.startswith(b"HTTP/1.1 200 ")
        assert raw.endswith(b"\r\n\r\n6\r\nfirst\n\r\n")
        assert b"secret-bucket" not in raw
        assert front.wait_for_log() == (200, (6, "broken off"))
        with contextlib.closing(front.connect()) as connection:
            connection.request("GET", "/api")
            response = connection.getresponse()
            with pytest.raises(http.client.IncompleteRead):
                response.read()
        assert answer.closed.wait(SECONDS)
    if isinstance(error, TransferBrokenError):
        assert not caplog.records, "the function has logged the cause"
    else:
        assert "request id" in caplog.text


def test_an_answer_that_breaks_off_before_its_first_block_is_no_empty_answer():
    def blocks():
        raise TransferBrokenError("failed")
        yield

    with running(FakeStream(blocks)) as front:
        raw = read_all(front.socket())
        assert raw.startswith(b"HTTP/1.1 200 ")
        assert LAST_CHUNK not in raw


def test_a_client_that_leaves_ends_the_answer():
    def blocks():
        while True:
            yield MEGABYTE

    answer = FakeStream(blocks)
    with running(answer) as front:
        with front.socket() as raw:
            raw.recv(1)
        assert answer.closed.wait(SECONDS)
        status, (_, ended) = front.wait_for_log()
        assert (status, ended) == (200, "client left")


def test_a_slow_client_slows_the_function_instead_of_filling_the_memory():
    total, read, ahead = 256 * 2**20, 0, []

    def blocks():
        for number in range(256):
            ahead.append((number + 1) * 2**20 - read)
            yield MEGABYTE

    with running(FakeStream(blocks)) as front, contextlib.closing(front.connect()) as slow:
        slow.request("GET", "/api")
        response = slow.getresponse()
        for _ in range(50):  # the server has time to write, if nothing holds it back
            with front.socket("1.0") as other:
                assert other.recv(100)
        while block := response.read(65_536):
            read += len(block)
    assert read == total
    assert max(ahead) < 32 * 2**20


def test_a_client_without_chunks_gets_a_buffered_answer():
    with running(FakeStream(lambda: iter([b"streamed"]))) as front:
        raw = read_all(front.socket("1.0"))
        head, _, body = raw.partition(b"\r\n\r\n")
        assert body == b"buffered"
        assert b"content-length: 8" in head.lower()
        assert b"chunked" not in head.lower()


def test_an_error_is_sent_at_once_with_its_length():
    content = json.dumps({"errorCode": "RESOURCE_DOES_NOT_EXIST", "message": "No table."}).encode()
    answer = FakeStream(lambda: iter([content[:5], content[5:]]), status=404)
    with running(answer) as front, contextlib.closing(front.connect()) as connection:
        connection.request("GET", "/api")
        response = connection.getresponse()
        assert (response.status, response.headers["Content-Length"]) == (404, str(len(content)))
        assert response.read() == content
        assert answer.closed.is_set()
        assert front.wait_for_log() == (404, len(content))


def test_the_end_of_the_server_breaks_answers_off_and_closes_them(monkeypatch):
    monkeypatch.setattr(server, "STOP_SECONDS", 0)
    started = threading.Event()

    def blocks():
        while True:
            yield MEGABYTE
            started.set()

    answer = FakeStream(blocks)
    with running(answer) as front:
        raw = front.socket()
        assert started.wait(SECONDS)
    assert answer.closed.wait(SECONDS)
    assert front.wait_for_log()[1][1] == "server stopped"
    assert not read_all(raw).endswith(LAST_CHUNK)
