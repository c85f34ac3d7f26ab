"""The files of a Delta log, as a listing shows them.

A version is read from its *segment*: the newest complete checkpoint at or before it and every commit after that,
several of them from one file where the log was compacted. Where a segment begins is its *origin*. A commit's time is
its object's, made monotonic, as Delta defines it without in-commit timestamps.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import orjson

from core.delta.snapshot import ChangedLogError
from core.errors import MalformedRequestError, TableFilesError
from core.storage.location import S3Location
from core.storage.objects import ObjectInfo, ObjectReader

FOLDER = "_delta_log/"
# S3 counts whole seconds, so commits of the same second are told apart by their order, back to the first of them: a
# listing goes back so many versions that a version has one time, whatever was listed.
LOOK_BACK = 100
COMMIT = re.compile(r"([0-9]{20})\.json")
COMPACTION = re.compile(r"([0-9]{20})\.([0-9]{20})\.compacted\.json")
# One file; one of several parts; or one of any name, of the second kind of checkpoint.
CHECKPOINT = re.compile(
    r"([0-9]{20})\.checkpoint(?:\.([0-9]{10})\.([0-9]{10})|\.[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})?"
    r"\.(?:parquet|(?<=[0-9A-Fa-f]{12}\.)json)"
)


@dataclass(frozen=True, slots=True)
class LogSegment:
    version: int
    timestamp: int
    tip: ObjectInfo
    """The object that stands for the version: another one there means another log."""
    checkpoint: tuple[ObjectInfo, ...]
    """All parts of it; none if the log is read from its first commit or from a base."""
    commits: tuple[ObjectInfo, ...]
    """Oldest first."""
    origin: str
    """The name of the checkpoint, or of the first commit, that the log is read from; with a base, that of the base."""


@dataclass(frozen=True)
class Log:
    """What is listed from `first_version` on: commits and complete checkpoints by version, and compactions."""

    commits: Mapping[int, ObjectInfo]
    checkpoints: Mapping[int, tuple[ObjectInfo, ...]]
    compactions: Mapping[int, Mapping[int, ObjectInfo]] = field(default_factory=dict)
    """By their first version, then by their last."""
    other_checkpoints: Mapping[int, tuple[tuple[ObjectInfo, ...], ...]] = field(default_factory=dict)
    """By version, complete ones that are not read, unless a version was read from them before."""
    first_version: int = 0

    @cached_property
    def version(self) -> int:
        return max((*self.commits, *self.checkpoints))

    @cached_property
    def earliest_version(self) -> int:
        """The first version that can still be read. Only a listing of the whole log knows it."""
        if 0 in self.commits or not self.checkpoints:
            return 0
        return min(self.checkpoints)

    def reaches(self, version: int) -> bool:
        """Whether the listing goes back far enough to read a version."""
        return self.first_version == 0 or any(at <= version for at in self.checkpoints)

    def file(self, version: int) -> ObjectInfo | None:
        """The object that stands for a version: its commit, or its checkpoint if the commit is gone."""
        return self.commits.get(version) or next(iter(self.checkpoints.get(version, ())), None)

    def tip(self, version: int) -> str:
        """The name of that object; empty if there is none."""
        return digest_of(filter(None, [self.file(version)]))

    def check_tip(self, version: int, tip: str) -> None:
        """That this is the log in which a version had this tip. A commit may be cleaned up since, but no other come."""
        if version in self.commits and self.tip(version) != tip:
            raise ChangedLogError(version)

    @cached_property
    def timestamps(self) -> Mapping[int, int]:
        """The commit time of each version in milliseconds, in order and strictly rising."""
        timestamps: dict[int, int] = {}
        earliest_possible = 0
        first_commit = min(self.commits, default=-1)
        for version in sorted(self.commits.keys() | self.checkpoints.keys()):
            if file := self.file(version):
                time = file.last_modified_ms
                if version < first_commit:  # a checkpoint may be written long after its version, and after later ones
                    time = min(time, self.commits[first_commit].last_modified_ms - (first_commit - version))
                timestamps[version] = max(time, earliest_possible)
                earliest_possible = timestamps[version] + 1
        return timestamps

    def last_checkpoint(self, version: int) -> int:
        """The newest one at or before a version; -1 if there is none."""
        return max((at for at in self.checkpoints if at <= version), default=-1)

    def check_complete(self, since: int = -1) -> None:
        """A latest version is named only if it can be read: from its checkpoint, or from a version that is known."""
        for _ in self._commits(max(self.last_checkpoint(self.version), since) + 1, self.version):
            pass

    def segment(self, version: int, *, base: LogSegment | None = None) -> LogSegment:
        """What must be read for a version that the log reaches, beyond a base that is known already."""
        if base is not None:
            return self._segment(version, base.version, (), base.origin)
        start = self.last_checkpoint(version)
        checkpoint = self.checkpoints.get(start, ())
        return self._segment(version, start, checkpoint, self._origin(start, checkpoint))

    def segment_after(self, start: int, origin: str, version: int) -> LogSegment:
        """What must be read for a version beyond a state at another that was not read from the log."""
        return self._segment(version, start, (), origin)

    def segment_from(self, origin: str, version: int) -> LogSegment:
        """What was read for a version before, whatever checkpoint there is now that is nearer."""
        start = origin_version(origin)
        for checkpoint in (self.checkpoints.get(start, ()), *self.other_checkpoints.get(start, ())):
            if self._origin(start, checkpoint) == origin:
                return self._segment(version, start, checkpoint, origin)
        raise ChangedLogError(version)

    def _segment(self, version: int, start: int, checkpoint: tuple[ObjectInfo, ...], origin: str) -> LogSegment:
        commits = tuple(self._commits(start + 1, version))
        tip = self.file(version)
        if tip is None:
            raise _incomplete(version)
        return LogSegment(version, self.timestamps[version], tip, checkpoint, commits, origin)

    def _origin(self, version: int, checkpoint: tuple[ObjectInfo, ...]) -> str:
        """The checkpoint's name; without one, that of the first commit, by which two logs can be told apart as well."""
        return f"{version}:{digest_of(checkpoint or filter(None, [self.commits.get(0)]))}"

    def _commits(self, first: int, last: int) -> Iterator[ObjectInfo]:
        """Compacted where that is possible, but for the last: its commit alone tells when it was made."""
        version = first
        while version <= last:
            ends = self.compactions.get(version, ())
            compacted = max((end for end in ends if version < end < last), default=version)
            if compacted > version:
                yield self.compactions[version][compacted]
            else:
                yield self.commit(version)
            version = compacted + 1

    def commit(self, version: int) -> ObjectInfo:
        if version not in self.commits:
            raise _incomplete(version)
        return self.commits[version]


def is_commit(file: ObjectInfo) -> bool:
    """Whether it is one of a single version, and not a checkpoint."""
    return COMMIT.fullmatch(file.key.rpartition("/")[2]) is not None


def origin_version(origin: str) -> int:
    """That of its checkpoint; -1 if it has none."""
    return int(origin.partition(":")[0])


def digest_of(files: Iterable[ObjectInfo]) -> str:
    """A short name for objects with the content that they have now."""
    content = "".join(f"{file.key}\n{file.etag}\n" for file in files)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _incomplete(version: int) -> MalformedRequestError:
    return MalformedRequestError(
        f"The table's transaction log is incomplete: the commit of version {version} is missing."
    )


def list_log(objects: ObjectReader, location: S3Location, *, from_version: int = 0) -> Log:
    prefix = location.key(FOLDER)
    commits: dict[int, ObjectInfo] = {}
    compactions: dict[int, dict[int, ObjectInfo]] = {}
    parts: dict[tuple[int, int], list[ObjectInfo]] = {}
    checkpoints: dict[int, list[tuple[ObjectInfo, ...]]] = {}
    for info in objects.list(prefix, start_after=f"{prefix}{from_version:020d}."):
        name = info.key.removeprefix(prefix)
        if name > ":":  # past the digits: what is left (_last_checkpoint, _sidecars/ …) may be many pages
            break
        if found := COMMIT.fullmatch(name):
            commits[int(found[1])] = info
        elif found := COMPACTION.fullmatch(name):
            compactions.setdefault(int(found[1]), {})[int(found[2])] = info
        elif (found := CHECKPOINT.fullmatch(name)) and info.size:  # an empty one was never written to its end
            version, count = int(found[1]), int(found[3] or 1)
            of_checkpoint = [info] if found[3] is None else parts.setdefault((version, count), [])
            if found[3] is not None:
                of_checkpoint.append(info)
            if len(of_checkpoint) == count:
                checkpoints.setdefault(version, []).append(tuple(of_checkpoint))
    return Log(
        commits,
        {version: each[-1] for version, each in checkpoints.items()},
        compactions,
        {version: tuple(each[:-1]) for version, each in checkpoints.items() if len(each) > 1},
        from_version,
    )


def latest_log(objects: ObjectReader, location: S3Location) -> Log:
    """The log from its last checkpoint on; the whole log if the hint to that one is absent or wrong."""
    hint = _last_checkpoint(objects, location)
    if hint is not None:
        log = list_log(objects, location, from_version=max(hint - LOOK_BACK, 0))
        if hint in log.checkpoints:
            return log
    return whole_log(objects, location)


def whole_log(objects: ObjectReader, location: S3Location) -> Log:
    log = list_log(objects, location)
    if not log.commits and not log.checkpoints:
        raise TableFilesError("table files missing")
    return log


def later_log(known: Log, objects: ObjectReader, location: S3Location) -> Log | None:
    """`known` with what was committed since, by one look; None if another log has taken its place."""
    recent = list_log(objects, location, from_version=known.version)
    if recent.file(known.version) != known.file(known.version):
        return None
    if known.version == recent.version and recent.checkpoints.keys() <= known.checkpoints.keys():
        return known
    return Log(
        {**known.commits, **recent.commits},
        {**known.checkpoints, **recent.checkpoints},
        {**known.compactions, **recent.compactions},
        {**known.other_checkpoints, **recent.other_checkpoints},
        known.first_version,
    )


def _last_checkpoint(objects: ObjectReader, location: S3Location) -> int | None:
    try:
        version = orjson.loads(objects.get(location.key(f"{FOLDER}_last_checkpoint")))["version"]
    except (TableFilesError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) and version >= 0 else None
