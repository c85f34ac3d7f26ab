"""GET /shares/{share}/schemas/{schema}/tables/{table}: one table, with the same fields as in a listing."""

from core.api.response import Response, json_response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.discovery import table_item


def handle(call: Call) -> Response:
    return json_response({"table": table_item(call.find_table().require())})


lambda_handler = function("get_table", handle)
