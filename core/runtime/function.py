"""Wraps the handler of a route as a Lambda function.

This is the only place that converts errors to HTTP. An unexpected exception becomes a 500 that contains only the
request ID; the log contains the cause. A request that takes too long gets an error before Lambda ends the function.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from core.api.requests.request import Request
from core.api.response import Response, error_response
from core.errors import DamagedLogError, SharingError
from core.runtime.compression import GzipEncoder, PlainEncoder
from core.runtime.deadline import deadline_error, finish_within, seconds_to_answer, until_stopped
from core.runtime.events import ProxyResponse, accepts_gzip, buffered_response, request_from_event
from core.runtime.observability import logger, record, segment
from core.runtime.streamed import StreamedAnswer, StreamedRequest
from core.sharing.call import ANSWER, Call, Observed
from core.sharing.services import process_services

Handle = Callable[[Call], Response]


class LambdaFunction:
    """Answers events of API Gateway: buffered when called, or as a stream."""

    def __init__(self, route: str, handle: Handle) -> None:
        self._route = route
        self._handle = handle

    def __call__(self, event: Mapping[str, Any], context: object) -> ProxyResponse:
        started = time.perf_counter()
        with segment():
            request = request_from_event(event)
            observed = Observed()
            done = finish_within(seconds_to_answer(context), partial(_answer, self._handle, request, observed))
            answer, error_code = done or self._late_answer(request, observed)
            self._record(request, observed, started, answer["statusCode"], error_code)
            return answer

    def stream(self, event: Mapping[str, Any], context: object) -> StreamedAnswer:
        """Returns the answer as soon as its status is certain."""
        started = time.perf_counter()
        until_end = ExitStack()
        until_end.enter_context(segment())
        request = request_from_event(event)
        observed = Observed()
        seconds = seconds_to_answer(context)

        def on_end(status: int, error: SharingError | None) -> None:
            with until_end:
                self._record(request, observed, started, status, error.code if error else None)

        gzip = accepts_gzip(request.headers.get("accept-encoding", ""))
        streamed = StreamedRequest(
            request_id=request.request_id,
            with_body=request.method != "HEAD",
            started=started,
            deadline=None if seconds is None else started + seconds,
            observed=observed,
            respond=lambda: self._handle(Call(request, process_services(), observed)),
            failed=partial(_reported, request=request),
            late=lambda: deadline_error(self._route, observed, request.request_id),
        )
        return StreamedAnswer(streamed, GzipEncoder() if gzip else PlainEncoder(), on_end)

    def _record(
        self, request: Request, observed: Observed, started: float, status: int, error_code: str | None
    ) -> None:
        seconds = time.perf_counter() - started
        record(
            self._route,
            observed,
            request_id=request.request_id,
            status=status,
            error_code=error_code,
            seconds=seconds,
        )

    def _late_answer(self, request: Request, observed: Observed) -> tuple[ProxyResponse, str]:
        error = deadline_error(self._route, observed, request.request_id)
        return _error_answer(error, request), error.code


def function(
    route: str, handle: Handle, *, opens_tables: bool = False, opens_directories: bool = False
) -> LambdaFunction:
    """Returns the Lambda handler. In Lambda, creates the services that the route needs in the init phase."""
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        services = process_services()
        _ = services.catalog
        _ = services.tables if opens_tables else None
        _ = services.directories if opens_directories else None
    return LambdaFunction(route, handle)


def _answer(
    handle: Handle, request: Request, observed: Observed, stopped: threading.Event
) -> tuple[ProxyResponse, str | None]:
    """`stopped` is set once the result is no longer needed. Logs nothing from then on."""
    try:
        response = handle(Call(request, process_services(), observed))
        observed.stage = ANSWER
        response.body = until_stopped(response.body, stopped)
        # Also reads the body, so that an error halfway through still becomes an error response.
        return buffered_response(response, request), None
    except Exception as error:  # noqa: BLE001
        shown = _shown(error) if stopped.is_set() else _reported(error, request)
        return _error_answer(shown, request), shown.code


def _reported(error: BaseException, request: Request) -> SharingError:
    """Logs an exception if its cause is on the server's side. Returns the error that the client sees."""
    shown = _shown(error)
    if shown is not error:
        logger.error("unhandled exception", exc_info=error, extra={"request_id": request.request_id})
        return shown
    problem = shown.problem if isinstance(shown, DamagedLogError) else None
    if problem or shown.__cause__ is not None:
        extra = {"request_id": request.request_id, "problem": problem}
        logger.warning(shown.message, exc_info=shown.__cause__, extra=extra)
    return shown


def _shown(error: BaseException) -> SharingError:
    return error if isinstance(error, SharingError) else SharingError("The request could not be answered.")


def _error_answer(error: SharingError, request: Request) -> ProxyResponse:
    return buffered_response(error_response(error, request_id=request.request_id), request)
