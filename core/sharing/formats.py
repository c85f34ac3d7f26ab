"""Which format an answer has: one that the client takes, and in which it reads the table right.

Where it takes both, parquet format is for tables that need nothing else. What no offered format can carry is refused: a
client that is handed the wrong one would read wrong rows, and not know it.
"""

from collections.abc import Iterable

from core.api.capabilities import DELTA, PARQUET, Capabilities
from core.delta.features import (
    DELETION_VECTORS,
    FEATURES,
    active_features,
    check_readable,
    enabled_features,
    reader_features,
)
from core.delta.snapshot import Cdc, Commit, FileAction, Metadata, Protocol
from core.errors import UnsupportedOperationError


def choose_format(capabilities: Capabilities, active: frozenset[str], enabled: frozenset[str]) -> str:
    """For files that `active` features are needed for, of a table that has `enabled` ones switched on."""
    if len(capabilities.formats) == 1:
        (chosen,) = capabilities.formats
    else:
        chosen = PARQUET if _best_as_parquet(capabilities, active, enabled) else DELTA
    require(chosen, capabilities, active, enabled)
    return chosen


def _best_as_parquet(capabilities: Capabilities, active: frozenset[str], enabled: frozenset[str]) -> bool:
    """As plain files, unless the client knows, by its own word, the better way to read them."""
    known = any(name.lower() in capabilities.reader_features for name in active | enabled)
    return all(FEATURES[name].plain for name in active) and not known


def require(response_format: str, capabilities: Capabilities, active: frozenset[str], enabled: frozenset[str]) -> None:
    """Refuses what the client could not read right in this format. The first words are the reference server's."""
    if response_format == PARQUET:
        missing = [name for name in active if not FEATURES[name].plain]
    else:
        named = capabilities.reader_features
        missing = [name for name in active if FEATURES[name].named and name.lower() not in named]
    if not missing:
        return
    leftover = missing == [DELETION_VECTORS] and DELETION_VECTORS not in enabled
    raise UnsupportedOperationError(
        f"{'Deletion Vector property disabled' if leftover else 'Unsupported Delta Table Properties'}: "
        "to read this table, a client must ask for responseformat=delta;readerfeatures="
        f"{','.join(sorted(missing)).lower()}"
    )


class FormatGate:
    """Follows a table through the commits of a range, whose answer has one format from its first line to its last."""

    def __init__(
        self, response_format: str, capabilities: Capabilities, protocol: Protocol, metadata: Metadata
    ) -> None:
        self._response_format = response_format
        self._capabilities = capabilities
        self._protocol, self.metadata = protocol, metadata
        self._allowed: frozenset[str] | None = None

    def allow_only(self, protocol: Protocol) -> None:
        """Refuse what the protocol that the client was told does not have."""
        self._allowed = reader_features(protocol)

    def follow(self, commit: Commit, files: Iterable[FileAction]) -> None:
        """`files`: those of the commit's that are to be answered."""
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
                "The table's features change within this range. Ask for less of it, or for includeHistoricalProtocol."
            )
        require(self._response_format, self._capabilities, active, enabled_features(self._protocol, self.metadata))
