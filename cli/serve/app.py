"""An ASGI application that invokes a function for each HTTP request.

Functions block, as in Lambda, so each invocation runs in its own thread. The answers of routes that stream are sent as
they are written; those of others, and errors, at once.
"""

import asyncio
import importlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias, cast

from cli.serve.gateway import HttpRequest, HttpResponse, LambdaContext, SentStream, http_response, proxy_event
from cli.serve.routes import Route, Routes
from cli.serve.streams import Receive, Send, Stream, StreamingFunction, response_start, send_stream
from core.api.response import error_response
from core.errors import SharingError

# The limit of API Gateway for a REST API.
MAX_BODY_BYTES = 10 * 1024 * 1024
FIRST_ERROR = 400

LambdaHandler: TypeAlias = Callable[[Mapping[str, Any], object], Mapping[str, Any]]
AccessLog: TypeAlias = Callable[[HttpRequest, HttpResponse | SentStream, float], None]
Scope: TypeAlias = Mapping[str, Any]

logger = logging.getLogger(__name__)


class BodyTooLargeError(SharingError):
    status: ClassVar[int] = 413
    code: ClassVar[str] = "REQUEST_TOO_LARGE"


class FunctionFailedError(SharingError):
    """A function raised an exception or returned an invalid response. API Gateway answers 502."""

    status: ClassVar[int] = 502


class ClientLeftError(Exception):
    """The client closed the connection before the request was complete."""


def import_functions(routes: Iterable[Route]) -> dict[str, LambdaHandler]:
    """Imports the handlers by their names in the template. A handler may read the environment at import."""
    functions = {}
    for name in {route.function.handler for route in routes}:
        module, _, attribute = name.rpartition(".")
        functions[name] = getattr(importlib.import_module(module), attribute)
    return functions


class Front:
    def __init__(
        self,
        routes: Routes,
        functions: Mapping[str, LambdaHandler],
        threads: Executor,
        access_log: AccessLog | None = None,
    ) -> None:
        self._routes = routes
        self._functions = functions
        self._threads = threads
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request = _request(scope)
        try:
            request = replace(request, body=await _body(request, receive))
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, self.answer, request)
        except BodyTooLargeError as error:
            answer = _error_answer(error)
        except ClientLeftError:
            return
        sent: HttpResponse | SentStream
        if isinstance(answer, HttpResponse):
            await _send(answer, request, send)
            sent = answer
        else:
            sent = await send_stream(answer, request, receive, send, self._threads)
        if self._access_log:
            self._access_log(request, sent, time.perf_counter() - started)

    def answer(self, request: HttpRequest) -> HttpResponse | Stream:
        """Returns the answer: whole, or as a stream if the route streams and the request has no error."""
        try:
            match = self._routes.match(request.method, request.path)
            function = match.route.function
            event = proxy_event(request, match, now=time.time())
            context = LambdaContext.of(function, request.request_id)
            # HTTP/1.0 has no chunks, and the end of a connection would not tell a part from the whole.
            if not match.route.streams or request.http_version == "1.0":
                return http_response(self._functions[function.handler](event, context))
            stream = cast("StreamingFunction", self._functions[function.handler]).stream(event, context)
            return _whole(stream) if stream.status >= FIRST_ERROR else stream
        except SharingError as error:
            return _error_answer(error)
        except Exception:
            message = f"The function failed (request id: {request.request_id})."
            logger.exception(message)
            return _error_answer(FunctionFailedError(message))


def _request(scope: Scope) -> HttpRequest:
    return HttpRequest(
        method=scope["method"],
        path=scope["raw_path"].decode("ascii"),
        query=scope["query_string"].decode("latin-1"),
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]),
        source_ip=scope["client"][0],
        http_version=scope["http_version"],
    )


async def _body(request: HttpRequest, receive: Receive) -> bytes:
    announced = next((int(value) for name, value in request.headers if name == "content-length"), 0)
    body = bytearray()
    more = announced <= MAX_BODY_BYTES
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        body += message.get("body", b"")
        more = message.get("more_body", False) and len(body) <= MAX_BODY_BYTES
    if max(announced, len(body)) > MAX_BODY_BYTES:
        raise BodyTooLargeError(f"The request body may have at most {MAX_BODY_BYTES} bytes.")
    return bytes(body)


def _whole(stream: Stream) -> HttpResponse:
    """Reads an error, which is short, to the end."""
    try:
        return HttpResponse.of(stream.status, stream.headers.items(), b"".join(stream))
    finally:
        stream.close()


async def _send(answer: HttpResponse, request: HttpRequest, send: Send) -> None:
    await send(response_start(answer.status, answer.headers, request))
    # A response to HEAD has the headers of GET and no body.
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else answer.body})


def _error_answer(error: SharingError) -> HttpResponse:
    response = error_response(error)
    return HttpResponse.of(response.status, response.headers.items(), b"".join(response.body))
