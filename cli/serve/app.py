"""An ASGI application that invokes a function for each HTTP request.

Functions block, as in Lambda, so each invocation runs in its own thread.
"""

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

from cli.serve.gateway import HttpRequest, HttpResponse, LambdaContext, http_response, proxy_event
from cli.serve.routes import Route, Routes
from core.api.response import error_response
from core.errors import SharingError

# The limit of API Gateway for a REST API.
MAX_BODY_BYTES = 10 * 1024 * 1024

LambdaHandler: TypeAlias = Callable[[Mapping[str, Any], object], Mapping[str, Any]]
AccessLog: TypeAlias = Callable[[HttpRequest, HttpResponse, float], None]
Scope: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]

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
        await _send(answer, request, send)
        if self._access_log:
            self._access_log(request, answer, time.perf_counter() - started)

    def answer(self, request: HttpRequest) -> HttpResponse:
        try:
            match = self._routes.match(request.method, request.path)
            function = match.route.function
            event = proxy_event(request, match, now=time.time())
            result = self._functions[function.handler](event, LambdaContext.of(function, request.request_id))
            return http_response(result)
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


async def _send(answer: HttpResponse, request: HttpRequest, send: Send) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((b"x-amzn-requestid", request.request_id.encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    # A response to HEAD has the headers of GET and no body.
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else answer.body})


def _error_answer(error: SharingError) -> HttpResponse:
    response = error_response(error)
    return HttpResponse.of(response.status, response.headers.items(), b"".join(response.body))
