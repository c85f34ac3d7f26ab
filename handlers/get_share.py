"""GET /shares/{share}: one share."""

from core.api.response import Response, json_response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.discovery import share_item


def handle(call: Call) -> Response:
    access = call.services.catalog.find_share(call.request.bearer_token, call.request.path["share"])
    call.observed.recipient = access.caller.name
    return json_response({"share": share_item(access.require())})


lambda_handler = function("get_share", handle)
