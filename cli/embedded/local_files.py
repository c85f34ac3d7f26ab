"""The files of a local table, and a quick look that tells whether the table may have changed.

Every commit adds a file to the log, which changes the modification time of the log's directory. So a table whose log
directory is unchanged has no new commits, and its other files need not be listed.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

LOG = "_delta_log"
# The resolution of modification times is at most 2 s (FAT). Within it, a second change may leave the time as it is.
SETTLED_NS = 2_000_000_000


class Stamp(NamedTuple):
    """Changes with the content of a file. The second time also changes if another file is moved to the name."""

    modified_ns: int
    changed_ns: int
    size: int


# Of the log's directory and of `_last_checkpoint`, which writers may overwrite in place.
LogState: TypeAlias = tuple[tuple[int, ...] | None, ...]


def log_state(directory: Path) -> LogState | None:
    """Returns a value that changes with every commit. None if a change within the last seconds might be missed."""
    log = directory / LOG
    state: list[tuple[int, ...] | None] = []
    for path in (log, log / "_last_checkpoint"):
        try:
            status = path.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            state.append(None)
            continue
        if abs(time.time_ns() - status.st_mtime_ns) < SETTLED_NS:
            return None
        state.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(state)


def files(directory: Path) -> dict[str, Stamp]:
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
                yield prefix + entry.name, Stamp(status.st_mtime_ns, status.st_ctime_ns, status.st_size)
