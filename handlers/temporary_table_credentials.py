"""POST …/tables/{table}/temporary-table-credentials: credentials for the table's own directory. Not served yet."""

from core.api.response import Response
from core.errors import NotImplementedYetError
from core.runtime.function import function
from core.sharing.call import Call


def handle(call: Call) -> Response:
    call.find_table().require()
    raise NotImplementedYetError("Temporary table credentials are not supported by this server yet.")


lambda_handler = function("temporary_table_credentials", handle)
