"""Calls the query route in this process, without HTTP."""

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bench.lab.aws import SCHEMA, SHARE, TOKEN_VARIABLE
from core.settings import Settings

if TYPE_CHECKING:
    from botocore.session import Session

    from core.api.response import Response


def query_function(session: "Session | None" = None) -> Callable[[str, Mapping[str, object]], "Response"]:
    """Return a function that queries a table with a body. `session`: the botocore session of its AWS requests."""
    # Imported here because cases that do not query must not hold these modules in memory.
    from core.api.requests.request import Request
    from core.sharing.call import Call, Observed
    from core.sharing.services import Services
    from handlers.query_table import handle

    services = Services(Settings.from_environment())
    if session is not None:
        services._session = session  # noqa: SLF001
    headers = {"authorization": f"Bearer {os.environ[TOKEN_VARIABLE]}"}

    def query(table: str, body: Mapping[str, object]) -> "Response":
        path = {"share": SHARE, "schema": SCHEMA, "table": table}
        return handle(Call(Request("POST", path, {}, headers, json.dumps(body).encode()), services, Observed()))

    return query
