"""API Gateway's REST proxy events, in and out.

Lambda hands on an answer of at most 6 MB and makes a 502 of a larger one. Whether an answer fits is known here to the
byte, before Lambda sees it.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import unquote

from core.api.request import Request
from core.api.response import Response
from core.errors import AnswerTooLargeError

if TYPE_CHECKING:
    from isal.isal_zlib import Compress

# Of ISA-L, which takes a quarter of zlib's fastest time and leaves less of a listing than that; and of zlib, for what
# would not fit: a tenth less, in fifteen times the time.
FAST, SMALL = 2, 6
GZIP_FORMAT = 31
MAX_ANSWER_BYTES = 6_291_556
# The most that JSON makes of one character: \u0000.
MAX_ESCAPED = 6
TOO_LARGE = (
    "The answer is larger than the 6 MB that this server can send. Ask for fewer files with a predicate "
    "(jsonPredicateHints) or a limitHint, accept gzip, or read the table's directory with temporary table credentials "
    "if the provider offers them."
)


class ProxyAnswer(TypedDict):
    statusCode: int
    headers: dict[str, str]
    body: str
    isBase64Encoded: bool


def request_from_event(event: Mapping[str, Any]) -> Request:
    body = event.get("body") or ""
    return Request(
        method=event["httpMethod"],
        # A REST API hands path parameters over as they stood in the URL. Bytes that are no UTF-8 become surrogates,
        # which no name may hold: such a name is not found, rather than an error.
        path={
            name: unquote(value, errors="surrogateescape")
            for name, value in (event.get("pathParameters") or {}).items()
        },
        query=event.get("queryStringParameters") or {},
        headers={name.lower(): value for name, value in (event.get("headers") or {}).items()},
        body=base64.b64decode(body) if event.get("isBase64Encoded") else body.encode(),
        request_id=(event.get("requestContext") or {}).get("requestId", ""),
    )


def buffered_answer(response: Response, request: Request) -> ProxyAnswer:
    """The whole answer at once, gzipped when the client takes that: signed URLs shrink to a tenth."""
    answer = ProxyAnswer(statusCode=response.status, headers=dict(response.headers), body="", isBase64Encoded=False)
    if request.method == "HEAD":
        return answer
    chunks = filter(None, response.body)
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        answer["body"] = _text(chunks, room=_room(answer))
    elif first := next(chunks, None):  # nothing at all stays nothing: an empty answer has no encoding
        answer["headers"] |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        answer["isBase64Encoded"] = True
        # Base64 makes four characters of three bytes, and JSON escapes none of them.
        content = _gzip(chain((first,), chunks), room=_room(answer) // 4 * 3)
        answer["body"] = base64.b64encode(content).decode("ascii")
    return answer


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether `gzip` is offered, and not with a weight of zero."""
    offers = {}
    for offer in accept_encoding.lower().split(","):
        coding, *parameters = (part.strip() for part in offer.split(";"))
        offers[coding] = not any(_is_zero_weight(parameter) for parameter in parameters)
    return offers.get("gzip", offers.get("*", False))


def _is_zero_weight(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip().strip("0") in ("", ".")


def _room(answer: ProxyAnswer) -> int:
    """How many bytes the body of an answer may have that is complete but for it."""
    return MAX_ANSWER_BYTES - _sent_bytes(answer)


def _sent_bytes(value: object) -> int:
    """As the runtime of Python 3.12 and later writes JSON: what is not ASCII stays as it is."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def _text(chunks: Iterable[bytes], room: int) -> str:
    text = b"".join(_at_most(room, chunks)).decode()
    if len(text) * MAX_ESCAPED > room and _sent_bytes(text) - len('""') > room:
        raise AnswerTooLargeError(TOO_LARGE)
    return text


def gzip_compressor() -> "Compress":
    from isal import isal_zlib  # not at a cold start: an answer in plain text does without

    return isal_zlib.compressobj(FAST, zlib.DEFLATED, GZIP_FORMAT)


def _gzip(chunks: Iterator[bytes], room: int) -> bytes:
    compressor = gzip_compressor()
    growing = bytearray()
    for chunk in chunks:
        growing += compressor.compress(chunk)
        if len(growing) > room:
            break
    packed = bytes(growing + compressor.flush())
    if len(packed) <= room:
        return packed
    return b"".join(_at_most(room, _gzip_small(chain(_unpacked(packed), chunks))))


def _gzip_small(chunks: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(SMALL, zlib.DEFLATED, GZIP_FORMAT)
    for chunk in chunks:
        yield compressor.compress(chunk)
    yield compressor.flush()


def _unpacked(packed: bytes, piece: int = 65_536) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(GZIP_FORMAT)
    for start in range(0, len(packed), piece):
        yield decompressor.decompress(packed[start : start + piece])


def _at_most(room: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, as long as they fit: what cannot be sent is not worked out to its end."""
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            raise AnswerTooLargeError(TOO_LARGE)
        yield piece
