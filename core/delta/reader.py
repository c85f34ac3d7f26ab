"""Reads a snapshot from the files of its log segment: the checkpoint first, then the commits, all fetched in parallel.

A large checkpoint goes to the temporary directory instead of memory.
"""

import contextlib
import errno
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, cast

from core.delta.log.checkpoint import OPEN_FILES, Checkpoint, Packed
from core.delta.log.commits import check_number, check_size, fetched, in_commit_timestamp
from core.delta.log.listing import is_commit
from core.delta.log.replay import CheckpointFiles, Replay, ReplayState
from core.delta.log.segment import LogSegment
from core.delta.snapshot import LoadedSnapshot
from core.errors import AnswerTooLargeError
from core.storage.location import S3Location
from core.storage.objects import ObjectInfo, ObjectReader

PARALLEL_READS = 8
MAX_IN_MEMORY = 32 * 1024 * 1024


def read_snapshot(
    objects: ObjectReader,
    location: S3Location,
    segment: LogSegment,
    base: ReplayState | None = None,
    checkpoint: CheckpointFiles | None = None,
) -> LoadedSnapshot:
    """The snapshot at the segment's end. Its commits follow `base` or `checkpoint` if one is given."""
    check_number(len(segment.commits))
    check_size(sum(commit.size for commit in segment.commits))
    with fetched(objects.get, segment.commits) as commits:
        if segment.checkpoint:
            checkpoint = _checkpoint(objects, location, segment)
        replay = Replay(base, checkpoint)
        for commit in commits:
            replay.apply(commit)
    timestamp = None
    if replay.lacks_in_commit_timestamp and is_commit(segment.tip):
        timestamp = in_commit_timestamp(objects.get(segment.tip.key, segment.tip.etag))
    return LoadedSnapshot.of(replay.result(segment, in_commit_timestamp=timestamp))


def _checkpoint(objects: ObjectReader, location: S3Location, segment: LogSegment) -> Checkpoint:
    top = segment.checkpoint[0]
    manifest, files = b"", []
    if top.key.endswith(".json"):
        manifest = objects.get(top.key, top.etag)
    else:
        files = _fetch(objects, segment.checkpoint)
    checkpoint = Checkpoint(files, manifest)
    sidecars = checkpoint.table_actions.sidecar_files(location)
    return Checkpoint([*files, *_fetch(objects, sidecars)], manifest) if sidecars else checkpoint


def _fetch(objects: ObjectReader, files: Sequence[ObjectInfo]) -> list[Packed]:
    in_memory = sum(file.size for file in files) <= MAX_IN_MEMORY

    def fetch(file: ObjectInfo) -> Packed:
        return objects.get(file.key, file.etag) if in_memory else _spooled(objects, file)

    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        return list(pool.map(fetch, files))


def _spooled(objects: ObjectReader, info: ObjectInfo) -> IO[bytes]:
    try:
        nameless = OPEN_FILES.exists()
        file = cast("IO[bytes]", tempfile.NamedTemporaryFile(prefix="sluice-checkpoint-", delete=not nameless))  # noqa: SIM115
        if nameless:  # such a file does not outlive a process that is killed
            Path(file.name).unlink()
        try:
            objects.save(info.key, file, info.etag)
        except BaseException:
            with contextlib.suppress(OSError):  # what is left to write is written now, if there is room
                file.close()
            raise
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EMFILE):
            raise
        message = "The table's checkpoint is larger than the space that this server has for it."
        raise AnswerTooLargeError(message) from error
    return file
