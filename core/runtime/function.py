"""A route as a Lambda function: event in, answer out, and every error in the protocol's form.

This is the one place where errors become HTTP. What is not foreseen is a 500 that shows the request id and nothing
else; its cause is in the log.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from core.api.request import Request
from core.api.response import Response, error_response
from core.errors import SharingError
from core.runtime.events import ProxyAnswer, buffered_answer, request_from_event
from core.runtime.observability import logger, record, traced
from core.sharing.call import Call, Observed
from core.sharing.services import process_services

Handle = Callable[[Call], Response]
LambdaHandler = Callable[[Mapping[str, Any], object], ProxyAnswer]


def function(
    route: str, handle: Handle, *, opens_tables: bool = False, opens_directories: bool = False
) -> LambdaHandler:
    """What a route says it needs is made while Lambda starts the function, not within the first request."""
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        services = process_services()
        _ = services.catalog
        _ = services.tables if opens_tables else None
        _ = services.directories if opens_directories else None

    def lambda_handler(event: Mapping[str, Any], context: object) -> ProxyAnswer:  # noqa: ARG001
        started = time.perf_counter()
        request = request_from_event(event)
        observed = Observed()
        answer, error_code = _answer(handle, request, observed)
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


def _answer(handle: Handle, request: Request, observed: Observed) -> tuple[ProxyAnswer, str | None]:
    try:
        response = handle(Call(request, process_services(), observed))
        # The body is produced here too: what fails halfway is still answered as a whole.
        return buffered_answer(response, request), None
    except SharingError as error:
        if error.__cause__ is not None:
            logger.warning(error.message, exc_info=error.__cause__, extra={"request_id": request.request_id})
        return _error_answer(error, request), error.code
    except Exception:  # noqa: BLE001
        logger.exception("unforeseen failure", extra={"request_id": request.request_id})
        unforeseen = SharingError("The request could not be answered.")
        return _error_answer(unforeseen, request), unforeseen.code


def _error_answer(error: SharingError, request: Request) -> ProxyAnswer:
    return buffered_answer(error_response(error, request_id=request.request_id), request)
