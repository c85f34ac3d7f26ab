"""Logs, metrics and traces: one log line and one set of metrics per request.

A log line contains the recipient, the id of its token, the table and the outcome. It never contains tokens, signed
URLs, headers or literals of a predicate.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from core.sharing.call import Observed

if TYPE_CHECKING:
    from aws_lambda_powertools.tracing import Tracer

NAMESPACE = "Sluice"
# Different for each stack, because all stacks in an account share one namespace.
SERVICE = os.environ.get("POWERTOOLS_SERVICE_NAME", "sluice")

logger = Logger(service=SERVICE)


def record(
    route: str, observed: Observed, *, request_id: str, status: int, error_code: str | None, seconds: float
) -> None:
    milliseconds = _milliseconds(seconds)
    first_byte = None if observed.first_byte_seconds is None else _milliseconds(observed.first_byte_seconds)
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
            "source": observed.source,
            "files_listed": observed.files_listed,
            "files_pruned": observed.files_pruned,
            "hints_ignored": observed.hints_ignored or None,
            "stats_reduced": observed.stats_reduced or None,
            "latency_ms": milliseconds,
            "stage": observed.stage,
            "ended": observed.ended,
            "bytes_sent": observed.bytes_sent,
            "first_byte_ms": first_byte,
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
    if observed.bytes_sent is not None:
        metrics.add_metric("BytesSent", MetricUnit.Bytes, observed.bytes_sent)
    if first_byte is not None:
        metrics.add_metric("FirstByte", MetricUnit.Milliseconds, first_byte)
    metrics.flush_metrics()
    if error_code is not None:
        errors = EphemeralMetrics(namespace=NAMESPACE, service=SERVICE)
        errors.add_dimension("route", route)
        errors.add_dimension("code", error_code)
        errors.add_metric("Errors", MetricUnit.Count, 1)
        errors.flush_metrics()


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


@contextmanager
def segment() -> Iterator[None]:
    """Adds an X-Ray segment to a sampled request.

    Imports the X-Ray SDK on the first sampled request. The import takes 50 ms, and most cold starts in a burst are not
    sampled.
    """
    if "Sampled=1" not in os.environ.get("_X_AMZN_TRACE_ID", ""):
        yield
        return
    with _tracer().provider.in_subsegment("## lambda_handler") as subsegment:
        subsegment.put_annotation("Service", SERVICE)
        yield


@cache
def _tracer() -> "Tracer":
    from aws_lambda_powertools.tracing import Tracer

    return Tracer(service=SERVICE, auto_patch=False)
