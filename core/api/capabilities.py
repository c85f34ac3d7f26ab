"""What a client says it can read: the `delta-sharing-capabilities` and `fileidhash` headers."""

from collections.abc import Mapping
from dataclasses import dataclass

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
    def parse(cls, headers: Mapping[str, str]) -> "Capabilities":
        """Keys and values are case-insensitive; unknown keys are for servers that know them."""
        pairs = (part.split("=", 1) for part in headers.get(HEADER, "").lower().split(";") if "=" in part)
        values = {key.strip(): value.strip() for key, value in pairs}
        return cls(
            formats=_formats(values.get("responseformat")),
            reader_features=frozenset(_items(values.get("readerfeatures", ""))),
            async_query=_flag(values, "asyncquery"),
            include_end_stream_action=_flag(values, "includeendstreamaction"),
        )


def file_id_hash(headers: Mapping[str, str]) -> str | None:
    """How the client wants file ids derived; None when it leaves that to the response's format."""
    raw = headers.get(FILE_ID_HASH_HEADER)
    if raw is None:
        return None
    kind = raw.strip().lower()
    if kind not in FORMATS:
        raise InvalidParameterError(f"Unsupported fileidhash: '{raw}'. Supported: parquet, delta")
    return kind


def _formats(value: str | None) -> frozenset[str]:
    if value is None:
        return frozenset((PARQUET,))
    known = frozenset(_items(value)).intersection(FORMATS)
    if not known:
        raise InvalidParameterError("Unsupported responseformat. Supported: parquet, delta")
    return known


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _flag(values: Mapping[str, str], key: str) -> bool:
    value = values.get(key, "false")
    if value not in ("true", "false"):
        raise InvalidParameterError(f"The capability {key} must be true or false.")
    return value == "true"
