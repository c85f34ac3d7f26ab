"""The parameters of `GET …/version`."""

from dataclasses import dataclass

from core.api.requests.request import Request


@dataclass(frozen=True, slots=True)
class VersionRequest:
    starting_timestamp: str | None
    """Parsed as a time only after the table is known to share its history."""

    @classmethod
    def parse(cls, request: Request) -> "VersionRequest":
        return cls(request.query.get("startingTimestamp"))
