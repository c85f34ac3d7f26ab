"""One request on its way through a route: what was asked, what answers it, and what came of it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.api.request import Request

if TYPE_CHECKING:
    from core.catalog.reader import TableAccess
    from core.sharing.services import Services


@dataclass(slots=True)
class Observed:
    """What the log line and the metrics will say of a request. Never a token, a URL or a storage path."""

    recipient: str | None = None
    table: str | None = None
    files_listed: int = 0
    files_pruned: int = 0
    hints_ignored: list[str] = field(default_factory=list)
    """Parts of predicates that were of no use, and why."""
    urls_signed: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    request: Request
    services: "Services"
    observed: Observed

    def find_table(self) -> "TableAccess":
        """Authenticate, and look for the table that the path names. Whether it is there is asked for later."""
        path = self.request.path
        share, schema, table = path["share"], path["schema"], path["table"]
        access = self.services.catalog.find_table(self.request.bearer_token, share, schema, table)
        self.observed.recipient = access.caller.name
        # Names of a path may hold what no encoding takes: the log gets it escaped.
        self.observed.table = f"{share}.{schema}.{table}".encode(errors="backslashreplace").decode()
        return access
