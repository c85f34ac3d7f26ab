"""Local Delta tables, copied into the embedded S3 and kept up to date while the command runs.

A reader of the copy must never see a commit whose files are not there. So a round lists the log before the
data and copies in the other order: what a listed commit names was written before it, and is copied before it.
"""

import contextlib
import hashlib
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

POLL_SECONDS = 1.0
LOG = "_delta_log"
COMMIT = re.compile(rf"{LOG}/\d{{20}}\.json")

# How a file's content is told from an older one: time of change in nanoseconds, and size.
Stamp = tuple[int, int]
# How many files are copied, of how many.
OnCopied = Callable[[int, int], None]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _MirroredTable:
    directory: Path
    prefix: str
    copied: dict[str, Stamp] = field(default_factory=dict)


class Mirror:
    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket
        self._tables: dict[Path, _MirroredTable] = {}
        self._stop = threading.Event()

    def add(self, directory: Path, on_copied: OnCopied | None = None) -> str:
        """Copy a table, and keep it up to date from now on. Returns its location, the same at every run."""
        directory = directory.resolve()
        table = self._tables.get(directory)
        if table is None:
            table = _MirroredTable(directory, _stable_name(directory))
            # What an earlier run left there counts as copied, but as of another time: replaced, or removed.
            table.copied = dict.fromkeys(self._keys_below(table.prefix), (0, -1))
            self._copy(table, on_copied)
            self._tables[directory] = table
        return f"s3://{self._bucket}/{table.prefix}"

    def refresh(self) -> None:
        """Copy what has changed since the last time, remove what is gone. A failure is for the next time."""
        for table in list(self._tables.values()):
            try:
                self._copy(table)
            except (OSError, ValueError, BotoCoreError, ClientError) as error:  # ValueError: a name that is no UTF-8
                logger.warning("%s could not be mirrored and is tried again: %s", table.directory, error)

    @contextlib.contextmanager
    def watching(self, poll_seconds: float = POLL_SECONDS) -> Iterator[None]:
        """Refresh again and again inside the block, in a thread of its own."""

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

    def _copy(self, table: _MirroredTable, on_copied: OnCopied | None = None) -> None:
        found = _files(table.directory)
        changed = sorted((name for name in found if found[name] != table.copied.get(name)), key=_data_first)
        for done, name in enumerate(changed, 1):
            if self._stop.is_set():
                return
            with contextlib.suppress(FileNotFoundError):  # a writer's temporary file, gone again
                with (table.directory / name).open("rb") as content:
                    self._client.put_object(Bucket=self._bucket, Key=f"{table.prefix}/{name}", Body=content)
                table.copied[name] = found[name]
            if on_copied:
                on_copied(done, len(changed))
        for name in sorted(table.copied.keys() - found.keys(), key=_data_first, reverse=True):
            self._client.delete_object(Bucket=self._bucket, Key=f"{table.prefix}/{name}")
            del table.copied[name]

    def _keys_below(self, prefix: str) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=f"{prefix}/")
        for page in pages:
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(f"{prefix}/")


def _stable_name(directory: Path) -> str:
    """A readable name that only this directory has."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "-", directory.name)
    return f"{readable}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"


def _files(directory: Path) -> dict[str, Stamp]:
    """All regular files, listed with the log first. Links could lead outside the table: they are left out."""
    log = directory / LOG
    commits = {} if log.is_symlink() else dict(_walk(log, f"{LOG}/"))
    return commits | dict(_walk(directory, "", without=LOG))


def _walk(directory: Path, prefix: str, without: str | None = None) -> Iterator[tuple[str, Stamp]]:
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return
    for entry in entries:
        # Writers keep checksums and unfinished files under names that begin with a dot; a partition's may do so too.
        if (entry.name.startswith(".") and "=" not in entry.name) or entry.name == without:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
        elif entry.is_file(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                yield prefix + entry.name, (status.st_mtime_ns, status.st_size)


def _data_first(name: str) -> tuple[int, str]:
    """The order of copying: data, sidecars, commits by version, checkpoints, the hint to the last of them."""
    if not name.startswith(f"{LOG}/"):
        return 0, name
    if name == f"{LOG}/_last_checkpoint":
        return 4, name
    if COMMIT.fullmatch(name):
        return 2, name
    return (1 if name.count("/") > 1 else 3), name
