"""Wraps the handler of a route as a Lambda function.

This is the only place that converts errors to HTTP. An unexpected exception becomes a 500 that contains only the
request ID; the log contains the cause. A request that takes too long gets an error before Lambda ends the function.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from core.api.requests.request import Request
from core.api.response import Response, error_response
from core.errors import DamagedLogError, SharingError
from core.runtime.deadline import deadline_error, finish_within, seconds_to_answer, until_stopped
from core.runtime.events import ProxyResponse, buffered_response, request_from_event
from core.runtime.observability import logger, record, traced
from core.sharing.call import ANSWER, Call, Observed
from core.sharing.services import process_services

Handle = Callable[[Call], Response]
LambdaHandler = Callable[[Mapping[str, Any], object], ProxyResponse]


def function(
    route: str, handle: Handle, *, opens_tables: bool = False, opens_directories: bool = False
) -> LambdaHandler:
    """Returns the Lambda handler. In Lambda, creates the services that the route needs in the init phase."""
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        services = process_services()
        _ = services.catalog
        _ = services.tables if opens_tables else None
        _ = services.directories if opens_directories else None

    def lambda_handler(event: Mapping[str, Any], context: object) -> ProxyResponse:
        started = time.perf_counter()
        request = request_from_event(event)
        observed = Observed()
        done = finish_within(seconds_to_answer(context), partial(_answer, handle, request, observed))
        answer, error_code = done or _late_answer(route, request, observed)
        record(
            route,
            observed,
            request_id=request.request_id,
            status=answer["statusCode"],
            error_code=error_code,
            seconds=time.perf_counter() - started,
        )
        return answer

    return traced(lambda_handler)


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
    except SharingError as error:
        problem = error.problem if isinstance(error, DamagedLogError) else None
        if (problem or error.__cause__ is not None) and not stopped.is_set():
            extra = {"request_id": request.request_id, "problem": problem}
            logger.warning(error.message, exc_info=error.__cause__, extra=extra)
        return _error_answer(error, request), error.code
    except Exception:  # noqa: BLE001
        if not stopped.is_set():
            logger.exception("unhandled exception", extra={"request_id": request.request_id})
        unexpected = SharingError("The request could not be answered.")
        return _error_answer(unexpected, request), unexpected.code


def _late_answer(route: str, request: Request, observed: Observed) -> tuple[ProxyResponse, str]:
    error = deadline_error(route, observed, request.request_id)
    return _error_answer(error, request), error.code


def _error_answer(error: SharingError, request: Request) -> ProxyResponse:
    return buffered_response(error_response(error, request_id=request.request_id), request)
