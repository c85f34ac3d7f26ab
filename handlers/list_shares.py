"""GET /shares: the shares granted to the recipient."""

from core.api.response import Response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.discovery import listing_response, share_item


def handle(call: Call) -> Response:
    request = call.request
    listing = call.services.catalog.list_shares(request.bearer_token, request, on_caller=call.identify)
    return listing_response(listing, share_item)


lambda_handler = function("list_shares", handle)
