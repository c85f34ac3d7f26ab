"""GET …/tables/{table}/changes: the change data feed of a range of versions."""

from core.api.requests.changes import ChangesRequest, MaxFiles
from core.api.response import Response
from core.runtime.function import function
from core.sharing.answers.table_answer import AnswerOptions
from core.sharing.call import Call
from core.sharing.changes import answer_changes, require_change_feed


def handle(call: Call) -> Response:
    access = call.find_table()
    MaxFiles.parse(call.request)  # The reference server reports a bad maxFiles before a missing table.
    table = access.require()
    require_change_feed(table)
    options = AnswerOptions.parse(call.request, call.observed)
    changes = ChangesRequest.parse(call.request)
    return answer_changes(call.services.tables, table, changes, options, access.table_tokens())


lambda_handler = function("table_changes", handle, opens_tables=True)
