"""The base class of answers in both response formats: headers, signed URLs, file ids and the last line.

Lines of files are the hot path. They are written by column, at most `FILES_PER_WRITE` files at a time.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import core.delta.reader  # noqa: F401 - loads the Parquet reader in Lambda's init phase instead of in a request
from core.api.lines import end_stream_line
from core.api.requests.capabilities import DELTA, FILE_ID_HASH_HEADER, HEADER, Capabilities, FileIdHash
from core.api.requests.request import Request
from core.api.response import VERSION_HEADER, Response, ndjson_response
from core.api.room import PageRoom
from core.api.size import AnswerSize
from core.api.statistics import reduced_lines
from core.catalog.model import Table
from core.delta.log.batch import FileBatch
from core.delta.model import FileAction, Metadata, Protocol, Remove
from core.delta.paths import FilePaths
from core.delta.snapshot import SnapshotSummary
from core.errors import TableFilesError, UnsupportedOperationError
from core.sharing.answers.file_lines import FramedFiles, file_lines, num_lines, with_reduced_stats
from core.sharing.call import Observed
from core.sharing.discovery import directory_fields
from core.storage.location import S3Location
from core.storage.session import StorageSession

if TYPE_CHECKING:
    from core.storage.presign import UrlSigner

# Files signed and written at a time, about half a megabyte. Larger blocks are not faster and take more memory.
FILES_PER_WRITE = 256
# The same for a page, which may end within a block. The rest of the block is then signed in vain.
PAGE_FILES_PER_WRITE = 128

PagedLines: TypeAlias = Generator[bytes, None, str | None]
"""Yields the lines of a page and returns the token of the next page, or None on the last page."""


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """What the client can read, from the headers of its request, and the counters of the answer."""

    capabilities: Capabilities
    file_id_hash: str | None
    observed: Observed

    @classmethod
    def parse(cls, request: Request, observed: Observed) -> "AnswerOptions":
        return cls(Capabilities.parse(request), FileIdHash.parse(request).format, observed)


class TableAnswer(ABC):
    response_format: ClassVar[str]

    def __init__(self, table: Table, storage: StorageSession, options: AnswerOptions) -> None:
        self._table = table
        self._storage = storage
        self._options = options
        self._observed = options.observed
        self._paths = FilePaths(storage.location, [S3Location.parse(uri) for uri in table.auxiliary_locations])
        self._signers: dict[str, UrlSigner] = {}
        self._digest = hashlib.sha256 if (options.file_id_hash or self.response_format) == DELTA else hashlib.md5
        self._expires_at = storage.expires_at_ms
        self.room = PageRoom()
        self.size = AnswerSize()

    @abstractmethod
    def protocol_line(self, protocol: Protocol, version: int | None = None) -> bytes: ...

    @abstractmethod
    def metadata_line(
        self, metadata: Metadata, *, totals: SnapshotSummary | None = None, version: int | None = None
    ) -> bytes: ...

    def file_lines(self, files: FileBatch, version: int | None, timestamp: int | None) -> Iterator[bytes]:
        """Yields the lines of a snapshot's files, in blocks of one or more lines."""
        for begin in range(0, files.num_files, FILES_PER_WRITE):
            block, reduced = files.between(begin, begin + FILES_PER_WRITE), self.size.reduced
            for lines in file_lines(self._framed(block, version, timestamp), block.num_files):
                self.size.written += num_lines(lines, block.num_files)
                yield lines if reduced == self.size.reduced else reduced_lines(lines)

    def page_lines(self, files: FileBatch, version: int | None, timestamp: int | None) -> Generator[bytes, None, int]:
        """Yields lines like `file_lines` as long as the page has room for them. Returns the number of files written."""
        written = 0
        for begin in range(0, files.num_files, PAGE_FILES_PER_WRITE):
            block = files.between(begin, begin + PAGE_FILES_PER_WRITE)
            for lines in self._that_fit(file_lines(self._framed(block, version, timestamp), block.num_files)):
                yield lines
                written += lines.count(b"\n")
            unsent = begin + block.num_files - written
            if unsent > 0:
                self.take_back(unsent)
                break
        return written

    def take_back(self, num_files: int) -> None:
        """Reports that the last files that lines were made for are not part of the answer."""
        self._observed.files_listed -= num_files

    def _that_fit(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yields the lines before the first one that the page has no room for."""
        for lines in blocks:
            if self.room.take(lines, files=lines.count(b"\n")):
                yield lines
                continue
            for line in lines.splitlines(keepends=True):
                if not self.room.take(line):
                    return
                yield line

    @abstractmethod
    def _framed(self, files: FileBatch, version: int | None, timestamp: int | None) -> FramedFiles:
        """Returns the files of a snapshot with their URLs and ids, by column."""

    @abstractmethod
    def change_line(self, action: FileAction, version: int, timestamp: int, *, partitioned: bool) -> bytes:
        """Returns the line of a file that a commit added or removed, or that contains changed rows."""

    def _removed(self, remove: Remove, *, partitioned: bool) -> tuple[Mapping[str, str | None], int]:
        """Returns the partition values and the size of a removed file. Old writers log only its path."""
        values, size = remove.partition_values, remove.size
        if values is None and partitioned:
            raise UnsupportedOperationError(
                "The table's changes cannot be read: its log does not say which partition a removed file belonged to."
            )
        if size is None:
            bucket, key = self._paths.find(remove.path)
            try:
                size = self._storage.objects(bucket).size(key)
            except TableFilesError as error:
                raise UnsupportedOperationError(
                    "The table's changes cannot be read: its log does not say how large a removed file was, "
                    "and the file is no longer in storage."
                ) from error
        return values or {}, size

    def response(
        self, version: int, body: Iterable[bytes], *, may_end_stream: bool = True, paged: bool = False
    ) -> Response:
        """Confirms a requested endStreamAction in the header if the route can send one (`may_end_stream`).

        `paged` means that the client asked for pages. Any other client would take a part for the whole.
        """
        confirmed = may_end_stream and self._options.capabilities.include_end_stream_action
        headers = {
            VERSION_HEADER: str(version),
            HEADER: f"responseformat={self.response_format}{';includeendstreamaction=true' if confirmed else ''}",
        }
        if self._options.file_id_hash is not None:
            headers[FILE_ID_HASH_HEADER] = self._options.file_id_hash
        room, size = (self.room, None) if paged else (None, self.size)
        return ndjson_response(body, headers=headers, room=room, size=size, ends_with_action=confirmed)

    def with_end(self, body: PagedLines, *, required: bool, refresh_token: str | None = None) -> Iterator[bytes]:
        """Adds an endStreamAction only if it is required or requested. Clients fail on one that they do not expect."""
        next_page_token = yield from body
        if required or self._options.capabilities.include_end_stream_action:
            yield end_stream_line(
                refresh_token=refresh_token,
                next_page_token=next_page_token,
                min_url_expiration_timestamp=self._expires_at if self._observed.files_listed else None,
            )

    def _extra_fields(self, totals: SnapshotSummary | None, version: int | None) -> dict[str, Any]:
        """Returns the fields that a metaData line has in addition to those of the log's action."""
        extra: dict[str, Any] = {} if version is None else {"version": version}
        if totals is not None:
            extra |= {"size": totals.size, "numFiles": totals.num_files, **directory_fields(self._table)}
        return extra

    def _fitting(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the fields of files, with reduced statistics if the answer would be too large otherwise."""
        return with_reduced_stats(fields) if self.size.reduced else fields

    def _urls(self, paths: Sequence[str]) -> list[str]:
        self._observed.files_listed += len(paths)
        urls: list[str] = []
        for bucket, files in groupby(self._paths.find_all(paths), key=itemgetter(0)):
            urls += self._signed(bucket, [key for _, key in files])
        return urls

    def _signed(self, bucket: str, keys: Sequence[str]) -> list[str]:
        self._observed.urls_signed += len(keys)
        signer = self._signers.get(bucket)
        if signer is None:
            signer = self._signers[bucket] = self._storage.signer(bucket)
        return signer.sign_all(keys)

    def _ids(self, paths: Sequence[str]) -> list[str]:
        digest = self._digest
        return [digest(path.encode(), usedforsecurity=False).hexdigest() for path in paths]


def metadata_action(metadata: Metadata) -> dict[str, Any]:
    """Returns the `metaData` action of the log, without fields that have no value."""
    action = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.provider, "options": dict(sorted(metadata.options.items()))},
        "schemaString": metadata.schema_string,
        "partitionColumns": metadata.partition_columns,
        "configuration": metadata.configuration,
        "createdTime": metadata.created_time,
    }
    return {name: value for name, value in action.items() if value is not None}
