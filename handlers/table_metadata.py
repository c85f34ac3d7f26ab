"""GET …/tables/{table}/metadata: the protocol and metadata of a version, by default the latest."""

from core.api.requests.metadata import MetadataRequest
from core.api.response import Response
from core.runtime.function import function
from core.sharing.answers.table_answer import AnswerOptions
from core.sharing.call import Call
from core.sharing.metadata import answer_metadata
from core.sharing.tables import require_history


def handle(call: Call) -> Response:
    access = call.find_table()
    metadata = MetadataRequest.parse(call.request)
    table = access.require()
    if metadata.reads_history:
        require_history(table)
    options = AnswerOptions.parse(call.request, call.observed)
    return answer_metadata(call.services.tables, table, metadata, options)


lambda_handler = function("table_metadata", handle, opens_tables=True)
