"""POST …/tables/{table}/queries/{queryId}: the result of an asynchronous query. Not implemented yet."""

from core.api.response import Response
from core.errors import NotImplementedYetError
from core.runtime.function import function
from core.sharing.call import Call


def handle(call: Call) -> Response:
    call.find_table().require()
    raise NotImplementedYetError("Asynchronous queries are not supported by this server yet.")


lambda_handler = function("query_status", handle)
