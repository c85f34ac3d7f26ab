"""POST …/tables/{table}/temporary-table-credentials: credentials for directory access to a table."""

from core.api.requests.credentials import CredentialsRequest
from core.api.response import Response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.credentials import answer_credentials


def handle(call: Call) -> Response:
    access = call.find_table()
    request = CredentialsRequest.parse(call.request)
    return answer_credentials(call.services.directories, access.require(), access.caller, request.location)


lambda_handler = function("temporary_table_credentials", handle, opens_directories=True)
