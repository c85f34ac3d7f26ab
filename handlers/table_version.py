"""GET …/tables/{table}/version, and the deprecated HEAD …/tables/{table}: the version, in a header."""

from core.api.requests.version import VersionRequest
from core.api.response import VERSION_HEADER, Response
from core.runtime.function import function
from core.sharing.call import Call


def handle(call: Call) -> Response:
    table = call.find_table().require()
    request = VersionRequest.parse(call.request)
    version = call.services.tables.version(table, request.starting_timestamp)
    return Response(200, {VERSION_HEADER: str(version)})


lambda_handler = function("table_version", handle, opens_tables=True)
