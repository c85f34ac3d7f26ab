"""One request to a route, with the services of the process and the values to log."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.api.requests.request import Request

if TYPE_CHECKING:
    from core.catalog.reader import Caller, TableAccess
    from core.sharing.services import Services

# The stages of a request: reading the catalog; assuming the storage role and reading the table's log; selecting,
# signing and writing the files.
CATALOG, TABLE, ANSWER = "catalog", "table", "answer"
# How a streamed answer can end.
COMPLETE, FAILED, DEADLINE, DISCONNECTED = "complete", "failed", "deadline", "disconnected"


@dataclass(slots=True)
class Observed:
    """The values that the log line and the metrics report about a request. Never a token, a URL or a storage path."""

    recipient: str | None = None
    token_id: str | None = None
    """The id of the bearer token in the catalog. It is no secret."""
    table: str | None = None
    source: str | None = None
    """Where the files were read from: the log or an index."""
    files_listed: int = 0
    files_pruned: int = 0
    hints_ignored: list[str] = field(default_factory=list)
    """Columns of predicate hints that could not be used, each with the reason. Never a literal."""
    urls_signed: int = 0
    stats_reduced: bool = False
    """Whether the statistics of files were reduced because the answer would have been too large."""
    stage: str = CATALOG
    ended: str | None = None
    """How the answer ended. None, like the next values, if it was not streamed."""
    bytes_sent: int | None = None
    first_byte_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Call:
    request: Request
    services: "Services"
    observed: Observed

    def identify(self, caller: "Caller") -> None:
        """Notes who sent the request, for the log."""
        self.observed.recipient, self.observed.token_id = caller.name, caller.token_id

    def find_table(self) -> "TableAccess":
        """Authenticates the caller and looks up the table. `TableAccess.require` raises if the table does not exist."""
        path = self.request.path
        share, schema, table = path["share"], path["schema"], path["table"]
        access = self.services.catalog.find_table(
            self.request.bearer_token, share, schema, table, on_caller=self.identify
        )
        # Escape characters that cannot be encoded, which a path may contain.
        self.observed.table = f"{share}.{schema}.{table}".encode(errors="backslashreplace").decode()
        self.observed.stage = TABLE
        return access
