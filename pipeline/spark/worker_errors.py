"""Carries errors from Spark's Python workers to the job.

Spark passes only text from a worker to the job. A worker therefore writes an expected error into that text as data: its
class, arguments, attributes and cause. The job restores the same error. All other errors stay Spark's own.
"""

import base64
import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import orjson
from botocore.exceptions import BotoCoreError, ClientError
from pyspark.errors import PySparkException

from pipeline.failures import FAILURES

BEGIN, END = "<sluice-error ", ">"

Parameters = ParamSpec("Parameters")
T = TypeVar("T")


class WorkerError(Exception):
    """An expected error on its way to the job. Its text contains the error as data."""

    def __init__(self, error: Exception) -> None:
        document = {
            "classes": [_name(error_class) for error_class in type(error).__mro__],
            "arguments": error.args,
            "attributes": _attributes(error),
            "cause": None if error.__cause__ is None else str(error.__cause__),
        }
        content = base64.b64encode(orjson.dumps(document, default=str)).decode()
        super().__init__(f"{error} {BEGIN}{content}{END}")


class WorkerCauseError(Exception):
    """The text of an error's cause in a worker."""


@contextlib.contextmanager
def carried_errors() -> Iterator[None]:
    """In a worker: raises an expected error as a `WorkerError`."""
    try:
        yield
    except FAILURES as error:
        raise WorkerError(error) from error


def carries_errors(function: Callable[Parameters, Iterable[T]]) -> Callable[Parameters, Iterator[T]]:
    """Wraps a function that yields rows in a worker."""

    @wraps(function)
    def wrapper(*arguments: Parameters.args, **named: Parameters.kwargs) -> Iterator[T]:
        with carried_errors():
            yield from function(*arguments, **named)

    return wrapper


@contextlib.contextmanager
def worker_errors() -> Iterator[None]:
    """In the job: raises an expected error of a worker as if this process had raised it."""
    try:
        yield
    except PySparkException as failure:
        content = str(failure).partition(BEGIN)[2].partition(END)[0]
        if not content:
            raise
        document = orjson.loads(base64.b64decode(content))
        cause = document["cause"]
        raise _restored(document) from (None if cause is None else WorkerCauseError(cause))


def _restored(document: dict[str, Any]) -> Exception:
    known = {_name(error_class): error_class for error_class in _with_subclasses(FAILURES)}
    # The first that this process knows: botocore creates some classes at run time.
    error_class = next(known[name] for name in document["classes"] if name in known)
    # Not by its own constructor, which may compose the message from other arguments.
    error = error_class.__new__(error_class)
    error.args = tuple(document["arguments"])
    vars(error).update(document["attributes"])
    return error


def _with_subclasses(error_classes: Iterable[type[Exception]]) -> Iterator[type[Exception]]:
    for error_class in error_classes:
        yield error_class
        yield from _with_subclasses(error_class.__subclasses__())


def _name(error_class: type) -> str:
    return f"{error_class.__module__}.{error_class.__qualname__}"


def _attributes(error: Exception) -> dict[str, Any]:
    """Leaves out most attributes of botocore's errors: a response may contain credentials, and Spark logs the text."""
    if isinstance(error, ClientError):
        shown = {name: error.response["Error"].get(name, "") for name in ("Code", "Message")}
        return {"response": {"Error": shown}, "operation_name": error.operation_name}
    return {} if isinstance(error, BotoCoreError) else vars(error)
