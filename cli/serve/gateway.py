"""Translates between HTTP and functions like API Gateway does, with REST proxy events (payload 1.0).

Events match those of a REST API: the path keeps its percent-encoding and has no stage, query parameters are decoded,
parameters and headers appear with their last value and with all values, and bodies are base64 because every media type
counts as binary.
"""

import base64
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from cli.serve.routes import PREFIX, Function, Match

STAGE = PREFIX.removeprefix("/")
ACCOUNT_ID = "000000000000"
API_ID = "sluice"
REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    path: str
    """Percent-encoded, without the query."""
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    source_ip: str = "127.0.0.1"
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    http_version: str = "1.1"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @classmethod
    def of(cls, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> "HttpResponse":
        """Sets Content-Length to the actual length of the body."""
        kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
        return cls(status, (*kept, ("Content-Length", str(len(body)))), body)

    @property
    def size(self) -> int:
        return len(self.body)


@dataclass(frozen=True, slots=True)
class SentStream:
    """A response that was sent in blocks."""

    status: int
    size: int
    """Number of bytes of the body that were sent."""
    ended: str


def proxy_event(request: HttpRequest, match: Match, *, now: float) -> dict[str, Any]:
    headers = _all_values(request.headers)
    query = _all_values(parse_qsl(request.query, keep_blank_values=True))
    return {
        "resource": match.route.resource,
        "path": match.path,
        "httpMethod": request.method,
        "headers": _last_values(headers),
        "multiValueHeaders": headers or None,
        "queryStringParameters": _last_values(query),
        "multiValueQueryStringParameters": query or None,
        "pathParameters": match.path_parameters or None,
        "stageVariables": None,
        "requestContext": _request_context(request, match, now),
        "body": base64.b64encode(request.body).decode() if request.body else None,
        "isBase64Encoded": bool(request.body),
    }


def _request_context(request: HttpRequest, match: Match, now: float) -> dict[str, Any]:
    user_agent = next((value for name, value in request.headers if name.lower() == "user-agent"), None)
    return {
        "accountId": ACCOUNT_ID,
        "apiId": API_ID,
        "resourceId": match.route.function.name,
        "resourcePath": match.route.resource,
        "operationName": None,
        "httpMethod": request.method,
        "path": request.path,
        "stage": STAGE,
        "protocol": "HTTP/1.1",
        "requestId": request.request_id,
        "extendedRequestId": request.request_id,
        "requestTime": datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
        "requestTimeEpoch": int(now * 1000),
        "identity": {
            "accessKey": None,
            "accountId": None,
            "caller": None,
            "cognitoAuthenticationProvider": None,
            "cognitoAuthenticationType": None,
            "cognitoIdentityId": None,
            "cognitoIdentityPoolId": None,
            "principalOrgId": None,
            "sourceIp": request.source_ip,
            "user": None,
            "userAgent": user_agent,
            "userArn": None,
        },
    }


def _all_values(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return values


def _last_values(values: Mapping[str, list[str]]) -> dict[str, str] | None:
    return {name: every[-1] for name, every in values.items()} or None


def http_response(result: Mapping[str, Any]) -> HttpResponse:
    """Returns the HTTP response for a function's result. `multiValueHeaders` override `headers`."""
    single: dict[str, object] = result.get("headers") or {}
    multiple: dict[str, list[object]] = result.get("multiValueHeaders") or {}
    headers = {name: [value] for name, value in single.items()} | multiple
    if not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = ["application/json"]
    text = result.get("body") or ""
    body = base64.b64decode(text, validate=True) if result.get("isBase64Encoded") else text.encode()
    pairs = ((name, str(value)) for name, values in headers.items() for value in values)
    return HttpResponse.of(int(result["statusCode"]), pairs, body)


@dataclass(frozen=True, slots=True)
class LambdaContext:
    """The second argument of a function."""

    function_name: str
    aws_request_id: str
    memory_limit_in_mb: str
    deadline: float
    """On the monotonic clock."""
    function_version: str = "$LATEST"

    @classmethod
    def of(cls, function: Function, request_id: str) -> "LambdaContext":
        deadline = time.monotonic() + function.timeout_seconds
        return cls(function.name, request_id, str(function.memory_mb), deadline)

    @property
    def invoked_function_arn(self) -> str:
        return f"arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:{self.function_name}"

    @property
    def log_group_name(self) -> str:
        return f"/aws/lambda/{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.deadline - time.monotonic()) * 1000))
