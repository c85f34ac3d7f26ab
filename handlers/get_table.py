"""GET /shares/{share}/schemas/{schema}/tables/{table}: one table, with the fields of a listing and its format."""

from core.api.response import Response, json_response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.discovery import table_document


def handle(call: Call) -> Response:
    return json_response(table_document(call.find_table().require()))


lambda_handler = function("get_table", handle)
