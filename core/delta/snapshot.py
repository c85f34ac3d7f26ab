"""A snapshot is a table at a version: its protocol, its metadata and its live files.

The rest of core sees a table only as snapshots, whether they were read from the log or from an index.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.delta.features import check_readable
from core.delta.log.batch import FileBatch, NumberedBatch
from core.delta.log.replay import ReplayState
from core.delta.log.segment import digest_of
from core.delta.model import Add, Metadata, Protocol
from core.delta.source import Source

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """A snapshot without its files."""

    version: int
    timestamp: int
    """Commit time of the version, in milliseconds since 1970."""
    protocol: Protocol
    metadata: Metadata
    num_files: int
    size: int
    """Total bytes of all live files."""
    num_deletion_vectors: int
    """Number of live files that have a deletion vector."""


@dataclass(frozen=True, slots=True)
class Snapshot(SnapshotSummary):
    batches_after: Callable[["Predicate | None", int], Iterator[NumberedBatch]]
    """Yields the live files after a file number, a few thousand at a time. May leave out files that the predicate rules
    out. The files before cost nothing, or nearly nothing."""
    checkpoint_id: str
    """Identifies the start of the log segment. Reads from the same start have the files in the same order."""
    tip: str
    """Digest of the log tip. It changes if another log replaces this one."""
    source: Source | None = None
    """Why the snapshot was read from the log or from an index; None if there was no choice."""

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

    def batches(self, predicate: "Predicate | None" = None) -> Iterator[FileBatch]:
        """Yields the live files. May leave out files that the predicate rules out."""
        for batch in self.batches_after(predicate, 0):
            yield batch.files

    def adds(self) -> Iterator[Add]:
        """Yields the live files."""
        for batch in self.batches():
            yield from batch.adds()


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A snapshot with the replay state that later versions continue from."""

    snapshot: Snapshot
    state: ReplayState

    def chosen_as(self, source: Source | None) -> "LoadedSnapshot":
        if self.snapshot.source == source:
            return self
        return replace(self, snapshot=replace(self.snapshot, source=source))

    @classmethod
    def of(cls, state: ReplayState) -> "LoadedSnapshot":
        """Raises if this server cannot read the table correctly."""
        check_readable(state.protocol, state.metadata)
        snapshot = Snapshot(
            version=state.segment.version,
            timestamp=state.timestamp,
            protocol=state.protocol,
            metadata=state.metadata,
            num_files=state.totals.num_files,
            size=state.totals.size,
            num_deletion_vectors=state.totals.num_deletion_vectors,
            batches_after=state.batches,
            checkpoint_id=state.segment.checkpoint_id,
            tip=digest_of([state.segment.tip]),
        )
        return cls(snapshot, state)
