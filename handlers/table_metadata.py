"""GET …/tables/{table}/metadata: protocol and metadata of a version, by default the latest."""

from core.api.capabilities import Capabilities, file_id_hash
from core.api.metadata import MetadataRequest
from core.api.response import Response
from core.runtime.function import function
from core.sharing.call import Call
from core.sharing.metadata import answer_metadata


def handle(call: Call) -> Response:
    access = call.find_table()
    asked = MetadataRequest.of(call.request)
    capabilities = Capabilities.parse(call.request.headers)
    table = access.require()
    id_hash = file_id_hash(call.request.headers)
    return answer_metadata(call.services.tables, table, asked, capabilities, file_id_hash=id_hash)


lambda_handler = function("table_metadata", handle, opens_tables=True)
