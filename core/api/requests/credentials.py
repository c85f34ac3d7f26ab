"""The body of `POST …/temporary-table-credentials`."""

from dataclasses import dataclass

from core.api.requests.body import Body
from core.api.requests.request import Request


@dataclass(frozen=True, slots=True)
class CredentialsRequest:
    location: str | None
    """None requests credentials for the table's own location."""

    @classmethod
    def parse(cls, request: Request) -> "CredentialsRequest":
        if not request.body.strip():  # Unlike on other routes, the body is optional.
            return cls(None)
        return cls(Body.parse(request, "GenerateTemporaryTableCredentialRequest").text("location"))
