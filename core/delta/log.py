"""The files of a Delta log, as a listing shows them.

A version is read from its *segment*: the newest complete checkpoint at or before it and every commit after
that. A commit's time is its object's, made monotonic, as Delta defines it without in-commit timestamps.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from core.errors import MalformedRequestError, TableFilesError
from core.storage.location import S3Location
from core.storage.objects import ObjectInfo, ObjectReader

FILE_NAME = re.compile(r"([0-9]{20})\.(?:json|checkpoint(?:\.([0-9]{10})\.([0-9]{10}))?\.parquet)")


@dataclass(frozen=True, slots=True)
class LogSegment:
    version: int
    timestamp: int
    checkpoint: tuple[ObjectInfo, ...]
    """All parts of it; none if the log is read from its first commit or from a base."""
    commits: tuple[ObjectInfo, ...]


@dataclass(frozen=True, slots=True)
class Log:
    """What is listed from some version on: `commits` by version, and the complete `checkpoints`."""

    commits: Mapping[int, ObjectInfo]
    checkpoints: Mapping[int, tuple[ObjectInfo, ...]]

    @property
    def version(self) -> int:
        return max((*self.commits, *self.checkpoints))

    @property
    def earliest_version(self) -> int:
        """The first version that can still be read. Only a listing of the whole log knows it."""
        if 0 in self.commits or not self.checkpoints:
            return 0
        return min(self.checkpoints)

    def file(self, version: int) -> ObjectInfo | None:
        """The object that stands for a version: its commit, or its checkpoint if the commit is gone."""
        return self.commits.get(version) or next(iter(self.checkpoints.get(version, ())), None)

    def timestamps(self) -> dict[int, int]:
        """The commit time of each version in milliseconds, in order and strictly rising."""
        timestamps: dict[int, int] = {}
        earliest_possible = 0
        for version in sorted(self.commits.keys() | self.checkpoints.keys()):
            if file := self.file(version):
                timestamps[version] = max(file.last_modified_ms, earliest_possible)
                earliest_possible = timestamps[version] + 1
        return timestamps

    def segment(self, version: int, *, base_version: int | None = None) -> LogSegment:
        """What must be read for a version that the log reaches, beyond a base that is known already."""
        start = base_version
        checkpoint: tuple[ObjectInfo, ...] = ()
        if start is None:
            start = max((at for at in self.checkpoints if at <= version), default=-1)
            checkpoint = self.checkpoints.get(start, ())
        needed = range(start + 1, version + 1)
        missing = next((commit for commit in needed if commit not in self.commits), None)
        if missing is not None:
            raise MalformedRequestError(
                f"The table's transaction log is incomplete: the commit of version {missing} is missing."
            )
        commits = tuple(self.commits[commit] for commit in needed)
        return LogSegment(version, self.timestamps()[version], checkpoint, commits)


def list_log(objects: ObjectReader, location: S3Location, *, from_version: int = 0) -> Log:
    prefix = location.key("_delta_log/")
    commits: dict[int, ObjectInfo] = {}
    parts: dict[tuple[int, int], list[ObjectInfo]] = {}
    for info in objects.list(prefix, start_after=f"{prefix}{from_version:020d}."):
        name = info.key.removeprefix(prefix)
        if name > ":":  # past the digits: what is left (_last_checkpoint, _sidecars/ …) may be many pages
            break
        if found := FILE_NAME.fullmatch(name):
            version = int(found[1])
            if name.endswith(".json"):
                commits[version] = info
            else:
                parts.setdefault((version, int(found[3] or 0)), []).append(info)
    complete = {version: tuple(infos) for (version, count), infos in parts.items() if len(infos) == (count or 1)}
    return Log(commits, complete)


def latest_log(objects: ObjectReader, location: S3Location) -> Log:
    """The log from its last checkpoint on; the whole log if the hint to that one is absent or wrong."""
    hint = _last_checkpoint(objects, location)
    if hint is not None:
        log = list_log(objects, location, from_version=hint)
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
    return Log({**known.commits, **recent.commits}, {**known.checkpoints, **recent.checkpoints})


def _last_checkpoint(objects: ObjectReader, location: S3Location) -> int | None:
    try:
        version = orjson.loads(objects.get(location.key("_delta_log/_last_checkpoint")))["version"]
    except (TableFilesError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) and version >= 0 else None
