"""Logs, metrics and traces: one log line and one set of metrics per request.

A log line contains the recipient, the id of its token, the table and the outcome. It never contains tokens, signed
URLs, headers or literals of a predicate.
"""

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from core.sharing.call import Observed

NAMESPACE = "Sluice"
# Different for each stack, because all stacks in an account share one namespace.
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
            "token_id": observed.token_id,
            "table": observed.table,
            "files_listed": observed.files_listed,
            "files_pruned": observed.files_pruned,
            "hints_ignored": observed.hints_ignored or None,
            "latency_ms": milliseconds,
            "stage": observed.stage,
        },
    )
    # `Metrics` is shared by a process and would mix up concurrent requests in `sluice serve`.
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
    """Adds X-Ray segments to sampled requests.

    Imports the X-Ray SDK on the first sampled request. The import takes 50 ms, and most cold starts in a burst are not
    sampled.
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
