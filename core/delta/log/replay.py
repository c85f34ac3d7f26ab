"""Log replay: applies commits to a checkpoint, oldest first, and returns the live files of a table.

1. The newest action of a file wins.
2. A file is identified by its path and its deletion vector, because one commit may remove a path with one vector and
   add it again with another.
3. The newest protocol and metadata are in force. They alone are checked: those that were replaced may be invalid.
4. Only the actions of commits are in memory. A checkpoint stays encoded and is decoded each time its files are read.
5. Live files are numbered from 1: first those that commits added, then those of the checkpoint. A checkpoint's files
   have numbers whether they are still live or not, so a reader can start anywhere without looking at those before.
"""

import typing
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from core.delta.log import actions
from core.delta.log.actions import TableAction, memory_of
from core.delta.log.batch import AddBatch, FileBatch, NumberedBatch
from core.delta.log.damage import valid_actions
from core.delta.log.segment import LogSegment, NotReconciledError
from core.delta.model import Add, FileKey, Metadata, Protocol, Totals, file_key, file_keys
from core.errors import DamagedLogError

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate

BATCH_FILES = 8192
# Approximate memory of a removed file: its path and its entry in a dictionary.
REMOVED_BYTES = 300
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"


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

    def totals_of(self, keys: Collection[FileKey]) -> Totals:
        """The totals of the files whose key is in `keys`."""

    def batches(self, predicate: "Predicate | None" = None, after: int = 0) -> Iterator[tuple[int, FileBatch]]:
        """Yields the files, each batch with the number of files before it.

        Leaves out the batches before the one with file `after + 1`. May leave out files that the predicate rules out.
        """


@dataclass(frozen=True, eq=False)
class ReplayState:
    """A table at the end of a log segment. The replay of a later version can continue from it."""

    segment: LogSegment
    timestamp: int
    protocol: Protocol
    metadata: Metadata
    checkpoint: CheckpointFiles | None
    files: dict[FileKey, Add | None]
    """The newest action of each file in the commits after the checkpoint: an add, or None for a remove."""
    kept: Totals
    """The totals of the checkpoint's files that no later commit added or removed."""
    totals: Totals
    """The totals of all live files."""
    memory_bytes: int
    """Without the checkpoint, which several versions share."""

    def batches(self, predicate: "Predicate | None", after: int = 0) -> Iterator[NumberedBatch]:
        """Yields the live files after number `after`. May leave out files that the predicate rules out."""
        added = self._in_order
        for first in range(after, len(added), BATCH_FILES):
            batch = AddBatch.of(added[first : first + BATCH_FILES])
            yield NumberedBatch(range(first + 1, first + 1 + batch.num_files), batch)
        if self.checkpoint is None:
            return
        for before, files in self.checkpoint.batches(predicate, max(after - len(added), 0)):
            first, num_files = len(added) + before, files.num_files
            numbered = NumberedBatch(range(first + 1, first + 1 + num_files), files)
            yield self._live(numbered if after <= first else numbered.between(after - first, num_files))

    def _live(self, batch: NumberedBatch) -> NumberedBatch:
        """Leaves out the files of a checkpoint that later commits added again or removed. They touch few batches."""
        keys = file_keys(batch.files.paths, batch.files.deletion_vectors) if self.files else ()
        return batch if self.files.keys().isdisjoint(keys) else batch.only(key not in self.files for key in keys)

    @cached_property
    def _in_order(self) -> list[Add]:
        """Sorted, because pages need one order, no matter how commits were compacted or divided into replays."""
        return sorted(filter(None, self.files.values()), key=_order)


class Replay:
    def __init__(self, base: ReplayState | None = None, checkpoint: CheckpointFiles | None = None) -> None:
        self._base = base
        self._checkpoint = base.checkpoint if base else checkpoint
        self._newest: dict[str, TableAction] = {}
        self._in_commit_timestamp: int | None = None
        # A copy, because a response that is still being written may use the base.
        self._files: dict[FileKey, Add | None] = dict(base.files) if base else {}

    def apply(self, commit: bytes, file: str = "", *, is_compacted: bool = False) -> None:
        """Applies the actions of a commit or of a compacted log file, all or none.

        `file` is named if they are not valid. Raises NotReconciledError if it is compacted and not reconciled.
        """
        found: dict[str, TableAction] = {}
        files: dict[FileKey, Add | None] = {}
        with valid_actions(file) as at:
            for action in actions.json_actions(commit, at):
                add = remove = None
                if (added := action.get("add")) is not None:
                    add = actions.add(added)
                elif (removed := action.get("remove")) is not None:
                    remove = actions.remove(removed)
                else:
                    actions.take_single(action, found, at)
                if file_action := add or remove:
                    key = file_key(file_action)
                    if is_compacted and key in files:
                        raise NotReconciledError
                    files[key] = add
        if is_compacted and any(action.is_ambiguous for action in found.values()):
            raise NotReconciledError
        self._files |= files
        self._in_commit_timestamp = actions.in_commit_timestamp_of(found.pop("commitInfo", None))
        self._newest |= found

    def result(self, segment: LogSegment, *, in_commit_timestamp: int | None = None) -> ReplayState:
        protocol, metadata = require_protocol_and_metadata(self._protocol, self._metadata)
        kept = self._kept()
        live = list(filter(None, self._files.values()))
        vectors = sum(add.deletion_vector is not None for add in live)
        memory_bytes = sum(map(memory_of, live)) + REMOVED_BYTES * (len(self._files) - len(live))
        logged = self._in_commit_timestamp
        timestamp = in_commit_timestamp if logged is None else logged
        return ReplayState(
            segment=segment,
            timestamp=segment.timestamp if timestamp is None else timestamp,
            protocol=protocol,
            metadata=metadata,
            checkpoint=self._checkpoint,
            files=self._files,
            kept=kept,
            totals=kept.plus(Totals(len(live), sum(add.size for add in live), vectors)),
            memory_bytes=memory_bytes + metadata.memory_bytes,
        )

    @property
    def lacks_in_commit_timestamp(self) -> bool:
        """Whether the table has in-commit timestamps, but the files read do not contain that of this version."""
        metadata = self._metadata
        enabled = metadata is not None and metadata.configuration.get(IN_COMMIT_TIMESTAMPS) == "true"
        return enabled and self._in_commit_timestamp is None

    # Both are read only after the last commit.
    @cached_property
    def _protocol(self) -> Protocol | None:
        if newest := self._newest.get("protocol"):
            return newest.parsed(actions.protocol)
        state = self._base or self._checkpoint
        return state.protocol if state else None

    @cached_property
    def _metadata(self) -> Metadata | None:
        if newest := self._newest.get("metaData"):
            return newest.parsed(actions.metadata)
        state = self._base or self._checkpoint
        return state.metadata if state else None

    def _kept(self) -> Totals:
        if self._checkpoint is None:
            return Totals(0, 0, 0)
        if self._base is None:
            return self._checkpoint.totals.without(self._checkpoint.totals_of(self._files))
        new_keys = self._files.keys() - self._base.files.keys()
        return self._base.kept.without(self._checkpoint.totals_of(new_keys))


def require_protocol_and_metadata(protocol: Protocol | None, metadata: Metadata | None) -> tuple[Protocol, Metadata]:
    """Returns both, or raises if the log lacks one of them."""
    if protocol is None:
        raise DamagedLogError("the log has no protocol action")
    if metadata is None:
        raise DamagedLogError("the log has no metaData action")
    return protocol, metadata


def _order(add: Add) -> tuple[int, str, str]:
    """Roughly the order in which the files were written."""
    return add.modification_time, add.path, add.deletion_vector.unique_id if add.deletion_vector else ""
