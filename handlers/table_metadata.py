"""GET …/tables/{table}/metadata: protocol and metadata of a version, by default the latest."""

from core.api.metadata import MetadataRequest
from core.api.response import Response
from core.runtime.function import function
from core.sharing.answers import Asked
from core.sharing.call import Call
from core.sharing.metadata import answer_metadata
from core.sharing.tables import require_history


def handle(call: Call) -> Response:
    access = call.find_table()
    metadata = MetadataRequest.of(call.request)
    table = access.require()
    if metadata.travels:
        require_history(table)
    asked = Asked.of(call.request, call.observed)
    return answer_metadata(call.services.tables, table, metadata, asked)


lambda_handler = function("table_metadata", handle, opens_tables=True)
