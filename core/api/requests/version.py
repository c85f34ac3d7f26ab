"""The parameters of `GET …/version`."""

from dataclasses import dataclass

from core.api.requests.request import Request


@dataclass(frozen=True, slots=True)
class VersionRequest:
    starting_timestamp: str | None
    """Not yet parsed: a table without shared history is reported before an invalid timestamp."""

    @classmethod
    def parse(cls, request: Request) -> "VersionRequest":
        return cls(request.query.get("startingTimestamp"))
