"""A table's objects as each process of a job reads them: of S3 as the table's role, or of this machine's disk.

Between processes go names alone (location, role, region). Credentials are obtained by each process for itself, and are
neither in a plan nor in a log.
"""

import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from botocore.session import get_session

from core.errors import TableFilesError
from core.settings import Settings
from core.storage.location import S3Location
from core.storage.objects import ObjectInfo, ObjectReader
from core.storage.session import Storage

LOCAL = "file://"


class LocalReader(ObjectReader):
    """Files of this machine in the place of objects: a key is a path without its first slash."""

    def __init__(self) -> None:
        pass

    def get(self, key: str, etag: str = "") -> bytes:
        with _opened(key, etag) as file:
            return file.read()

    def get_range(self, key: str, start: int, length: int, etag: str = "") -> bytes:
        with _opened(key, etag) as file:
            file.seek(start)
            return file.read(length)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Of one folder, which is all that a log is listed for."""
        folder = Path("/", prefix)
        names = sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
        for name in names:
            if prefix + name > (start_after or ""):
                yield _info(prefix + name)


@contextlib.contextmanager
def _opened(key: str, etag: str) -> Iterator[io.BufferedReader]:
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(Path("/", key).open("rb"))
        except PermissionError as error:
            raise TableFilesError("permission denied") from error
        except OSError as error:
            raise TableFilesError("table files missing") from error
        if etag and etag != _info(key).etag:
            raise TableFilesError("table files missing")
        yield file


def _info(key: str) -> ObjectInfo:
    stat = Path("/", key).stat()
    return ObjectInfo(key, stat.st_size, stat.st_mtime_ns // 1_000_000, f"{stat.st_size}-{stat.st_mtime_ns}")


class TableObjects(NamedTuple):
    objects: ObjectReader
    location: S3Location


@dataclass(frozen=True, slots=True)
class TableStorage:
    """Where a table lies, and as whom it is read."""

    location: str
    """`s3://bucket/prefix`, or `file:///folder`."""
    role_arn: str | None = None
    external_id: str | None = None
    region: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "TableStorage":
        return cls(**{name: options.get(name) for name in cls.__slots__})  # type: ignore[arg-type]

    @property
    def options(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def open(self) -> TableObjects:
        """With credentials that live long enough for a slice of the log: they are kept, and renewed, by the process."""
        if self.location.startswith(LOCAL):
            path = unquote(urlsplit(self.location).path).strip("/")
            return TableObjects(LocalReader(), S3Location("", path))
        session = _storage().open(
            S3Location.parse(self.location),
            role_arn=self.role_arn,
            external_id=self.external_id,
            region=self.region,
        )
        return TableObjects(session.objects(), session.location)


@cache
def _storage() -> Storage:
    return Storage.connect(Settings.from_environment(), get_session())


class RangedFile(io.RawIOBase):
    """An object as a file, of which only what is asked for is read."""

    def __init__(self, objects: ObjectReader, key: str, size: int, etag: str = "") -> None:
        self._objects, self._key, self._size, self._etag = objects, key, size, etag
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        length = min(size if size >= 0 else self._size, self._size - self._at)
        if length <= 0:
            return b""
        content = self._objects.get_range(self._key, self._at, length, self._etag)
        self._at += len(content)
        return content
