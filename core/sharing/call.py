"""One request on its way through a route, with the services that answer it and what is observed of it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.api.requests.request import Request

if TYPE_CHECKING:
    from core.catalog.reader import TableAccess
    from core.sharing.services import Services


@dataclass(slots=True)
class Observed:
    """What the log line and the metrics report about a request. Never a token, a URL or a storage path."""

    recipient: str | None = None
    table: str | None = None
    files_listed: int = 0
    files_pruned: int = 0
    hints_ignored: list[str] = field(default_factory=list)
    """Parts of predicates that could not be used, each with the reason."""
    urls_signed: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    request: Request
    services: "Services"
    observed: Observed

    def find_table(self) -> "TableAccess":
        """Authenticates the caller and finds the table in the path. `TableAccess.require` raises if there is none."""
        path = self.request.path
        share, schema, table = path["share"], path["schema"], path["table"]
        access = self.services.catalog.find_table(self.request.bearer_token, share, schema, table)
        self.observed.recipient = access.caller.name
        # Names in a path may contain characters that cannot be encoded. The log gets them escaped.
        self.observed.table = f"{share}.{schema}.{table}".encode(errors="backslashreplace").decode()
        return access
