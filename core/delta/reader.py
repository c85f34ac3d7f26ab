"""Reads a snapshot: fetches the files of its log segment in parallel, and replays the commits on the checkpoint.

A large checkpoint is saved to the temporary directory instead of memory.
"""

import contextlib
import errno
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import disk_usage
from typing import IO, cast

from core.delta.log.checkpoint import Checkpoint
from core.delta.log.commits import (
    MAX_COMMIT_BYTES,
    MAX_COMMITS,
    check_count,
    check_size,
    fetched,
    in_commit_timestamp,
)
from core.delta.log.damage import log_file
from core.delta.log.listing import is_commit
from core.delta.log.parquet import ParquetFile
from core.delta.log.replay import CheckpointFiles, Replay, ReplayState
from core.delta.log.segment import LogSegment, NotReconciledError, digest_of, replaced_commits
from core.delta.snapshot import LoadedSnapshot
from core.errors import AnswerTooLargeError, LongLogError
from core.storage.location import S3Location
from core.storage.objects import ObjectInfo, ObjectReader

# Of the files of a checkpoint. Each may be large.
PARALLEL_FILES = 8
MAX_IN_MEMORY = 32 * 1024 * 1024


def read_snapshot(
    objects: ObjectReader,
    location: S3Location,
    segment: LogSegment,
    base: ReplayState | None = None,
    checkpoint: CheckpointFiles | None = None,
    *,
    max_log_bytes: float | None = None,
) -> LoadedSnapshot:
    """Reads the snapshot at the end of a segment. Its commits follow `base` or `checkpoint` if one is given.

    With `max_log_bytes`, raises `LongLogError` instead of reading a longer log, or one that is beyond other limits.
    """
    if max_log_bytes is not None:
        _check_length(segment, segment.checkpoint, max_log_bytes)
    check_count(len(segment.commits))
    check_size(sum(commit.size for commit in segment.commits))
    with fetched(objects.get, segment.commits) as commits:
        if segment.checkpoint:
            checkpoint = _checkpoint(objects, location, segment, max_log_bytes)
        replay = Replay(base, checkpoint)
        for file, commit in zip(segment.commits, commits, strict=True):
            try:
                replay.apply(commit, log_file(file.key), is_compacted=file.key in segment.compacted)
            except NotReconciledError:
                _apply_all(replay, objects, replaced_commits(segment.compacted, file))
    timestamp = None
    if replay.lacks_in_commit_timestamp and is_commit(segment.tip):
        timestamp = in_commit_timestamp(objects.get(segment.tip.key, segment.tip.etag), log_file(segment.tip.key))
    return LoadedSnapshot.of(replay.result(segment, in_commit_timestamp=timestamp))


def _apply_all(replay: Replay, objects: ObjectReader, files: Sequence[ObjectInfo]) -> None:
    check_count(len(files))
    check_size(sum(file.size for file in files))
    with fetched(objects.get, files) as commits:
        for file, commit in zip(files, commits, strict=True):
            replay.apply(commit, log_file(file.key))


def _check_length(segment: LogSegment, checkpoint: Sequence[ObjectInfo], max_log_bytes: float) -> None:
    commit_bytes = sum(commit.size for commit in segment.commits)
    checkpoint_bytes = sum(file.size for file in checkpoint)
    if (
        commit_bytes + checkpoint_bytes > max_log_bytes
        or commit_bytes > MAX_COMMIT_BYTES
        or len(segment.commits) > MAX_COMMITS
        or (checkpoint_bytes > MAX_IN_MEMORY and checkpoint_bytes > disk_usage(tempfile.gettempdir()).free)
    ):
        raise LongLogError(segment.version, digest_of([segment.tip]))


def _checkpoint(
    objects: ObjectReader, location: S3Location, segment: LogSegment, max_log_bytes: float | None
) -> Checkpoint:
    top = segment.checkpoint[0]
    manifest, manifest_name, infos = b"", "", segment.checkpoint
    if top.key.endswith(".json"):
        manifest, manifest_name, infos = objects.get(top.key, top.etag), log_file(top.key), ()
    files = _fetch(objects, infos)
    checkpoint = Checkpoint(files, manifest, file_names=_names(infos), manifest_name=manifest_name)
    sidecars = checkpoint.table_actions.sidecar_files(location)
    if not sidecars:
        return checkpoint
    if max_log_bytes is not None:  # a listing of the log does not have the sizes of sidecar files
        _check_length(segment, (*infos, *sidecars), max_log_bytes)
    files += _fetch(objects, sidecars)
    return Checkpoint(files, manifest, file_names=_names((*infos, *sidecars)), manifest_name=manifest_name)


def _names(files: Iterable[ObjectInfo]) -> list[str]:
    return [log_file(file.key) for file in files]


def _fetch(objects: ObjectReader, files: Sequence[ObjectInfo]) -> list[ParquetFile]:
    in_memory = sum(file.size for file in files) <= MAX_IN_MEMORY

    def fetch(file: ObjectInfo) -> ParquetFile:
        return objects.get(file.key, file.etag) if in_memory else _spooled(objects, file)

    with ThreadPoolExecutor(PARALLEL_FILES) as pool:
        return list(pool.map(fetch, files))


def _spooled(objects: ObjectReader, info: ObjectInfo) -> IO[bytes]:
    try:
        file = cast("IO[bytes]", tempfile.NamedTemporaryFile(prefix="sluice-checkpoint-", delete=False))  # noqa: SIM115
        Path(file.name).unlink()  # the file is then removed even if the process is killed
        try:
            objects.save(info.key, file, info.etag)
        except BaseException:
            with contextlib.suppress(OSError):  # closing flushes, which fails if the disk is full
                file.close()
            raise
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EMFILE):
            raise
        message = "The table's checkpoint is larger than the temporary storage of this server."
        raise AnswerTooLargeError(message) from error
    return file
