"""A proxy in front of the embedded AWS that counts requests by service: `s3`, `dynamodb`, `sts`.

It counts requests that Python hooks cannot see, such as those of Rust libraries. It is slow: do not time through it.
"""

import contextlib
import http.client
import re
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SERVICE = re.compile(r"/(\w+)/aws4_request")


class CountingProxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Relay)
        self.target_port = target_port
        self.requests: Counter[str] = Counter()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CountingProxy

    def relay(self) -> None:
        signed = SERVICE.search(self.headers.get("Authorization", ""))
        with self.server.lock:
            self.server.requests[signed[1] if signed else "unsigned"] += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # Headers are forwarded unchanged, because the signature covers the host.
        target = http.client.HTTPConnection("127.0.0.1", self.server.target_port)
        with contextlib.closing(target):
            target.request(self.command, self.path, body, dict(self.headers))
            answer = target.getresponse()
            content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = relay  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def counting_proxy(target_port: int) -> Iterator[CountingProxy]:
    proxy = CountingProxy(target_port)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
