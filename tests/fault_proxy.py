"""Proxies in front of the embedded AWS: one makes a random share of the requests to DynamoDB fail, one those to paths.

A request that fails at random is throttled, gets a server error, or loses its connection, either before it is forwarded
or after it was executed. The client cannot tell which.
"""

import contextlib
import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PASSED, LOST_ANSWER, CLOSED = "passed", "lost answer", "closed"
ERRORS = {
    "throttled": (400, "ProvisionedThroughputExceededException"),
    "throttled on demand": (400, "ThrottlingException"),
    "failed": (500, "InternalServerError"),
    "unavailable": (503, "ServiceUnavailable"),
}
FAULTS = (*ERRORS, LOST_ANSWER, CLOSED)


class FaultProxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # many clients connect at once; the default of 5 delays them by seconds

    def __init__(self, target_port: int, *, share: float, seed: int) -> None:
        """`share` is the fraction of requests that fail."""
        super().__init__(("127.0.0.1", 0), _Relay)
        self.target_port = target_port
        self.share = share
        self.outcomes: Counter[str] = Counter()
        self.on_request: Callable[[int], None] = lambda _: None
        """Called with the number of requests so far, before a request is forwarded."""
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def outcome(self) -> str:
        with self._lock:
            chosen = self._random.choice(FAULTS) if self._random.random() < self.share else PASSED
            self.outcomes[chosen] += 1
            self.on_request(self.outcomes.total())
            return chosen


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultProxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        outcome = self.server.outcome()
        if outcome in ERRORS:
            status, code = ERRORS[outcome]
            content = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "a fault"})
            self._answer(status, {"Content-Type": "application/x-amz-json-1.0"}, content.encode())
        elif outcome == CLOSED:
            self.close_connection = True
        else:
            answer = self._forward(body)
            if outcome == LOST_ANSWER:
                self.close_connection = True
            else:
                self._answer(*answer)

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        # Headers are forwarded unchanged, because the signature covers the host.
        target = http.client.HTTPConnection("127.0.0.1", self.server.target_port)
        with contextlib.closing(target):
            target.request(self.command, self.path, body, dict(self.headers))
            answer = target.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Disables logging of requests."""


class PathProxy(ThreadingHTTPServer):
    """Forwards requests to any service, except those whose path a test holds up or makes fail."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, target_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _PathRelay)
        self.target_port = target_port
        self.fails: Callable[[str], bool] = lambda _: False
        """Whether a path gets a server error."""
        self.waits: Callable[[str], bool] = lambda _: False
        """Whether a path gets its answer only after `release` is set."""
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _PathRelay(_Relay):
    server: PathProxy  # type: ignore[assignment]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.fails(self.path):
            self._answer(500, {"Content-Type": "application/xml"}, b"<Error><Code>InternalError</Code></Error>")
            return
        if self.server.waits(self.path):
            self.server.release.wait()
        with contextlib.suppress(ConnectionError):  # the client waited too long
            self._answer(*self._forward(body))

    def do_POST(self) -> None:
        self.do_GET()


@contextlib.contextmanager
def fault_proxy(target_port: int, *, share: float, seed: int) -> Iterator[FaultProxy]:
    proxy = FaultProxy(target_port, share=share, seed=seed)
    with _serving(proxy):
        yield proxy


@contextlib.contextmanager
def path_proxy(target_port: int) -> Iterator[PathProxy]:
    proxy = PathProxy(target_port)
    with _serving(proxy):
        yield proxy
        proxy.release.set()


@contextlib.contextmanager
def _serving(proxy: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
