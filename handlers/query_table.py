"""POST …/tables/{table}/query: the files of a version, or what was committed since one, with signed URLs."""

from core.api.capabilities import Capabilities, file_id_hash
from core.api.query import parse_query
from core.api.response import Response
from core.runtime.function import function
from core.sharing.answers import Asked
from core.sharing.call import Call
from core.sharing.query import answer_query


def handle(call: Call) -> Response:
    access = call.find_table()
    capabilities = Capabilities.parse(call.request.headers)
    query = parse_query(call.request.body, async_query=capabilities.async_query)
    asked = Asked(capabilities, file_id_hash(call.request.headers), call.observed)
    return answer_query(call.services.tables, access.require(), query, asked, access.table_tokens())


lambda_handler = function("query_table", handle, opens_tables=True)
