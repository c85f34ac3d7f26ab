"""The log of `sluice serve` on stderr: text with one line per refused request, or JSON for machines.

A line has neither headers nor a query, which could contain a token.
"""

import contextlib
import gzip
import json
import logging
import sys
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from cli.serve.gateway import HttpRequest, HttpResponse, SentStream
from cli.serve.streams import BROKEN, COMPLETE
from core.runtime.observability import SERVICE

LogFormat: TypeAlias = Literal["text", "json"]
Answer: TypeAlias = HttpResponse | SentStream
REFUSED, FAILED = 400, 500
# Of an error message. A table's name or a parameter may be long.
MAX_CHARACTERS = 500
# Records of requests whose answers are not sent yet. Only a client that left can leave one behind.
MAX_REQUESTS = 1000
# The attributes of a record that are not fields of the functions.
STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
# Fields of a request that its line shows in another way.
SHOWN_FIELDS = frozenset({"request_id", "status", "latency_ms", "error_code", "bytes_sent"})


class TextLog(logging.Handler):
    """Collects what the functions log about a request, and writes it as one line when the request is answered."""

    def __init__(self, *, from_status: int = REFUSED) -> None:
        """Writes a line for each answer with this status or a higher one."""
        super().__init__()
        self._from_status = from_status
        self._records: OrderedDict[str, list[logging.LogRecord]] = OrderedDict()

    def function_handlers(self, _handlers: list[logging.Handler]) -> list[logging.Handler]:
        return [self]

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the record until the request is answered. The caller holds the handler's lock."""
        request_id = getattr(record, "request_id", None)
        if not request_id:
            _write(f"{record.levelname} {_one_line(record.getMessage())}")
            return
        self._records.setdefault(request_id, []).append(record)
        if len(self._records) > MAX_REQUESTS:
            self._records.popitem(last=False)

    def access(self, request: HttpRequest, answer: Answer, seconds: float) -> None:
        with self.lock or contextlib.nullcontext():
            records = self._records.pop(request.request_id, [])
        if answer.status < self._from_status and not _is_broken(answer) and not records:
            return
        path, milliseconds = _one_line(request.path), f"{seconds * 1000:.0f} ms"
        line = f"{request.method} {path} {answer.status} {answer.size} B {milliseconds}{_ended(answer)}"
        fields = " ".join(f"{name}={value}" for record in records for name, value in _fields(record))
        _write(f"{line} {_one_line(fields)}".rstrip() + _explanation(answer, records))
        for record in records:
            if record.exc_info and (answer.status >= FAILED or record.levelno >= logging.ERROR):
                _write("".join(traceback.format_exception(*record.exc_info)))


class JsonLog:
    """Writes the lines of the functions as they are in Lambda, and all others as JSON too."""

    def __init__(self, *, from_status: int = REFUSED) -> None:
        self._from_status = from_status

    def function_handlers(self, handlers: list[logging.Handler]) -> list[logging.Handler]:
        for handler in handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(sys.stderr)  # Lambda reads stdout
        return handlers

    def access(self, request: HttpRequest, answer: Answer, seconds: float) -> None:
        is_broken = _is_broken(answer)
        if answer.status < self._from_status and not is_broken:
            return
        is_refused = answer.status >= REFUSED
        error = _error(answer) if is_refused else {}
        _write_json(
            "ERROR" if is_broken else "WARNING" if is_refused else "INFO",
            "refused" if is_refused else "broken off" if is_broken else "answered",
            request_id=request.request_id,
            method=request.method,
            path=request.path,
            status=answer.status,
            bytes=answer.size,
            latency_ms=round(seconds * 1000, 1),
            **({"ended": answer.ended} if isinstance(answer, SentStream) else {}),
            error_code=error.get("errorCode"),
            error=error.get("message"),
        )


ServeLog: TypeAlias = TextLog | JsonLog


def serve_log(log_format: LogFormat, level: str, *, every_request: bool) -> ServeLog:
    from_status = 0 if every_request else FAILED if level == "ERROR" else REFUSED
    return (TextLog if log_format == "text" else JsonLog)(from_status=from_status)


def root_handler(log_format: LogFormat) -> logging.Handler:
    """Returns a handler for what is not logged by functions, such as a table that cannot be copied."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s") if log_format == "text" else _JsonFormatter())
    return handler


@contextlib.contextmanager
def functions_logging(log: ServeLog, level: str) -> Iterator[None]:
    """Sends the log lines of the functions to `log` until the block ends."""
    functions = logging.getLogger(SERVICE)
    before = functions.level, functions.propagate, list(functions.handlers)
    functions.setLevel(level)
    functions.propagate = False  # otherwise the root logger would repeat each line
    functions.handlers[:] = log.function_handlers(before[2])
    try:
        yield
    finally:
        functions.setLevel(before[0])
        functions.propagate = before[1]
        functions.handlers[:] = before[2]


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {"exception": self.formatException(record.exc_info)} if record.exc_info else {}
        return _json_line(record.levelname, record.getMessage(), location=record.name, **fields)


def _is_broken(answer: Answer) -> bool:
    return isinstance(answer, SentStream) and answer.ended == BROKEN


def _ended(answer: Answer) -> str:
    """Returns how a stream ended, unless it is complete."""
    return f" {answer.ended}" if isinstance(answer, SentStream) and answer.ended != COMPLETE else ""


def _explanation(answer: Answer, records: list[logging.LogRecord]) -> str:
    """Returns why a request was refused: the message that the client got, and what only the server knows."""
    parts = [str(_error(answer).get("message", ""))] if answer.status >= REFUSED else []
    for record in records:
        if record.levelno < logging.WARNING:
            continue
        parts.append(record.getMessage())
        if record.exc_info and record.exc_info[1]:
            parts.append(f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}")
    said = ""
    for part in filter(None, map(_one_line, parts)):
        if part not in said:
            said += f" ({part})" if said else f": {part}"
    return said


def _error(answer: Answer) -> Mapping[str, Any]:
    """Returns the protocol's error object, or nothing if the answer has none, as the answer to HEAD."""
    if isinstance(answer, SentStream):
        return {}
    encodings = {value for name, value in answer.headers if name.lower() == "content-encoding"}
    try:
        error = json.loads(gzip.decompress(answer.body) if "gzip" in encodings else answer.body)
    except (OSError, ValueError, EOFError):
        return {}
    return error if isinstance(error, dict) else {}


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    for name, value in record.__dict__.items():
        if name not in STANDARD_FIELDS and name not in SHOWN_FIELDS and value not in (None, "", [], {}):
            yield name, value


def _one_line(text: str) -> str:
    """Replaces line ends and control characters, which a name in a request may contain, and shortens long text."""
    printable = "".join(character if character.isprintable() else " " for character in text).strip()
    return printable if len(printable) <= MAX_CHARACTERS else printable[: MAX_CHARACTERS - 1] + "…"


def _write(line: str) -> None:
    if line:
        sys.stderr.write(line.rstrip("\n") + "\n")
        sys.stderr.flush()


def _write_json(level: str, message: str, **fields: object) -> None:
    _write(_json_line(level, message, **fields))


def _json_line(level: str, message: str, **fields: object) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"level": level, "timestamp": now, "message": message, "service": SERVICE, **fields})
