"""POST …/tables/{table}/temporary-table-credentials: credentials with which a client reads the table's directory."""

from core.api.credentials import asked_location
from core.api.response import Response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.credentials import answer_credentials


def handle(call: Call) -> Response:
    access = call.find_table()
    location = asked_location(call.request.body)
    return answer_credentials(call.services.directories, access.require(), access.caller, location)


lambda_handler = function("temporary_table_credentials", handle, opens_directories=True)
