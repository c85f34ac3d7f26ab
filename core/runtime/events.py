"""Conversion of API Gateway REST proxy events to requests, and of responses to proxy answers.

Lambda rejects answers over 6 MB, and API Gateway then returns a 502. This module calculates the exact size of an answer
and raises an error of the protocol instead.
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
from core.errors import AnswerTooLargeError

if TYPE_CHECKING:
    from isal.isal_zlib import Compress

# FAST is a level of ISA-L. It takes a quarter of the time of zlib's fastest level and compresses listings better.
# SMALL is a level of zlib for answers that are too large otherwise. It saves another 10% and takes 15 times as long.
FAST, SMALL = 2, 6
GZIP_FORMAT = 31
MAX_ANSWER_BYTES = 6_291_556
# JSON escapes a character with at most 6 characters, as in \u0000.
MAX_ESCAPED = 6
TOO_LARGE = (
    "The response is larger than the 6 MB that this server can send. Request fewer files with a predicate "
    "(jsonPredicateHints) or a limitHint, accept gzip, or read the table's directory with temporary table credentials "
    "if the provider offers them."
)


class ProxyResponse(TypedDict):
    statusCode: int
    headers: dict[str, str]
    body: str
    isBase64Encoded: bool


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
    chunks = filter(None, response.body)
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        answer["body"] = _text(chunks, room=_room(answer))
    elif first := next(chunks, None):  # An empty body has no encoding.
        answer["headers"] |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        answer["isBase64Encoded"] = True
        # Base64 encodes three bytes as four characters, none of which JSON escapes.
        content = _gzip(chain((first,), chunks), room=_room(answer) // 4 * 3)
        answer["body"] = base64.b64encode(content).decode("ascii")
    return answer


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


def _text(chunks: Iterable[bytes], room: int) -> str:
    text = b"".join(_at_most(room, chunks)).decode()
    if len(text) * MAX_ESCAPED > room and _sent_bytes(text) - len('""') > room:
        raise AnswerTooLargeError(TOO_LARGE)
    return text


def gzip_compressor() -> "Compress":
    from isal import isal_zlib  # Imported on demand to keep cold starts short. Uncompressed answers do not need it.

    return isal_zlib.compressobj(FAST, zlib.DEFLATED, GZIP_FORMAT)


def _gzip(chunks: Iterator[bytes], room: int) -> bytes:
    compressor = gzip_compressor()
    output = bytearray()
    for chunk in chunks:
        output += compressor.compress(chunk)
        if len(output) > room:
            break
    compressed = bytes(output + compressor.flush())
    if len(compressed) <= room:
        return compressed
    return b"".join(_at_most(room, _gzip_small(chain(_decompress(compressed), chunks))))


def _gzip_small(chunks: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(SMALL, zlib.DEFLATED, GZIP_FORMAT)
    for chunk in chunks:
        yield compressor.compress(chunk)
    yield compressor.flush()


def _decompress(compressed: bytes, piece: int = 65_536) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(GZIP_FORMAT)
    for start in range(0, len(compressed), piece):
        yield decompressor.decompress(compressed[start : start + piece])


def _at_most(room: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the pieces, and raises an error as soon as they exceed `room` bytes in total."""
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            raise AnswerTooLargeError(TOO_LARGE)
        yield piece
