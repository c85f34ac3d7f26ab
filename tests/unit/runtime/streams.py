"""Requests whose answers are streamed, and what a client sees of them."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from core.api.response import Response
from core.runtime.function import Handle, function
from core.runtime.streamed import StreamedAnswer, TransferBrokenError
from core.sharing.call import Call
from tests.unit.sharing.shared_table import SharedTable

BLOCK = 300_000
"""Lines of this many bytes are a block of their own."""


@dataclass(frozen=True)
class Context:
    milliseconds: int = 60_000

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


def event(method: str = "POST", encoding: str = "gzip", body: object = None, **headers: str) -> dict[str, Any]:
    return {
        "httpMethod": method,
        "headers": {"Accept-Encoding": encoding, **headers},
        "body": None if body is None else json.dumps(body),
        "requestContext": {"requestId": "req-1"},
    }


def stream(
    handle: Handle, sent: dict[str, Any] | None = None, *, milliseconds: int = 60_000, **options: Any
) -> StreamedAnswer:
    return function("query_table", handle).stream(sent or event(), Context(milliseconds), **options)


@dataclass(frozen=True)
class Seen:
    """What a client has when the transfer ends."""

    status: int
    headers: dict[str, str]
    body: bytes
    """Decoded, as far as it came."""
    complete: bool
    broken: str | None = None

    @property
    def documents(self) -> list[Any]:
        """The lines. An answer that broke off must end with a line that cannot be parsed."""
        lines = self.body.splitlines(keepends=True)
        if self.broken is not None:
            with pytest.raises(json.JSONDecodeError):
                json.loads(lines.pop())
        return [json.loads(line) for line in lines]

    @property
    def error(self) -> dict[str, Any]:
        return dict(self.documents[-1]["endStreamAction"])


def read(answer: StreamedAnswer) -> Seen:
    blocks, broken = [], None
    try:
        blocks.extend(iter(answer))
    except TransferBrokenError as error:
        broken = str(error)
    answer.close()
    content = b"".join(blocks)
    if not content or answer.headers.get("Content-Encoding") != "gzip":
        return Seen(answer.status, answer.headers, content, complete=broken is None, broken=broken)
    decoder = zlib.decompressobj(31)
    plain = decoder.decompress(content)
    assert decoder.eof == (broken is None)
    if decoder.eof:
        assert gzip.decompress(content) == plain
    return Seen(answer.status, answer.headers, plain, complete=decoder.eof, broken=broken)


def query_handle(table: SharedTable) -> Handle:
    """Answers queries and requests for changes to a table in memory."""
    from core.api.requests.changes import ChangesRequest
    from core.api.requests.query import QueryRequest
    from core.sharing.answers.table_answer import AnswerOptions
    from core.sharing.changes import answer_changes
    from core.sharing.query import answer_query

    def handle(call: Call) -> Response:
        options = AnswerOptions.parse(call.request, call.observed)
        if call.request.method == "GET":
            changes = ChangesRequest.parse(call.request)
            return answer_changes(table.tables, table.table, changes, options, table.tokens())
        query = QueryRequest.parse(call.request)
        return answer_query(table.tables, table.table, query, options, table.tokens())

    return handle


def lines(number: int, *, size: int = BLOCK) -> Iterator[bytes]:
    for count in range(number):
        yield b'{"file":"%d%s"}\n' % (count, b"x" * size)
