"""What is known about the copies of a table, and a file that keeps it for the next run."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from cli.common.private_file import write_private
from cli.embedded.local_files import Stamp

# Changes with the content of the file. A file of another format is ignored.
FORMAT = 1


class Copy(NamedTuple):
    etag: str
    size: int
    stamp: Stamp | None = None
    """Of the local file when it was copied. None if it is not known, as for a copy of an earlier run."""


class KeptCopies:
    """One file per table in a folder. Without a folder, keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def recall(self, table: str, listed: Iterable[tuple[str, Copy]]) -> dict[str, Copy]:
        """Returns the listed copies by name, with the stamps of those that have not changed since `save`."""
        known = self._load(table)
        return {
            name: copy._replace(stamp=known[name].stamp) if name in known and known[name].etag == copy.etag else copy
            for name, copy in listed
        }

    def save(self, table: str, copies: Mapping[str, Copy]) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        files = {name: [copy.etag, copy.size, *copy.stamp] for name, copy in copies.items() if copy.stamp}
        write_private(self._path(self._folder, table), json.dumps({"format": FORMAT, "files": files}))

    def _load(self, table: str) -> dict[str, Copy]:
        if self._folder is None:
            return {}
        try:
            document = json.loads(self._path(self._folder, table).read_text())
            if document["format"] != FORMAT:
                return {}
            files = document["files"].items()
            return {name: Copy(etag, size, Stamp(*stamp)) for name, (etag, size, *stamp) in files}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing, or damaged: files are compared
            return {}

    @staticmethod
    def _path(folder: Path, table: str) -> Path:
        return folder / f"{table}.json"
