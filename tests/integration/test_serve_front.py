"""The HTTP front of `sluice serve` on a real socket, with fake functions."""

import base64
import contextlib
import gzip
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cli.common.errors import CommandError
from cli.serve.app import MAX_BODY_BYTES, Front
from cli.serve.routes import Function, Route, Routes
from cli.serve.server import bind, serving

PARALLEL = 16
all_arrived = threading.Barrier(PARALLEL)


def echo(event, context):
    seen = {
        "parameters": event["pathParameters"],
        "query": event["queryStringParameters"],
        "size": len(base64.b64decode(event["body"] or "")),
        "function": context.function_name,
    }
    return {"statusCode": 200, "headers": {"X-Seen": "yes"}, "body": json.dumps(seen)}


def zipped(event, context):
    return {
        "statusCode": 200,
        "headers": {"Content-Encoding": "gzip", "Content-Type": "application/x-ndjson; charset=utf-8"},
        "body": base64.b64encode(gzip.compress(b"line\n" * 1000)).decode(),
        "isBase64Encoded": True,
    }


def meet(event, context):
    all_arrived.wait(60)
    return {"statusCode": 200, "body": "{}"}


def fail(event, context):
    raise RuntimeError("s3://secret-bucket/path")


def nonsense(event, context):
    return {"body": "no status"}


ROUTES = {
    ("GET", "/api/echo/{name}"): echo,
    ("HEAD", "/api/echo/{name}"): echo,
    ("POST", "/api/echo/{name}"): echo,
    ("GET", "/api/gzip"): zipped,
    ("GET", "/api/meet"): meet,
    ("GET", "/api/fail"): fail,
    ("GET", "/api/nonsense"): nonsense,
}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    routes = Routes(
        Route(method, path, Function(handle.__name__, handle.__name__, 128, 28))
        for (method, path), handle in ROUTES.items()
    )
    functions = {handle.__name__: handle for handle in ROUTES.values()}
    bound = bind("127.0.0.1", 0)
    with ThreadPoolExecutor(PARALLEL) as threads, serving(Front(routes, functions, threads), bound):
        yield bound.getsockname()[1]


@pytest.fixture
def connection(port: int) -> Iterator[http.client.HTTPConnection]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        yield connection


@pytest.fixture
def call(connection: http.client.HTTPConnection) -> Callable[..., tuple[http.client.HTTPResponse, bytes]]:
    def send(method, path, body=None, headers=None):
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response, response.read()

    return send


def test_names_reach_the_function_encoded_as_in_the_url(call):
    response, body = call("GET", "/api/echo/a%2Fb%20c%C3%A9%00..?q=%C3%A9&q=2")
    assert response.status == 200
    assert json.loads(body)["parameters"] == {"name": "a%2Fb%20c%C3%A9%00.."}
    assert json.loads(body)["query"] == {"q": "2"}
    assert response.headers["X-Seen"] == "yes"
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["X-Amzn-RequestId"]


def test_the_answer_to_head_has_headers_and_no_body(call):
    response, body = call("HEAD", "/api/echo/x")
    assert (response.status, body) == (200, b"")
    assert response.headers["X-Seen"] == "yes"
    assert int(response.headers["Content-Length"]) > 0


def test_one_connection_carries_many_requests(connection, call):
    call("GET", "/api/echo/1")
    first = connection.sock
    for path in ("/api/echo/2", "/nowhere", "/api/gzip"):
        call("GET", path)
        call("HEAD", path)
    assert connection.sock is first


def test_an_answer_does_not_wait_for_the_clients_acknowledgement(call):
    """Nagle's algorithm would delay every answer after the first few by at least 40 ms.

    Only the fastest answer counts: a busy machine delays some answers, but not all.
    """
    seconds = []
    for _ in range(100):
        started = time.perf_counter()
        call("GET", "/api/echo/x")
        seconds.append(time.perf_counter() - started)
    assert min(seconds[50:]) < 0.04


def test_a_gzipped_body_is_passed_through_unchanged(call):
    response, body = call("GET", "/api/gzip", headers={"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == b"line\n" * 1000


def test_requests_run_concurrently(port):
    def ask(_):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/api/meet")
            return connection.getresponse().status

    with ThreadPoolExecutor(PARALLEL) as threads:
        assert list(threads.map(ask, range(PARALLEL))) == [200] * PARALLEL


@pytest.mark.parametrize("path", ["/", "/api", "/api/echo/", "/api/echo/a/b", "//", "/%61pi/gzip"])
def test_a_path_without_a_route_is_a_404_in_the_protocols_form(call, path):
    response, body = call("GET", path)
    assert response.status == 404
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert json.loads(body) == {"errorCode": "RESOURCE_DOES_NOT_EXIST", "message": "There is no such route."}


def test_a_404_to_head_has_no_body(call):
    response, body = call("HEAD", "/api/unknown")
    assert (response.status, body) == (404, b"")


@pytest.mark.parametrize("path", ["/api/fail", "/api/nonsense"])
def test_a_function_that_fails_is_a_502_that_reveals_nothing(call, path, caplog):
    response, body = call("GET", path)
    assert response.status == 502
    assert json.loads(body)["errorCode"] == "INTERNAL_ERROR"
    assert response.headers["X-Amzn-RequestId"] in json.loads(body)["message"]
    assert b"secret-bucket" not in body
    assert response.headers["X-Amzn-RequestId"] in caplog.text


def test_a_body_at_the_limit_of_api_gateway_arrives_complete(call):
    response, body = call("POST", "/api/echo/x", b"x" * MAX_BODY_BYTES)
    assert (response.status, json.loads(body)["size"]) == (200, MAX_BODY_BYTES)


def chunks():
    for _ in range(MAX_BODY_BYTES // 2**20 + 1):
        yield b"x" * 2**20


@pytest.mark.parametrize("body", [b"x" * (MAX_BODY_BYTES + 1), chunks], ids=["announced", "chunked"])
def test_a_larger_body_is_a_413_and_the_connection_stays_usable(call, body):
    response, answer = call("POST", "/api/echo/x", body() if callable(body) else body)
    assert response.status == 413
    assert json.loads(answer)["errorCode"] == "REQUEST_TOO_LARGE"
    assert call("GET", "/api/echo/x")[0].status == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /api/echo/\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /api/echo/x HTTP/1.1\r\nHost: h\r\nContent-Length: many\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
    ids=["raw bytes in the path", "invalid length", "not HTTP"],
)
def test_a_request_that_is_not_http_is_a_400(port, request_bytes):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        raw.sendall(request_bytes)
        assert raw.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_client_that_disconnects_during_a_request_does_not_affect_others(port, call):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        raw.sendall(b"POST /api/echo/x HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
    assert call("GET", "/api/echo/x")[0].status == 200


def test_a_taken_port_is_an_error_that_names_the_option():
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(CommandError) as raised:
            bind("127.0.0.1", port)
    assert raised.value.message == f"Port {port} on 127.0.0.1 is already in use. Choose another with --port."


@pytest.mark.parametrize(("host", "port"), [("host.invalid", 0), ("127.0.0.1", 99999), ("192.0.2.1", 0)])
def test_an_unavailable_address_is_an_error_that_names_it(host, port):
    with pytest.raises(CommandError, match=f"cannot listen on {host}, port {port}"):
        bind(host, port)


def test_nothing_listens_after_the_server_ended():
    bound = bind("127.0.0.1", 0)
    address = bound.getsockname()
    with ThreadPoolExecutor(1) as threads, serving(Front(Routes([]), {}, threads), bound):
        socket.create_connection(address, timeout=60).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=60)
