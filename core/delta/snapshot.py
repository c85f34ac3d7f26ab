"""A snapshot is one version of a table: its protocol, its metadata and its live files.

This is all that the rest of core sees of a table's state, whether it was read from the log or from an index. Paths,
partition values, statistics and deletion vectors are the log's own and are never rewritten.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.delta.features import check_readable
from core.delta.log.batch import FileBatch
from core.delta.log.replay import ReplayState
from core.delta.log.segment import digest_of
from core.delta.model import Add, Metadata, Protocol

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """A snapshot without its files."""

    version: int
    timestamp: int
    """When the version was committed, in milliseconds since 1970."""
    protocol: Protocol
    metadata: Metadata
    num_files: int
    size: int
    """Total bytes of all live files."""
    num_deletion_vectors: int
    """Number of live files that have a deletion vector."""


@dataclass(frozen=True, slots=True)
class Snapshot(SnapshotSummary):
    batches: Callable[["Predicate | None"], Iterator[FileBatch]]
    """The live files, some thousand at a time. Some that a given predicate rules out may be left out."""
    checkpoint_id: str
    """Where reading the log began. Two reads of a version from the same checkpoint give its files in the same order."""
    tip: str
    """Digest of the log tip: it changes if another log takes this one's place."""

    @property
    def summary(self) -> SnapshotSummary:
        """A copy that does not keep the files alive."""
        return SnapshotSummary(
            self.version,
            self.timestamp,
            self.protocol,
            self.metadata,
            self.num_files,
            self.size,
            self.num_deletion_vectors,
        )

    def adds(self) -> Iterator[Add]:
        """The live files, one by one."""
        for batch in self.batches(None):
            yield from batch.adds()


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A snapshot with the replay state that later versions continue from."""

    snapshot: Snapshot
    state: ReplayState

    @classmethod
    def of(cls, state: ReplayState) -> "LoadedSnapshot":
        """Raises an error for a table that this server cannot read correctly."""
        check_readable(state.protocol, state.metadata)
        snapshot = Snapshot(
            version=state.segment.version,
            timestamp=state.timestamp,
            protocol=state.protocol,
            metadata=state.metadata,
            num_files=state.totals.num_files,
            size=state.totals.size,
            num_deletion_vectors=state.totals.num_deletion_vectors,
            batches=state.batches,
            checkpoint_id=state.segment.checkpoint_id,
            tip=digest_of([state.segment.tip]),
        )
        return cls(snapshot, state)
