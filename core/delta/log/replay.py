"""Log replay: a checkpoint and the commits after it, oldest first, give the live files; the newest action wins.

A file is known by its path and its deletion vector, since one path may be removed with one vector and added again with
another in the same commit. Only what the commits say is held as actions: a checkpoint stays packed, and is gone through
when its files are asked for.
"""

import operator
import typing
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from core.delta.features import check_readable
from core.delta.log import actions
from core.delta.log.actions import Key, key_of, keys_of, memory_of
from core.delta.log.files import LogSegment, digest_of
from core.delta.snapshot import Add, AddBatch, FileBatch, Metadata, Protocol, Snapshot
from core.errors import MalformedRequestError

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate

BATCH_FILES = 8192
# A path and its place in a dictionary.
REMOVED_BYTES = 300
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"


class Totals(NamedTuple):
    num_files: int
    size: int
    num_deletion_vectors: int

    def without(self, others: "Totals") -> "Totals":
        return Totals(*map(operator.sub, self, others))


class CheckpointFiles(typing.Protocol):
    """A table's state at one version: a checkpoint of the log, or an index."""

    @property
    def protocol(self) -> Protocol | None: ...

    @property
    def metadata(self) -> Metadata | None: ...

    @property
    def totals(self) -> Totals: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def disk_bytes(self) -> int: ...

    def totals_of(self, keys: Collection[Key]) -> Totals:
        """Of the files that have one of `keys`."""

    def batches(self, predicate: "Predicate | None" = None) -> Iterator[FileBatch]:
        """The files; without some of those that the predicate rules out."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A snapshot with what it takes to go on from it."""

    segment: LogSegment
    snapshot: Snapshot
    checkpoint: CheckpointFiles | None
    files: dict[Key, Add | None]
    """What the commits since the checkpoint say of each file: added, or removed."""
    kept: Totals
    """Of the checkpoint's files, those that the commits say nothing of."""
    memory_bytes: int
    disk_bytes: int


class Replay:
    def __init__(self, base: Replayed | None = None, checkpoint: CheckpointFiles | None = None) -> None:
        self._base = base
        self._checkpoint = base.checkpoint if base else checkpoint
        state = base.snapshot if base else checkpoint
        self._protocol: Protocol | None = state.protocol if state else None
        self._metadata: Metadata | None = state.metadata if state else None
        # A copy: the base may be in use by an answer that is still being written.
        self._files: dict[Key, Add | None] = dict(base.files) if base else {}
        self._in_commit_timestamp: int | None = None

    def apply(self, commit: bytes) -> None:
        """All of a commit's actions, or of a file that several commits were compacted into."""
        found: dict[str, Any] = {}
        with actions.valid_actions():
            for action in actions.json_actions(commit):
                if (added := action.get("add")) is not None:
                    add = actions.add(added)
                    self._files[key_of(add)] = add
                elif (removed := action.get("remove")) is not None:
                    self._files[key_of(actions.remove(removed))] = None
                else:
                    actions.take_single(action, found)
            if "protocol" in found:
                self._protocol = actions.protocol(found["protocol"])
            if "metaData" in found:
                self._metadata = actions.metadata(found["metaData"])
            info = found.get("commitInfo", {})
            self._in_commit_timestamp = actions.optional(int, info.get("inCommitTimestamp"))

    def result(self, segment: LogSegment, *, in_commit_timestamp: int | None = None) -> Replayed:
        if self._protocol is None:
            raise MalformedRequestError("The table's transaction log has no protocol.")
        if self._metadata is None:
            raise MalformedRequestError("The table's transaction log has no metadata.")
        check_readable(self._protocol, self._metadata)
        kept = self._kept()
        live = list(filter(None, self._files.values()))
        memory_bytes = sum(map(memory_of, live)) + REMOVED_BYTES * (len(self._files) - len(live))
        timestamp = self._in_commit_timestamp or in_commit_timestamp
        files, checkpoint = self._files, self._checkpoint  # not the replay itself: it holds on to its base

        @cache
        def in_order() -> list[Add]:
            """Compacted or not, read at once or bit by bit: files that are gone through in pages keep their order."""
            return sorted(filter(None, files.values()), key=_order)

        snapshot = Snapshot(
            version=segment.version,
            timestamp=segment.timestamp if timestamp is None else timestamp,
            protocol=self._protocol,
            metadata=self._metadata,
            num_files=kept.num_files + len(live),
            size=kept.size + sum(add.size for add in live),
            num_deletion_vectors=kept.num_deletion_vectors + sum(add.deletion_vector is not None for add in live),
            batches=lambda predicate: _live(in_order(), files, checkpoint, predicate),
            origin=segment.origin,
            tip=digest_of([segment.tip]),
        )
        disk_bytes = 0
        if checkpoint:
            memory_bytes += checkpoint.memory_bytes
            disk_bytes = checkpoint.disk_bytes
        return Replayed(segment, snapshot, checkpoint, files, kept, memory_bytes, disk_bytes)

    @property
    def lacks_in_commit_timestamp(self) -> bool:
        """Whether the version has a time of its own that was not among what was read."""
        enabled = self._metadata is not None and self._metadata.configuration.get(IN_COMMIT_TIMESTAMPS) == "true"
        return enabled and self._in_commit_timestamp is None

    def _kept(self) -> Totals:
        if self._checkpoint is None:
            return Totals(0, 0, 0)
        if self._base is None:
            return self._checkpoint.totals.without(self._checkpoint.totals_of(self._files))
        news = self._files.keys() - self._base.files.keys()
        return self._base.kept.without(self._checkpoint.totals_of(news))


def _order(add: Add) -> tuple[int, str, str]:
    """As they were written, roughly: what commits add in turn is read in turn."""
    return add.modification_time, add.path, add.deletion_vector.unique_id if add.deletion_vector else ""


def _live(
    added: Sequence[Add],
    files: dict[Key, Add | None],
    checkpoint: CheckpointFiles | None,
    predicate: "Predicate | None",
) -> Iterator[FileBatch]:
    for first in range(0, len(added), BATCH_FILES):
        yield AddBatch.of(added[first : first + BATCH_FILES])
    for batch in checkpoint.batches(predicate) if checkpoint else ():
        keys = keys_of(batch.paths, batch.deletion_vectors) if files else ()
        # Most batches of a checkpoint are as they were.
        yield batch if files.keys().isdisjoint(keys) else batch.only(key not in files for key in keys)
