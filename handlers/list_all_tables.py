"""GET /shares/{share}/all-tables: the tables in all schemas of a share."""

from core.api.response import Response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.discovery import listing_response, table_item


def handle(call: Call) -> Response:
    request = call.request
    listing = call.services.catalog.list_all_tables(
        request.bearer_token, request.path["share"], request, on_caller=call.identify
    )
    return listing_response(listing, table_item)


lambda_handler = function("list_all_tables", handle)
