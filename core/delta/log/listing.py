"""Lists the files of a Delta log: all of them, those since the last checkpoint, or those since a known version."""

import re

import orjson

from core.delta.log.segment import FOLDER, Log
from core.errors import TableFilesError
from core.storage.location import S3Location
from core.storage.objects import ObjectInfo, ObjectReader

# S3 times are whole seconds. Commits within one second get increasing times, counted from the first of them. A listing
# goes back this many versions, so that a version gets the same time wherever the listing starts.
LOOK_BACK = 100
COMMIT = re.compile(r"([0-9]{20})\.json")
COMPACTION = re.compile(r"([0-9]{20})\.([0-9]{20})\.compacted\.json")
# A single file, one of several parts, or a V2 checkpoint with a UUID in its name.
CHECKPOINT = re.compile(
    r"([0-9]{20})\.checkpoint(?:\.([0-9]{10})\.([0-9]{10})|\.[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})?"
    r"\.(?:parquet|(?<=[0-9A-Fa-f]{12}\.)json)"
)


def is_commit(file: ObjectInfo) -> bool:
    """Whether the file is the commit of a single version."""
    return COMMIT.fullmatch(file.key.rpartition("/")[2]) is not None


def list_log(objects: ObjectReader, location: S3Location, *, from_version: int = 0) -> Log:
    prefix = location.key(FOLDER)
    commits: dict[int, ObjectInfo] = {}
    compactions: dict[int, dict[int, ObjectInfo]] = {}
    parts: dict[tuple[int, int], list[ObjectInfo]] = {}
    checkpoints: dict[int, list[tuple[ObjectInfo, ...]]] = {}
    for info in objects.list(prefix, start_after=f"{prefix}{from_version:020d}."):
        name = info.key.removeprefix(prefix)
        if name > ":":  # after the versions come _last_checkpoint, _sidecars/ …, which may take many pages
            break
        if found := COMMIT.fullmatch(name):
            commits[int(found[1])] = info
        elif found := COMPACTION.fullmatch(name):
            compactions.setdefault(int(found[1]), {})[int(found[2])] = info
        elif (found := CHECKPOINT.fullmatch(name)) and info.size:  # an empty file is an unfinished checkpoint
            version, count = int(found[1]), int(found[3] or 1)
            files = [] if found[3] is None else parts.setdefault((version, count), [])
            files.append(info)
            if len(files) == count:
                checkpoints.setdefault(version, []).append(tuple(files))
    return Log(
        commits,
        {version: complete[-1] for version, complete in checkpoints.items()},
        compactions,
        {version: tuple(complete[:-1]) for version, complete in checkpoints.items() if len(complete) > 1},
        from_version,
    )


def latest_log(objects: ObjectReader, location: S3Location) -> Log:
    """Lists the log from its last checkpoint on, or the whole log if `_last_checkpoint` is missing or wrong."""
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
    """Adds newer commits to `known` with one listing. Returns None if another log has replaced it."""
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
