"""POST …/tables/{table}/query: the files of a version, or the changes since a version, with signed URLs."""

from core.api.requests.query import QueryRequest
from core.api.response import Response
from core.runtime.function import function
from core.sharing.answers.table_answer import AnswerOptions
from core.sharing.call import Call
from core.sharing.query import answer_query


def handle(call: Call) -> Response:
    access = call.find_table()
    query = QueryRequest.parse(call.request)
    options = AnswerOptions.parse(call.request, call.observed)
    services = call.services
    return answer_query(
        services.tables, access.require(), query, options, access.table_tokens(), services.async_queries
    )


lambda_handler = function("query_table", handle, opens_tables=True)
