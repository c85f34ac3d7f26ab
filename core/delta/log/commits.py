"""Reads the commits of a range of versions in order.

Commits are fetched in parallel and a bounded number of bytes ahead, so a range of ten thousand versions is never in
memory as a whole.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from core.delta.log import actions
from core.delta.log.damage import valid_actions
from core.delta.log.segment import Log, commit_file
from core.delta.model import Commit, FileAction
from core.errors import AnswerTooLargeError
from core.storage.objects import ObjectInfo

PARALLEL_READS = 24
AHEAD_BYTES = 32 * 1024 * 1024
# A function reads about 1,000 small objects per second from S3 and has 28 seconds.
MAX_COMMITS = 20_000
# Parsed actions take three times as much memory, and a function has 1,769 MB.
MAX_COMMIT_BYTES = 400_000_000

Get = Callable[[str, str], bytes]
"""Returns the content of an object, given its key and ETag."""
MERGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@contextlib.contextmanager
def fetched(get: Get, files: Iterable[ObjectInfo]) -> Iterator[Iterator[bytes]]:
    """Yields the contents of files in order. Fetching starts when the block begins and stops when it ends."""
    waiting = deque(files)
    started: deque[tuple[int, Future[bytes]]] = deque()
    pool = ThreadPoolExecutor(PARALLEL_READS)

    def fetch_ahead() -> None:
        ahead = sum(size for size, _ in started)
        while waiting and len(started) < 2 * PARALLEL_READS and (not started or ahead < AHEAD_BYTES):
            file = waiting.popleft()
            started.append((file.size, pool.submit(get, file.key, file.etag)))
            ahead += file.size

    def contents() -> Iterator[bytes]:
        while started:
            content = started.popleft()[1].result()
            fetch_ahead()
            yield content

    try:
        fetch_ahead()
        yield contents()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def check_count(commits: int) -> None:
    if commits > MAX_COMMITS:
        raise AnswerTooLargeError(
            f"The answer needs {commits:,} commits of the table's transaction log, more than the {MAX_COMMITS:,} "
            "that this server reads at once. Request fewer versions, or ask the table's owner to create a checkpoint."
        )


def check_size(commit_bytes: int) -> None:
    """Checks the bytes that are in memory at once: all commits of a snapshot, or the largest commit of a range."""
    if commit_bytes > MAX_COMMIT_BYTES:
        raise AnswerTooLargeError(
            f"The answer needs {commit_bytes / 1e6:,.0f} MB of commits of the table's transaction log at once. This "
            f"server can hold {MAX_COMMIT_BYTES / 1e6:,.0f} MB. Ask the table's owner to create a checkpoint."
        )


def read_commits(get: Get, log: Log, start: int, end: int) -> Iterator[Commit]:
    """Yields the commits of a range, read lazily. Raises immediately if one is missing."""
    check_count(end - start + 1)
    files = {version: log.commit(version) for version in range(start, end + 1)}
    check_size(max((file.size for file in files.values()), default=0))
    return _commits(get, files, log.timestamps)


def _commits(get: Get, files: Mapping[int, ObjectInfo], timestamps: Mapping[int, int]) -> Iterator[Commit]:
    total_bytes, read_bytes = sum(file.size for file in files.values()), 0
    with fetched(get, files.values()) as contents:
        for version, content in zip(files, contents, strict=True):
            read_bytes += files[version].size
            yield parse_commit(content, version, timestamps[version], read_bytes / max(total_bytes, 1))


def parse_commit(content: bytes, version: int, file_timestamp: int, progress: float = 1.0) -> Commit:
    files: list[FileAction] = []
    found: dict[str, actions.TableAction] = {}
    with valid_actions(commit_file(version)) as at:
        for action in actions.json_actions(content, at):
            if (add := action.get("add")) is not None:
                files.append(actions.add(add))
            elif (remove := action.get("remove")) is not None:
                files.append(actions.remove(remove))
            elif (cdc := action.get("cdc")) is not None:
                files.append(actions.cdc(cdc))
            else:
                actions.take_single(action, found, at)
    timestamp = actions.in_commit_timestamp_of(found.get("commitInfo"))
    return Commit(
        version=version,
        timestamp=file_timestamp if timestamp is None else timestamp,
        protocol=found["protocol"].parsed(actions.protocol) if "protocol" in found else None,
        metadata=found["metaData"].parsed(actions.metadata) if "metaData" in found else None,
        files=tuple(files),
        changes_no_row="commitInfo" in found and _changes_no_row(found["commitInfo"].content),
        progress=progress,
    )


def in_commit_timestamp(content: bytes, file: str) -> int | None:
    """Returns the in-commit timestamp of a commit, or None if it has none."""
    found: dict[str, actions.TableAction] = {}
    with valid_actions(file) as at:
        for action in actions.json_actions(content, at):
            if action.get("commitInfo") is not None:
                actions.take_single(action, found, at)
                break
    return actions.in_commit_timestamp_of(found.get("commitInfo"))


def _changes_no_row(info: dict[str, Any]) -> bool:
    """Whether the commit is a MERGE that changed no row. It may still have rewritten files."""
    metrics = info.get("operationMetrics")
    if info.get("operation") != "MERGE" or not isinstance(metrics, dict):
        return False
    return all(metrics.get(name) == "0" for name in MERGED_ROWS)
