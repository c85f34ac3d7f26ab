"""API Gateway's REST proxy events, in and out."""

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict
from urllib.parse import unquote

from core.api.request import Request
from core.api.response import Response

# Level 1 leaves a listing a quarter larger than level 6, at a third of the time (research: deltalake-measured §7).
GZIP_LEVEL = 1
GZIP_FORMAT = 31


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
    headers = dict(response.headers)
    if request.method == "HEAD":
        return ProxyAnswer(statusCode=response.status, headers=headers, body="", isBase64Encoded=False)
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        content = b"".join(_gzipped(response.body))
        if content:
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        body = base64.b64encode(content).decode("ascii")
        return ProxyAnswer(statusCode=response.status, headers=headers, body=body, isBase64Encoded=bool(content))
    plain = b"".join(response.body).decode()
    return ProxyAnswer(statusCode=response.status, headers=headers, body=plain, isBase64Encoded=False)


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


def _gzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Nothing at all stays nothing: an empty answer has no encoding."""
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_FORMAT)
    empty = True
    for chunk in filter(None, chunks):
        empty = False
        yield compressor.compress(chunk)
    if not empty:
        yield compressor.flush()
