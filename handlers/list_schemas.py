"""GET /shares/{share}/schemas: the schemas in a share."""

from core.api.response import Response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.discovery import listing_response, schema_item


def handle(call: Call) -> Response:
    request = call.request
    listing = call.services.catalog.list_schemas(
        request.bearer_token, request.path["share"], request, on_caller=call.identify
    )
    return listing_response(listing, schema_item)


lambda_handler = function("list_schemas", handle)
