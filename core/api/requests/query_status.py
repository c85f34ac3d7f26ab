"""The body of `POST …/queries/{queryId}`: a poll of an asynchronous query, or a request for its next page."""

from dataclasses import dataclass

from core.api.requests.body import INT32_MAX, Body
from core.api.requests.query import MAX_FILES_NOT_POSITIVE
from core.api.requests.request import Request
from core.errors import InvalidParameterError

MESSAGE = "GetQueryTableInfoRequest"


@dataclass(frozen=True, slots=True)
class QueryStatusRequest:
    query_id: str
    max_files: int | None = None
    page_token: str | None = None

    @classmethod
    def parse(cls, request: Request) -> "QueryStatusRequest":
        fields = Body.parse(request, MESSAGE) if request.body.strip() else Body({}, MESSAGE)
        query_id = request.path["queryId"]
        max_files = fields.number("maxFiles", largest=INT32_MAX)
        if fields.text("queryId") not in (None, query_id):
            raise InvalidParameterError("The queryId in the body is not the one in the path.")
        if max_files is not None and max_files <= 0:
            raise InvalidParameterError(MAX_FILES_NOT_POSITIVE)
        return cls(query_id, max_files, fields.text("pageToken"))
