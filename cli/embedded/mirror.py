"""Copies local Delta tables to the embedded S3 and keeps the copies up to date while the command runs.

A reader of the copy must never see a commit before its files. Each round therefore lists the log before the data and
copies the data before the log: the files of a listed commit exist already and are copied first.
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

# Changes with the content of a file: modification time in nanoseconds, and size.
Stamp = tuple[int, int]
# Called with the number of copied files and the total.
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
        """Copies a table and keeps the copy up to date. Returns its location, which is the same in every run."""
        directory = directory.resolve()
        table = self._tables.get(directory)
        if table is None:
            table = _MirroredTable(directory, _stable_name(directory))
            # Files from an earlier run count as outdated copies, so they are replaced or removed.
            table.copied = dict.fromkeys(self._keys_below(table.prefix), (0, -1))
            self._copy(table, on_copied)
            self._tables[directory] = table
        return f"s3://{self._bucket}/{table.prefix}"

    def refresh(self) -> None:
        """Copies changed files and removes deleted ones. The next round retries a failure."""
        for table in list(self._tables.values()):
            try:
                self._copy(table)
            except (OSError, ValueError, BotoCoreError, ClientError) as error:  # ValueError: a name that is not UTF-8
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

    def _copy(self, table: _MirroredTable, on_copied: OnCopied | None = None) -> None:
        found = _files(table.directory)
        changed = sorted((name for name in found if found[name] != table.copied.get(name)), key=_data_first)
        for done, name in enumerate(changed, 1):
            if self._stop.is_set():
                return
            with contextlib.suppress(FileNotFoundError):  # a temporary file of a writer
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
    """Returns a readable name that is unique to the directory."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "-", directory.name)
    return f"{readable}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"


def _files(directory: Path) -> dict[str, Stamp]:
    """Lists all regular files, those of the log first. Skips links, which could lead outside the table."""
    log = directory / LOG
    commits = {} if log.is_symlink() else dict(_walk(log, f"{LOG}/"))
    return commits | dict(_walk(directory, "", without=LOG))


def _walk(directory: Path, prefix: str, without: str | None = None) -> Iterator[tuple[str, Stamp]]:
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return
    for entry in entries:
        # Names with a leading dot are checksums and unfinished files, unless they are partition directories (with `=`).
        if (entry.name.startswith(".") and "=" not in entry.name) or entry.name == without:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
        elif entry.is_file(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                yield prefix + entry.name, (status.st_mtime_ns, status.st_size)


def _data_first(name: str) -> tuple[int, str]:
    """Sort key for copying: data, sidecars, commits by version, checkpoints, then `_last_checkpoint`."""
    if not name.startswith(f"{LOG}/"):
        return 0, name
    if name == f"{LOG}/_last_checkpoint":
        return 4, name
    if COMMIT.fullmatch(name):
        return 2, name
    return (1 if name.count("/") > 1 else 3), name
