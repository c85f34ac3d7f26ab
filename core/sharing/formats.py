"""Chooses the response format: one that the client accepts and in which it reads the table correctly.

A client that accepts both formats gets parquet format if that is sufficient. If the table cannot be represented in any
accepted format, the request is refused, because the client would read wrong rows without noticing.
"""

from collections.abc import Iterable

from core.api.requests.capabilities import DELTA, PARQUET, Capabilities
from core.delta.features import (
    DELETION_VECTORS,
    FEATURES,
    active_features,
    check_readable,
    enabled_features,
    reader_features,
)
from core.delta.model import Cdc, Commit, FileAction, Metadata, Protocol
from core.errors import UnsupportedOperationError
from core.sharing.answers.delta_answer import DeltaAnswer
from core.sharing.answers.parquet_answer import ParquetAnswer
from core.sharing.answers.table_answer import TableAnswer

ANSWERS: dict[str, type[TableAnswer]] = {PARQUET: ParquetAnswer, DELTA: DeltaAnswer}


def choose_format(capabilities: Capabilities, active: frozenset[str], enabled: frozenset[str]) -> str:
    """`active` are the features needed to read the files, `enabled` those that the table's properties turn on."""
    if len(capabilities.formats) == 1:
        (chosen,) = capabilities.formats
    else:
        chosen = PARQUET if _prefers_parquet(capabilities, active, enabled) else DELTA
    _require_readable(chosen, capabilities, active, enabled)
    return chosen


def _prefers_parquet(capabilities: Capabilities, active: frozenset[str], enabled: frozenset[str]) -> bool:
    """Whether the files can be read as plain Parquet, and the client names none of the table's features."""
    client_names_one = any(name.lower() in capabilities.reader_features for name in active | enabled)
    return all(FEATURES[name].readable_as_parquet for name in active) and not client_names_one


def _require_readable(
    response_format: str, capabilities: Capabilities, active: frozenset[str], enabled: frozenset[str]
) -> None:
    """Refuses features that the client cannot read correctly in this format.

    The message begins like the reference server's.
    """
    if response_format == PARQUET:
        missing = [name for name in active if not FEATURES[name].readable_as_parquet]
    else:
        named = capabilities.reader_features
        missing = [name for name in active if FEATURES[name].must_be_named and name.lower() not in named]
    if not missing:
        return
    leftover = missing == [DELETION_VECTORS] and DELETION_VECTORS not in enabled
    raise UnsupportedOperationError(
        f"{'Deletion Vector property disabled' if leftover else 'Unsupported Delta Table Properties'}: "
        "to read this table, a client must ask for responseformat=delta;readerfeatures="
        f"{','.join(sorted(missing)).lower()}"
    )


class FormatGate:
    """Checks each commit of a range against the format of the answer."""

    def __init__(
        self, response_format: str, capabilities: Capabilities, protocol: Protocol, metadata: Metadata
    ) -> None:
        self._response_format = response_format
        self._capabilities = capabilities
        self._protocol, self.metadata = protocol, metadata
        self._allowed: frozenset[str] | None = None

    def allow_only(self, protocol: Protocol) -> None:
        """Refuses features in later commits that are not in `protocol`, which was sent to the client."""
        self._allowed = reader_features(protocol)

    def follow(self, commit: Commit, files: Iterable[FileAction]) -> None:
        """Checks a commit. `files` are the files of the commit that are part of the answer."""
        if commit.protocol or commit.metadata:
            self._protocol = commit.protocol or self._protocol
            self.metadata = commit.metadata or self.metadata
            check_readable(self._protocol, self.metadata)
            self._require(deletion_vectors=False)
        if any(not isinstance(file, Cdc) and file.deletion_vector is not None for file in files):
            self._require(deletion_vectors=True)

    def _require(self, *, deletion_vectors: bool) -> None:
        active = active_features(self._protocol, self.metadata, deletion_vectors=deletion_vectors)
        if self._allowed is not None and not active <= self._allowed:
            raise UnsupportedOperationError(
                "The table's features change within this range. "
                "Request a shorter range, or send includeHistoricalProtocol."
            )
        enabled = enabled_features(self._protocol, self.metadata)
        _require_readable(self._response_format, self._capabilities, active, enabled)
