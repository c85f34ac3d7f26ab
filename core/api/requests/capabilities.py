"""What a client can read, from the `delta-sharing-capabilities` and `fileidhash` headers."""

from collections.abc import Mapping
from dataclasses import dataclass

from core.api.requests.request import Request
from core.errors import InvalidParameterError

HEADER = "delta-sharing-capabilities"
FILE_ID_HASH_HEADER = "fileidhash"
PARQUET = "parquet"
DELTA = "delta"
FORMATS = (PARQUET, DELTA)


@dataclass(frozen=True, slots=True)
class Capabilities:
    formats: frozenset[str] = frozenset((PARQUET,))
    reader_features: frozenset[str] = frozenset()
    async_query: bool = False
    include_end_stream_action: bool = False

    @classmethod
    def parse(cls, request: Request) -> "Capabilities":
        """Ignores unknown keys. Keys and values are case-insensitive."""
        pairs = (part.split("=", 1) for part in request.headers.get(HEADER, "").lower().split(";") if "=" in part)
        values = {key.strip(): value.strip() for key, value in pairs}
        return cls(
            formats=_formats(values.get("responseformat")),
            reader_features=frozenset(_items(values.get("readerfeatures", ""))),
            async_query=_flag(values, "asyncquery"),
            include_end_stream_action=_flag(values, "includeendstreamaction"),
        )


@dataclass(frozen=True, slots=True)
class FileIdHash:
    """The format whose hash makes the file ids. Parsed separately, because it is checked after a query's body."""

    format: str | None
    """None if the client did not send the header; the format of the response then decides."""

    @classmethod
    def parse(cls, request: Request) -> "FileIdHash":
        raw = request.headers.get(FILE_ID_HASH_HEADER)
        if raw is None:
            return cls(None)
        name = raw.strip().lower()
        if name not in FORMATS:
            raise InvalidParameterError(f"Unsupported fileidhash: '{raw}'. Supported: parquet, delta")
        return cls(name)


def _formats(value: str | None) -> frozenset[str]:
    if value is None:
        return frozenset((PARQUET,))
    supported = frozenset(_items(value)).intersection(FORMATS)
    if not supported:
        raise InvalidParameterError("Unsupported responseformat. Supported: parquet, delta")
    return supported


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _flag(values: Mapping[str, str], key: str) -> bool:
    value = values.get(key, "false")
    if value not in ("true", "false"):
        raise InvalidParameterError(f"The capability {key} must be true or false.")
    return value == "true"
