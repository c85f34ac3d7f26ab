"""A listing of a log, and the segment of it that one version is read from.

1. A *log segment* is the newest complete checkpoint at or before a version, and the commits after it.
2. A compacted log file replaces the consecutive commits that it covers. Its actions must be reconciled: one per file.
   If they are not, the order of two actions is unknown, and the commits are read instead.
3. The *checkpoint id* identifies the start of a segment: its checkpoint, or the first commit.
4. Without in-commit timestamps, a commit's time is the modification time of its object, adjusted to increase strictly,
   as Delta defines it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from core.errors import ChangedLogError, DamagedLogError
from core.storage.objects import ObjectInfo

FOLDER = "_delta_log/"


Compacted = Mapping[str, tuple[ObjectInfo, ...]]
"""By the key of a compacted log file: the commits that it replaces, without those that were cleaned up."""


class NotReconciledError(Exception):
    """A compacted log file has two actions for one file, or two protocols or metadata."""


@dataclass(frozen=True, slots=True)
class LogSegment:
    version: int
    timestamp: int
    tip: ObjectInfo
    """The commit or checkpoint of the version. A different object means a different log."""
    checkpoint: tuple[ObjectInfo, ...]
    """All parts of the checkpoint; empty if the log is read from its first commit or from a base."""
    commits: tuple[ObjectInfo, ...]
    """Oldest first."""
    checkpoint_id: str
    """Identifies the checkpoint or first commit that the log is read from. With a base, it is the id of the base."""
    compacted: "Compacted" = field(default_factory=dict)
    """The commits that the compacted log files among `commits` replace."""


@dataclass(frozen=True)
class Log:
    """A listing from `first_version` on: commits and complete checkpoints by version, and compacted log files."""

    commits: Mapping[int, ObjectInfo]
    checkpoints: Mapping[int, tuple[ObjectInfo, ...]]
    compactions: Mapping[int, Mapping[int, ObjectInfo]] = field(default_factory=dict)
    """By first version, then by last version."""
    other_checkpoints: Mapping[int, tuple[tuple[ObjectInfo, ...], ...]] = field(default_factory=dict)
    """Further complete checkpoints by version. Read only to repeat a read that started from one of them."""
    first_version: int = 0

    @cached_property
    def version(self) -> int:
        return max((*self.commits, *self.checkpoints))

    @cached_property
    def earliest_version(self) -> int:
        """The first version that can still be read. Correct only for a listing of the whole log."""
        if 0 in self.commits or not self.checkpoints:
            return 0
        return min(self.checkpoints)

    def reaches(self, version: int) -> bool:
        """Whether the listing goes back far enough to read a version."""
        return self.first_version == 0 or any(at <= version for at in self.checkpoints)

    def file(self, version: int) -> ObjectInfo | None:
        """Returns the commit of a version, or its checkpoint if the commit was cleaned up."""
        return self.commits.get(version) or next(iter(self.checkpoints.get(version, ())), None)

    def tip(self, version: int) -> str:
        """Returns a digest of the key and ETag of the version's commit or checkpoint."""
        return digest_of(filter(None, [self.file(version)]))

    def check_tip(self, version: int, tip: str) -> None:
        """Raises if the version's commit is a different one. A commit that was cleaned up cannot be checked."""
        if version in self.commits and self.tip(version) != tip:
            raise ChangedLogError(version)

    @cached_property
    def timestamps(self) -> Mapping[int, int]:
        """The commit time of each version in milliseconds, in order and strictly increasing."""
        timestamps: dict[int, int] = {}
        earliest_possible = 0
        first_commit = min(self.commits, default=-1)
        for version in sorted(self.commits.keys() | self.checkpoints.keys()):
            if file := self.file(version):
                time = file.last_modified_ms
                if version < first_commit:  # a checkpoint may be written long after its version
                    time = min(time, self.commits[first_commit].last_modified_ms - (first_commit - version))
                timestamps[version] = max(time, earliest_possible)
                earliest_possible = timestamps[version] + 1
        return timestamps

    def last_checkpoint(self, version: int) -> int:
        """Returns the version of the newest checkpoint at or before a version, or -1 if there is none."""
        return max((at for at in self.checkpoints if at <= version), default=-1)

    def check_complete(self, since: int = -1) -> None:
        """Raises if commits are missing between the last checkpoint, or the version `since`, and the latest version."""
        for _ in self._spans(max(self.last_checkpoint(self.version), since) + 1, self.version):
            pass

    def segment(self, version: int, *, base: LogSegment | None = None) -> LogSegment:
        """Returns the segment to read for a version, after `base` if given."""
        if base is not None:
            return self._segment(version, base.version, (), base.checkpoint_id)
        start = self.last_checkpoint(version)
        checkpoint = self.checkpoints.get(start, ())
        return self._segment(version, start, checkpoint, self._checkpoint_id(start, checkpoint))

    def segment_after(self, start: int, checkpoint_id: str, version: int) -> LogSegment:
        """Returns the segment to read for a version after an index at version `start`."""
        return self._segment(version, start, (), checkpoint_id)

    def segment_from_checkpoint(self, checkpoint_id: str, version: int) -> LogSegment:
        """Returns the segment that a version was read from before, even if there is a nearer checkpoint now."""
        start = checkpoint_version(checkpoint_id)
        for checkpoint in (self.checkpoints.get(start, ()), *self.other_checkpoints.get(start, ())):
            if self._checkpoint_id(start, checkpoint) == checkpoint_id:
                return self._segment(version, start, checkpoint, checkpoint_id)
        raise ChangedLogError(version)

    def _segment(self, version: int, start: int, checkpoint: tuple[ObjectInfo, ...], checkpoint_id: str) -> LogSegment:
        spans = tuple(self._spans(start + 1, version))
        tip = self.file(version)
        if tip is None:
            raise _incomplete(version)
        commits = tuple(file for file, _ in spans)
        compacted = {
            file.key: tuple(self.commits[each] for each in versions if each in self.commits)
            for file, versions in spans
            if len(versions) > 1
        }
        return LogSegment(version, self.timestamps[version], tip, checkpoint, commits, checkpoint_id, compacted)

    def _checkpoint_id(self, version: int, checkpoint: tuple[ObjectInfo, ...]) -> str:
        """Uses the first commit if there is no checkpoint, so that two logs have different ids."""
        return f"{version}:{digest_of(checkpoint or filter(None, [self.commits.get(0)]))}"

    def _spans(self, first: int, last: int) -> Iterator[tuple[ObjectInfo, range]]:
        """Yields commits and their versions, compacted if possible, except the last: only its own has its timestamp."""
        version = first
        while version <= last:
            ends = self.compactions.get(version, ())
            compacted = max((end for end in ends if version < end < last), default=version)
            file = self.compactions[version][compacted] if compacted > version else self.commit(version)
            yield file, range(version, compacted + 1)
            version = compacted + 1

    def commit(self, version: int) -> ObjectInfo:
        if version not in self.commits:
            raise _incomplete(version)
        return self.commits[version]


def replaced_commits(compacted: Compacted, file: ObjectInfo) -> tuple[ObjectInfo, ...]:
    """Returns the commits to read instead of a compacted log file that is not reconciled."""
    name = file.key.rpartition("/")[2]
    first, last = map(int, name.split(".")[:2])
    commits = compacted[file.key]
    if len(commits) <= last - first:
        what = "it has two actions for one file, so it is not reconciled, and the commits that it replaces are missing"
        raise DamagedLogError(what, file=f"{FOLDER}{name}")
    return commits


def checkpoint_version(checkpoint_id: str) -> int:
    """Returns the version of the checkpoint, or -1 if the segment has none."""
    return int(checkpoint_id.partition(":")[0])


def digest_of(files: Iterable[ObjectInfo]) -> str:
    """Returns a short digest of the keys and ETags of objects."""
    content = "".join(f"{file.key}\n{file.etag}\n" for file in files)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def commit_file(version: int) -> str:
    """Returns the path of a commit relative to the table."""
    return f"{FOLDER}{version:020d}.json"


def _incomplete(version: int) -> DamagedLogError:
    return DamagedLogError(f"the commit of version {version} is missing", file=commit_file(version))
