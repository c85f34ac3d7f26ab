"""One log line and one set of metrics for each request, and a trace in Lambda.

A line says who asked for what and how it ended. It never holds a token, a signed URL or a header.
"""

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from core.sharing.call import Observed

NAMESPACE = "Sluice"
# Of each stack its own, because their metrics meet in one namespace.
SERVICE = os.environ.get("POWERTOOLS_SERVICE_NAME", "sluice")

logger = Logger(service=SERVICE)

Function = TypeVar("Function", bound=Callable[..., Any])


def record(
    route: str, observed: Observed, *, request_id: str, status: int, error_code: str | None, seconds: float
) -> None:
    milliseconds = round(seconds * 1000, 1)
    logger.info(
        "request",
        extra={
            "request_id": request_id,
            "route": route,
            "status": status,
            "error_code": error_code,
            "recipient": observed.recipient,
            "table": observed.table,
            "files_listed": observed.files_listed,
            "files_pruned": observed.files_pruned,
            "hints_ignored": observed.hints_ignored or None,
            "latency_ms": milliseconds,
        },
    )
    # Not the shared `Metrics`: requests that run side by side (`sluice serve`) would mix their numbers in it.
    metrics = EphemeralMetrics(namespace=NAMESPACE, service=SERVICE)
    metrics.add_dimension("route", route)
    metrics.add_metric("Requests", MetricUnit.Count, 1)
    metrics.add_metric("Latency", MetricUnit.Milliseconds, milliseconds)
    metrics.add_metric("FilesListed", MetricUnit.Count, observed.files_listed)
    metrics.add_metric("FilesPruned", MetricUnit.Count, observed.files_pruned)
    metrics.add_metric("UrlsSigned", MetricUnit.Count, observed.urls_signed)
    metrics.flush_metrics()
    if error_code is not None:
        errors = EphemeralMetrics(namespace=NAMESPACE, service=SERVICE)
        errors.add_dimension("route", route)
        errors.add_dimension("code", error_code)
        errors.add_metric("Errors", MetricUnit.Count, 1)
        errors.flush_metrics()


def traced(function: Function) -> Function:
    """The function with X-Ray's segments around the requests that X-Ray samples.

    The first of these imports the X-Ray SDK, which takes 50 ms: most cold starts in a burst are not sampled.
    """

    @cache
    def with_segments() -> Callable[..., Any]:
        from aws_lambda_powertools.tracing import Tracer

        tracer = Tracer(service=SERVICE, auto_patch=False)
        return tracer.capture_lambda_handler(function, capture_response=False, capture_error=False)

    @wraps(function)
    def lambda_handler(event: object, context: object) -> object:
        sampled = "Sampled=1" in os.environ.get("_X_AMZN_TRACE_ID", "")
        return (with_segments() if sampled else function)(event, context)

    return cast("Function", lambda_handler)
