"""A response: a status, headers and an iterator of bytes.

A buffered front end joins the iterator and a streaming one passes it on. Nothing in between holds the whole response.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from core.api.json import dumps
from core.api.room import PageRoom
from core.api.size import AnswerSize
from core.errors import MethodNotAllowedError, SharingError, UnauthenticatedError

JSON = "application/json; charset=utf-8"
NDJSON = "application/x-ndjson; charset=utf-8"
VERSION_HEADER = "Delta-Table-Version"
# Lines are joined into blocks of at least this size. Passing on every line separately would cost more than copying.
BLOCK_BYTES = 64 * 1024


@dataclass(slots=True)
class Response:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: Iterator[bytes] = field(default_factory=lambda: iter(()))
    room: PageRoom | None = None
    """The room of a page. A front end can limit it before it reads the body. None if the answer cannot end early."""
    size: AnswerSize | None = None
    """The size of a listing that cannot end early. None if the answer is a page or short."""
    ends_with_action: bool = False
    """Whether the client takes the answer as complete only if an endStreamAction without an error is its last line."""


def json_response(document: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(status, {"Content-Type": JSON, **(headers or {})}, iter((dumps(document),)))


def ndjson_response(
    lines: Iterable[bytes],
    *,
    headers: dict[str, str],
    room: PageRoom | None = None,
    size: AnswerSize | None = None,
    ends_with_action: bool = False,
) -> Response:
    """`lines` must include their line endings."""
    return Response(200, {"Content-Type": NDJSON, **headers}, _blocks(lines), room, size, ends_with_action)


def _blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    block: list[bytes] = []
    size = 0
    try:
        for line in lines:
            block.append(line)
            size += len(line)
            if size >= BLOCK_BYTES:
                yield b"".join(block)
                block.clear()
                size = 0
        if block:
            yield b"".join(block)
    finally:
        if isinstance(lines, Generator):
            lines.close()  # nobody may read the rest


def error_text(error: SharingError, request_id: str) -> str:
    return f"{error.message} (request id: {request_id})" if error.status == 500 else error.message


def error_response(error: SharingError, *, request_id: str = "") -> Response:
    headers: dict[str, str] = {}
    if isinstance(error, UnauthenticatedError):
        # RFC 6750: include an error code only if the request had a token.
        detail = ', error="invalid_token"' if error.token_was_sent else ""
        headers["WWW-Authenticate"] = f'Bearer realm="delta-sharing"{detail}'
    elif isinstance(error, MethodNotAllowedError):
        headers["Allow"] = ", ".join(error.allowed)
    document = {"errorCode": error.code, "message": error_text(error, request_id)}
    return json_response(document, status=error.status, headers=headers)
