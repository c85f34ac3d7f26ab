"""GET …/tables/{table}/changes: the change data feed of a range of versions."""

from core.api.changes import ChangesRequest, asked_max_files
from core.api.response import Response
from core.runtime.function import function
from core.sharing.answers import Asked
from core.sharing.call import Call
from core.sharing.changes import answer_changes, require_change_feed


def handle(call: Call) -> Response:
    access = call.find_table()
    max_files = asked_max_files(call.request)
    table = access.require()
    require_change_feed(table)
    asked = Asked.of(call.request, call.observed)
    changes = ChangesRequest.of(call.request, max_files)
    return answer_changes(call.services.tables, table, changes, asked, access.table_tokens())


lambda_handler = function("table_changes", handle, opens_tables=True)
