"""GET …/tables/{table}/changes: the change data feed. Not served yet."""

from core.api.response import Response
from core.errors import NotImplementedYetError
from core.runtime.function import function
from core.sharing.call import Call


def handle(call: Call) -> Response:
    call.find_table().require()
    raise NotImplementedYetError("The change data feed is not supported by this server yet.")


lambda_handler = function("table_changes", handle)
