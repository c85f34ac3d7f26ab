"""The parameters of `GET …/changes`.

The checks and their texts match the reference server because clients and their tests compare them.
"""

from dataclasses import dataclass
from typing import ClassVar

from core.api.requests.query import MAX_FILES_NOT_POSITIVE, page_size
from core.api.requests.request import Request, whole_number
from core.api.table_tokens import checksum
from core.errors import InvalidParameterError


@dataclass(frozen=True, slots=True)
class MaxFiles:
    """Parsed separately, because a bad `maxFiles` is reported before a missing table and any other error after it."""

    number: int | None

    @classmethod
    def parse(cls, request: Request) -> "MaxFiles":
        number = request.number("maxFiles")
        if number is not None and number <= 0:
            raise InvalidParameterError(MAX_FILES_NOT_POSITIVE)
        return cls(number)


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """A range with one start and at most one end, each a version or a timestamp."""

    purpose: ClassVar[str] = "changes-2"

    starting_version: int | None
    starting_timestamp: str | None
    ending_version: int | None
    ending_timestamp: str | None
    include_historical_metadata: bool
    include_historical_protocol: bool
    page_token: str | None
    page_size: int | None

    @classmethod
    def parse(cls, request: Request) -> "ChangesRequest":
        query = request.query
        for edge in ("starting", "ending"):
            if f"{edge}Version" in query and f"{edge}Timestamp" in query:
                raise InvalidParameterError(
                    f"Multiple {edge} arguments provided for CDF read. "
                    f"Please provide one of either {edge}Timestamp or {edge}Version."
                )
        if not {"startingVersion", "startingTimestamp"} & query.keys():
            raise InvalidParameterError("No startingVersion or startingTimestamp provided for CDF read.")
        return cls(
            starting_version=_version(request, "startingVersion"),
            starting_timestamp=query.get("startingTimestamp"),
            ending_version=_version(request, "endingVersion"),
            ending_timestamp=query.get("endingTimestamp"),
            include_historical_metadata=_flag(request, "includeHistoricalMetadata"),
            include_historical_protocol=_flag(request, "includeHistoricalProtocol"),
            page_token=query.get("pageToken"),
            page_size=page_size(MaxFiles.parse(request).number),
        )

    @property
    def checksum(self) -> str:
        return checksum(
            self.starting_version,
            self.starting_timestamp,
            self.ending_version,
            self.ending_timestamp,
            self.include_historical_metadata,
            self.include_historical_protocol,
        )


def _version(request: Request, name: str) -> int | None:
    text = request.query.get(name)
    try:
        return None if text is None else whole_number(text)
    except InvalidParameterError:
        raise InvalidParameterError(f"{name} is not a valid number.") from None


def _flag(request: Request, name: str) -> bool:
    """Returns True for "true" in any case (the Python client sends `True`), and False for any other text."""
    return request.query.get(name, "").lower() == "true"
