"""Copies local Delta tables to the embedded S3 and keeps the copies up to date while the command runs.

A reader of the copy must never see a commit before its files. Each round therefore lists the log before the data and
copies the data before the log: the files of a listed commit exist already and are copied first.

A copy that has the content of its file is left as it is, also if an earlier run made it. Its ETag and its time identify
a commit, so they must not change: an index of the table relies on them.
"""

import contextlib
import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from cli.embedded.copies import Copy, KeptCopies
from cli.embedded.local_files import LOG, LogState, Stamp, files, log_state

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

POLL_SECONDS = 1.0
# All files are looked at after this time even if the log has not changed, for example for files that VACUUM deleted.
LOOK_SECONDS = 60.0
# Below botocore's default of 10 connections.
PARALLEL = 8
# Limits the number of waiting calls in memory.
BATCH = 1000
DATA, SIDECARS, COMMITS, CHECKPOINTS, LAST_CHECKPOINT = range(5)
COMMIT = re.compile(rf"{LOG}/\d{{20}}\.json")

# Called with the number of copied files and the total.
OnCopied = Callable[[int, int], None]
T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _MirroredTable:
    directory: Path
    prefix: str
    copied: dict[str, Copy] = field(default_factory=dict)
    log: LogState | None = None
    """The state of the log when it was last copied."""
    looked_at: float = 0.0
    is_saved: bool = False


class Mirror:
    def __init__(
        self,
        client: "S3Client",
        bucket: str,
        *,
        kept: Path | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kept` is a folder that remembers what was copied, if the bucket outlives this process."""
        self._client = client
        self._bucket = bucket
        self._kept = KeptCopies(kept)
        self._now = now
        self._tables: dict[Path, _MirroredTable] = {}
        self._stop = threading.Event()

    def add(self, directory: Path, on_copied: OnCopied | None = None) -> str:
        """Copies a table and keeps the copy up to date. Returns its location, which is the same in every run."""
        directory = directory.resolve()
        table = self._tables.get(directory)
        if table is None:
            prefix = _stable_name(directory)
            table = _MirroredTable(directory, prefix, self._kept.recall(prefix, self._copies_below(prefix)))
            try:
                self._copy(table, on_copied)
            finally:
                self._save(table)
            self._tables[directory] = table
        return f"s3://{self._bucket}/{table.prefix}"

    def refresh(self) -> None:
        """Copies changed files and removes deleted ones. The next round retries a failure."""
        for table in list(self._tables.values()):
            try:
                if self._may_have_changed(table):
                    self._copy(table)
            except (OSError, ValueError, BotoCoreError, ClientError) as error:  # ValueError: a name that is not UTF-8
                table.log = None
                logger.warning(
                    "%s could not be copied to the embedded S3 and will be retried: %s", table.directory, error
                )

    @contextlib.contextmanager
    def watching(self, poll_seconds: float = POLL_SECONDS) -> Iterator[None]:
        """Refreshes periodically in a thread, until the block ends."""

        def watch() -> None:
            while not self._stop.wait(poll_seconds):
                self.refresh()

        thread = threading.Thread(target=watch, name="mirror", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            for table in self._tables.values():
                self._save(table)

    def _may_have_changed(self, table: _MirroredTable) -> bool:
        return (
            table.log is None
            or table.log != log_state(table.directory)
            or self._now() - table.looked_at >= LOOK_SECONDS
        )

    def _copy(self, table: _MirroredTable, on_copied: OnCopied | None = None) -> None:
        log, looked_at = log_state(table.directory), self._now()
        found = files(table.directory)
        known = {name: copy.stamp for name, copy in table.copied.items()}
        changed = sorted((name for name in found if found[name] != known.get(name)), key=_data_first)

        is_other_log = False

        def copy(name: str) -> tuple[str, Copy | None]:
            earlier = None if is_other_log and _rank(name) == COMMITS else table.copied.get(name)
            return name, self._copy_file(table, name, found[name], earlier)

        for done, (name, copied) in enumerate(self._each(changed, copy), 1):
            if copied:  # otherwise a temporary file of a writer that no longer exists
                # The commits after a replaced one belong to another log, even if their content is the same. Their
                # copies get a new time, so that no index takes them for those of the old log.
                is_other_log |= _rank(name) == COMMITS and _is_replaced(table.copied.get(name), copied)
                table.copied[name] = copied
                table.is_saved = False
            if on_copied:
                on_copied(done, len(changed))

        def delete(name: str) -> str:
            self._client.delete_object(Bucket=self._bucket, Key=f"{table.prefix}/{name}")
            return name

        removed = sorted(table.copied.keys() - found.keys(), key=_data_first, reverse=True)
        for name in self._each(removed, delete):
            del table.copied[name]
            table.is_saved = False
        table.log, table.looked_at = log, looked_at

    def _copy_file(self, table: _MirroredTable, name: str, stamp: Stamp, earlier: Copy | None) -> Copy | None:
        """Copies a file unless `earlier` has the same content. Returns None if the file does not exist."""
        try:
            with (table.directory / name).open("rb") as content:
                if earlier and earlier.size == stamp.size:
                    if earlier.etag == f'"{hashlib.file_digest(content, _md5).hexdigest()}"':
                        return earlier._replace(stamp=stamp)
                    content.seek(0)
                answer = self._client.put_object(Bucket=self._bucket, Key=f"{table.prefix}/{name}", Body=content)
        except FileNotFoundError:
            return None
        return Copy(answer["ETag"], stamp.size, stamp)

    def _each(self, names: list[str], work: Callable[[str], T]) -> Iterator[T]:
        """Calls `work` for each name until the mirror stops, in parallel except for commits.

        Names of one rank are complete before the next rank begins.
        """
        with contextlib.ExitStack() as stack:
            pool = None
            for rank, group in groupby(names, key=_rank):
                for batch in _batches(list(group)):
                    if self._stop.is_set():
                        return
                    if rank == COMMITS or len(batch) == 1:
                        yield from self._until_stopped(map(work, batch))
                        continue
                    if pool is None:
                        pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="mirror")
                        stack.callback(pool.shutdown, cancel_futures=True)
                    yield from self._until_stopped(pool.map(work, batch))

    def _until_stopped(self, results: Iterable[T]) -> Iterator[T]:
        for result in results:
            yield result
            if self._stop.is_set():
                return

    def _copies_below(self, prefix: str) -> Iterator[tuple[str, Copy]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=f"{prefix}/")
        for page in pages:
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(f"{prefix}/"), Copy(entry["ETag"], entry["Size"])

    def _save(self, table: _MirroredTable) -> None:
        if not table.is_saved:
            self._kept.save(table.prefix, table.copied)
            table.is_saved = True


def _is_replaced(earlier: Copy | None, copied: Copy) -> bool:
    return earlier is not None and earlier.etag != copied.etag


def _md5() -> "hashlib._Hash":
    return hashlib.md5(usedforsecurity=False)


def _stable_name(directory: Path) -> str:
    """Returns a readable name that is unique to the directory."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "-", directory.name)
    return f"{readable}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"


def _batches(names: list[str]) -> Iterator[list[str]]:
    return (names[begin : begin + BATCH] for begin in range(0, len(names), BATCH))


def _data_first(name: str) -> tuple[int, str]:
    """Sort key for copying: data, sidecars, commits by version, checkpoints, then `_last_checkpoint`."""
    return _rank(name), name


def _rank(name: str) -> int:
    if not name.startswith(f"{LOG}/"):
        return DATA
    if name == f"{LOG}/_last_checkpoint":
        return LAST_CHECKPOINT
    if COMMIT.fullmatch(name):
        return COMMITS
    return SIDECARS if name.count("/") > 1 else CHECKPOINTS
