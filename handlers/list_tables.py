"""GET /shares/{share}/schemas/{schema}/tables: the tables in a schema."""

from core.api.response import Response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.discovery import listing_response, table_item


def handle(call: Call) -> Response:
    request = call.request
    share, schema = request.path["share"], request.path["schema"]
    listing = call.services.catalog.list_tables(request.bearer_token, share, schema, request, on_caller=call.identify)
    return listing_response(listing, table_item)


lambda_handler = function("list_tables", handle)
