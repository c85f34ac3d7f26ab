"""What no other route takes: an unknown path is a 404, a known path with another method a 405.

API Gateway comes here by the greedy route of the template; a test compares `ALLOWED` with its other routes.
"""

from core.api.response import Response
from core.errors import MethodNotAllowedError, NotFoundError
from core.runtime.function import function
from core.sharing.call import Call

_TABLE = "shares/{share}/schemas/{schema}/tables/{table}"

ALLOWED = {
    "shares": ("GET",),
    "shares/{share}": ("GET",),
    "shares/{share}/all-tables": ("GET",),
    "shares/{share}/schemas": ("GET",),
    "shares/{share}/schemas/{schema}/tables": ("GET",),
    _TABLE: ("GET", "HEAD"),
    f"{_TABLE}/changes": ("GET",),
    f"{_TABLE}/metadata": ("GET",),
    f"{_TABLE}/queries/{{queryId}}": ("POST",),
    f"{_TABLE}/query": ("POST",),
    f"{_TABLE}/temporary-table-credentials": ("POST",),
    f"{_TABLE}/version": ("GET",),
}


def handle(call: Call) -> Response:
    request = call.request
    path = request.path.get("proxy", "")
    for known, methods in ALLOWED.items():
        if _is_of(known.split("/"), path.split("/")):
            raise MethodNotAllowedError(f"{request.method} is not allowed here.", allowed=methods)
    raise NotFoundError("There is no such route.")


def _is_of(known: list[str], segments: list[str]) -> bool:
    return len(known) == len(segments) and all(
        segment and (name == segment or name.startswith("{")) for name, segment in zip(known, segments, strict=True)
    )


lambda_handler = function("unknown_route", handle)
