"""Conversion of API Gateway REST proxy events to requests, and of responses to proxy answers.

Lambda rejects answers over 6 MB, and API Gateway then returns a 502. This module calculates the exact size of an answer
and raises an error of the protocol instead. A page ends before that: a meter measures it while it is written.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import unquote

from core.api.requests.request import Request
from core.api.response import Response
from core.api.room import PageRoom
from core.errors import AnswerTooLargeError
from core.runtime.compression import FAST, strong_compressor

if TYPE_CHECKING:
    from isal.isal_zlib import Compress

GZIP_FORMAT = 31
MAX_ANSWER_BYTES = 6_291_556
# Kept free on a page for the endStreamAction with two tokens, and for what gzip adds at the end.
PAGE_END_BYTES = 4096
# JSON escapes a character with at most 6 characters, as in \u0000.
MAX_ESCAPED = 6


class ProxyResponse(TypedDict):
    statusCode: int
    headers: dict[str, str]
    body: str
    isBase64Encoded: bool


def too_large(max_bytes: int) -> str:
    return (
        f"The response is larger than the {max_bytes // 1_000_000} MB that this server can send. Ask for pages with "
        "maxFiles if the client can page, request fewer files with a predicate (jsonPredicateHints) or a limitHint, "
        "accept gzip, or read the table's directory with temporary table credentials if the provider offers them."
    )


def request_from_event(event: Mapping[str, Any]) -> Request:
    body = event.get("body") or ""
    return Request(
        method=event["httpMethod"],
        # A REST API passes path parameters percent-encoded. Bytes that are not UTF-8 become surrogates, which names
        # cannot contain. Such a name is therefore not found, instead of causing an error.
        path={
            name: unquote(value, errors="surrogateescape")
            for name, value in (event.get("pathParameters") or {}).items()
        },
        query=event.get("queryStringParameters") or {},
        headers={name.lower(): value for name, value in (event.get("headers") or {}).items()},
        body=base64.b64decode(body) if event.get("isBase64Encoded") else body.encode(),
        request_id=(event.get("requestContext") or {}).get("requestId", ""),
    )


def buffered_response(response: Response, request: Request) -> ProxyResponse:
    """Returns the whole answer, gzipped if the client accepts it. Gzip shrinks signed URLs to a tenth."""
    answer = ProxyResponse(statusCode=response.status, headers=dict(response.headers), body="", isBase64Encoded=False)
    if request.method == "HEAD":
        return answer
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        answer["body"] = _text(response.body, _room(answer), response.room)
        return answer
    encoded = answer | {
        "headers": answer["headers"] | {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"},
        "isBase64Encoded": True,
    }
    # Base64 encodes three bytes as four characters, none of which JSON escapes.
    content = _gzip(response.body, _room(encoded) // 4 * 3, response.room)
    # An empty body has no encoding.
    return encoded | {"body": base64.b64encode(content).decode("ascii")} if content else answer


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header offers gzip with a weight other than zero."""
    offers = {}
    for offer in accept_encoding.lower().split(","):
        coding, *parameters = (part.strip() for part in offer.split(";"))
        offers[coding] = not any(_is_zero_weight(parameter) for parameter in parameters)
    return offers.get("gzip", offers.get("*", False))


def _is_zero_weight(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip().strip("0") in ("", ".")


def _room(answer: ProxyResponse) -> int:
    """Returns the number of bytes left for the body of an answer that is otherwise complete."""
    return MAX_ANSWER_BYTES - _sent_bytes(answer)


def _sent_bytes(value: object) -> int:
    """Serializes like the Lambda runtime for Python 3.12 and later, which does not escape non-ASCII characters."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def _text(chunks: Iterable[bytes], room: int, page: PageRoom | None) -> str:
    if page is not None:
        page.limit(_TextMeter(room))
    text = b"".join(_at_most(room, chunks)).decode()
    if len(text) * MAX_ESCAPED > room and _sent_bytes(text) - len('""') > room:
        raise AnswerTooLargeError(too_large(MAX_ANSWER_BYTES))
    return text


def gzip_compressor() -> "Compress":
    from isal import isal_zlib  # Imported on demand to keep cold starts short. Uncompressed answers do not need it.

    return isal_zlib.compressobj(FAST, zlib.DEFLATED, GZIP_FORMAT)


class _TextMeter:
    """Measures lines as they appear in the JSON of an answer. Lines are ASCII and contain no control characters."""

    def __init__(self, room: int) -> None:
        self._left = room - PAGE_END_BYTES

    def fits(self, lines: bytes) -> bool:
        return self._size(lines) <= self._left

    def add(self, lines: bytes) -> None:
        self._left -= self._size(lines)

    @staticmethod
    def _size(lines: bytes) -> int:
        return len(lines) + lines.count(b'"') + lines.count(b"\\") + lines.count(b"\n")


class _GzipMeter:
    """Compresses an answer and measures it: exactly up to the last flush, and as if incompressible after it.

    A flush completes the output for all input so far. It costs a few bytes, so it happens only if lines might not fit.
    """

    def __init__(self, room: int) -> None:
        self.output = bytearray()
        self._compressor: Compress | None = None
        self._limit = room - PAGE_END_BYTES
        self._announced = 0  # bytes that were added to the page but not compressed yet
        self._unflushed = 0

    def fits(self, lines: bytes) -> bool:
        left = self._limit - self._announced - len(lines)
        if len(self.output) + self._unflushed <= left:
            return True
        if self._compressor is not None and self._unflushed:
            self.output += self._compressor.flush(zlib.Z_SYNC_FLUSH)
            self._unflushed = 0
        return len(self.output) + self._unflushed <= left

    def add(self, lines: bytes) -> None:
        self._announced += len(lines)

    def compress(self, chunk: bytes) -> None:
        if self._compressor is None:
            self._compressor = gzip_compressor()
        self.output += self._compressor.compress(chunk)
        self._announced -= len(chunk)
        self._unflushed += len(chunk)

    def finish(self) -> bytes:
        """Returns the whole output; nothing if there was no input."""
        return bytes(self.output + self._compressor.flush()) if self._compressor else b""


def _gzip(body: Iterator[bytes], room: int, page: PageRoom | None) -> bytes:
    meter = _GzipMeter(room)
    if page is not None:
        page.limit(meter)
    chunks = filter(None, body)
    for chunk in chunks:
        meter.compress(chunk)
        if len(meter.output) > room:
            break
    compressed = meter.finish()
    if len(compressed) <= room:
        return compressed
    return b"".join(_at_most(room, _gzip_small(chain(_decompress(compressed), chunks))))


def _gzip_small(chunks: Iterable[bytes]) -> Iterator[bytes]:
    compressor = strong_compressor(GZIP_FORMAT)
    for chunk in chunks:
        yield compressor.compress(chunk)
    yield compressor.flush(zlib.Z_FINISH)


def _decompress(compressed: bytes, piece: int = 65_536) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(GZIP_FORMAT)
    for start in range(0, len(compressed), piece):
        yield decompressor.decompress(compressed[start : start + piece])


def _at_most(room: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the pieces, and raises an error as soon as they exceed `room` bytes in total."""
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            raise AnswerTooLargeError(too_large(MAX_ANSWER_BYTES))
        yield piece
