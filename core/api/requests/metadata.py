"""The parameters of `GET …/metadata`."""

from dataclasses import dataclass

from core.api.requests.request import Request
from core.errors import InvalidParameterError


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    version: int | None
    timestamp: str | None

    @classmethod
    def parse(cls, request: Request) -> "MetadataRequest":
        version, timestamp = request.number("version"), request.query.get("timestamp")
        if version is not None and timestamp is not None:
            raise InvalidParameterError("Please only provide one of: version,timestamp")
        if version is not None and version < 0:
            raise InvalidParameterError("version cannot be negative.")
        return cls(version, timestamp)

    @property
    def reads_history(self) -> bool:
        """Whether the request names a point in time, which requires a table with shared history."""
        return self.version is not None or self.timestamp is not None
