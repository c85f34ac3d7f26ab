"""GET /shares/{share}: one share."""

from core.api.response import Response, json_response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.discovery import share_item


def handle(call: Call) -> Response:
    request = call.request
    access = call.services.catalog.find_share(request.bearer_token, request.path["share"], on_caller=call.identify)
    return json_response({"share": share_item(access.require())})


lambda_handler = function("get_share", handle)
