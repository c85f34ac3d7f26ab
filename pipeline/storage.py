"""Reads a table's objects in a process of the job: from S3 with the table's storage role, or from the local disk.

The job sends only names (location, role, external id, region) to its workers. Each process obtains its own credentials,
so they appear neither in a Spark plan nor in a log.
"""

import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from botocore.session import get_session

from core.errors import TableFilesError
from core.settings import Settings
from core.storage.location import S3Location
from core.storage.objects import ObjectInfo, ObjectReader, TableObjects
from core.storage.session import Storage

LOCAL = "file://"


class LocalReader(ObjectReader):
    """Reads local files like objects. A key is an absolute path without its leading slash."""

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
        """Lists the files of one folder, without subfolders. Listing a log needs no more."""
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


@dataclass(frozen=True, slots=True)
class TableStorage:
    """The location of a table and the role that can read it."""

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
        """Opens the table with credentials that last for a slice of the log. The process caches and renews them."""
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
    """A seekable file over an object. Each read is a range request."""

    def __init__(self, objects: ObjectReader, key: str, size: int, etag: str = "") -> None:
        self._objects, self._key, self._size, self._etag = objects, key, size, etag
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        length = min(size if size >= 0 else self._size, self._size - self._position)
        if length <= 0:
            return b""
        content = self._objects.get_range(self._key, self._position, length, self._etag)
        self._position += len(content)
        return content
