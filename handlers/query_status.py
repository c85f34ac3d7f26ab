"""POST …/tables/{table}/queries/{queryId}: the state of an asynchronous query, and its answer once it is done."""

from core.api.requests.query_status import QueryStatusRequest
from core.api.response import Response
from core.runtime.function import function
from core.sharing.answers.table_answer import AnswerOptions
from core.sharing.call import Call


def handle(call: Call) -> Response:
    access = call.find_table()
    table = access.require()
    options = AnswerOptions.parse(call.request, call.observed)
    poll = QueryStatusRequest.parse(call.request)
    services = call.services
    return services.async_queries.answer(services.tables, table, poll, options, access.table_tokens())


lambda_handler = function("query_status", handle, opens_tables=True)
