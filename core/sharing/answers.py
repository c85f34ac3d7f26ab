"""An answer about a table, in the one format or in the other: its headers and its lines.

The lines of files are the hot path: they are laid out by column, some hundreds at a time.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import core.delta.reader  # noqa: F401 - brings the Parquet reader while Lambda starts the function, not in a request
from core.api import lines
from core.api.capabilities import DELTA, FILE_ID_HASH_HEADER, HEADER, PARQUET, Capabilities, file_id_hash
from core.api.request import Request
from core.api.response import VERSION_HEADER, Response, ndjson_response
from core.catalog.model import Table
from core.delta.log.actions import MORE
from core.delta.paths import FilePaths
from core.delta.snapshot import (
    Add,
    Cdc,
    DeletionVector,
    FileAction,
    FileBatch,
    Head,
    Metadata,
    Protocol,
    Remove,
)
from core.errors import TableFilesError, UnsupportedOperationError
from core.sharing.call import Observed
from core.sharing.discovery import directory_fields
from core.storage.location import S3Location
from core.storage.session import StorageSession

if TYPE_CHECKING:
    from core.storage.presign import UrlSigner

CHANGE_FEED_PROPERTY = "delta.enableChangeDataFeed"
# With these a reader looks for times inside of commits, of which clients get none: they have each file's timestamp.
NOT_RELAYED = ("delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablement")


PARQUET_FIELDS = ("partitionValues", "size", "stats")
ADD_FIELDS = ("partitionValues", "size", "dataChange", "modificationTime", "stats", *MORE)
# So many are signed and written at a time: more would only wait in memory.
FILES_AT_ONCE = 1024

PagedLines: TypeAlias = Generator[bytes, None, str | None]
"""The lines of a page, which end with the token of the next one if there is one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a client wants its answer."""

    capabilities: Capabilities
    file_id_hash: str | None
    observed: Observed

    @classmethod
    def of(cls, request: Request, observed: Observed) -> "Asked":
        return cls(Capabilities.parse(request.headers), file_id_hash(request.headers), observed)


class TableAnswer(ABC):
    response_format: ClassVar[str]

    def __init__(self, table: Table, storage: StorageSession, asked: Asked) -> None:
        self._table = table
        self._storage = storage
        self._asked = asked
        self._observed = asked.observed
        self._paths = FilePaths(storage.location, [S3Location.parse(uri) for uri in table.auxiliary_locations])
        self._signers: dict[str, UrlSigner] = {}
        self._digest = hashlib.sha256 if (asked.file_id_hash or self.response_format) == DELTA else hashlib.md5
        self._expires_at = storage.expires_at_ms

    @abstractmethod
    def protocol_line(self, protocol: Protocol, version: int | None = None) -> bytes: ...

    @abstractmethod
    def metadata_line(self, metadata: Metadata, *, totals: Head | None = None, version: int | None = None) -> bytes: ...

    def file_lines(self, files: FileBatch, version: int | None, timestamp: int | None) -> Iterator[bytes]:
        """Files of a snapshot."""
        for begin in range(0, files.num_files, FILES_AT_ONCE):
            yield from self._lines(files.between(begin, begin + FILES_AT_ONCE), version, timestamp)

    @abstractmethod
    def _lines(self, files: FileBatch, version: int | None, timestamp: int | None) -> Iterator[bytes]: ...

    @abstractmethod
    def change_line(self, action: FileAction, version: int, timestamp: int, *, partitioned: bool) -> bytes:
        """A file that a commit added or removed, or that holds changed rows."""

    def _removed(self, remove: Remove, *, partitioned: bool) -> tuple[Mapping[str, str | None], int]:
        """Its partition values and its size. Old writers say of a removed file no more than its path."""
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
                    "and the file cannot be looked at any more."
                ) from error
        return values or {}, size

    def response(self, version: int, body: Iterable[bytes], *, echoes: bool = True) -> Response:
        """`echoes`: whether this route knows of an endStreamAction at all."""
        echo = echoes and self._asked.capabilities.include_end_stream_action
        headers = {
            VERSION_HEADER: str(version),
            HEADER: f"responseformat={self.response_format}{';includeendstreamaction=true' if echo else ''}",
        }
        if self._asked.file_id_hash is not None:
            headers[FILE_ID_HASH_HEADER] = self._asked.file_id_hash
        return ndjson_response(body, headers=headers)

    def ended(self, body: PagedLines, *, due: bool, refresh_token: str | None = None) -> Iterator[bytes]:
        """The lines, and an endStreamAction after them if it is due: a client fails on one that it did not ask for."""
        next_page_token = yield from body
        if due or self._asked.capabilities.include_end_stream_action:
            yield lines.end_stream_line(
                refresh_token=refresh_token,
                next_page_token=next_page_token,
                min_url_expiration_timestamp=self._expires_at if self._observed.files_listed else None,
            )

    def _beside(self, totals: Head | None, version: int | None) -> dict[str, Any]:
        """What a metaData line says beyond the log's own action."""
        beside: dict[str, Any] = {} if version is None else {"version": version}
        if totals is not None:
            beside |= {"size": totals.size, "numFiles": totals.num_files, **directory_fields(self._table)}
        return beside

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


class ParquetAnswer(TableAnswer):
    """Plain files, for clients that know nothing of Delta."""

    response_format = PARQUET

    def protocol_line(self, protocol: Protocol, version: int | None = None) -> bytes:  # noqa: ARG002
        return lines.PARQUET_PROTOCOL_LINE

    def metadata_line(self, metadata: Metadata, *, totals: Head | None = None, version: int | None = None) -> bytes:
        changes_shared = self._table.history_shared and metadata.configuration.get(CHANGE_FEED_PROPERTY) == "true"
        return lines.parquet_metadata_line(
            _metadata_action(metadata),
            configuration={"enableChangeDataFeed": "true"} if changes_shared else {},
            beside=self._beside(totals, version),
        )

    def _lines(self, files: FileBatch, version: int | None, timestamp: int | None) -> Iterator[bytes]:
        urls, ids = self._urls(files.paths), self._ids(files.paths)
        return files.lines(PARQUET_FIELDS, partial(self._framed, "file", urls, ids, version, timestamp))

    def change_line(self, action: FileAction, version: int, timestamp: int, *, partitioned: bool) -> bytes:
        if isinstance(action, Remove):
            kind, stats = "remove", None
            values, size = self._removed(action, partitioned=partitioned)
        else:
            kind, stats = ("cdf", None) if isinstance(action, Cdc) else ("add", action.stats)
            values, size = action.partition_values, action.size
        fields = {"partitionValues": [values], "size": [size], "stats": [stats]}
        urls, ids = self._urls([action.path]), self._ids([action.path])
        (line,) = lines.file_lines(self._framed(kind, urls, ids, version, timestamp, fields))
        return line

    def _framed(
        self,
        kind: str,
        urls: list[str],
        ids: list[str],
        version: int | None,
        timestamp: int | None,
        fields: lines.Layout,
    ) -> lines.Layout:
        expires_at = self._expires_at
        return lines.parquet_files(kind, urls, ids, fields, expires_at, version=version, timestamp=timestamp)


class DeltaAnswer(TableAnswer):
    """The log's own actions, with URLs for paths.

    Only features and properties have an order of ours, because writers put them in any: a version that is read from a
    checkpoint must give the same lines as from commits.
    """

    response_format = DELTA

    def protocol_line(self, protocol: Protocol, version: int | None = None) -> bytes:
        return lines.delta_protocol_line(
            protocol.min_reader_version,
            protocol.min_writer_version,
            sorted(protocol.reader_features),
            sorted(protocol.writer_features),
            version,
        )

    def metadata_line(self, metadata: Metadata, *, totals: Head | None = None, version: int | None = None) -> bytes:
        configuration = {
            name: value for name, value in sorted(metadata.configuration.items()) if not name.startswith(NOT_RELAYED)
        }
        action = _metadata_action(metadata) | {"configuration": configuration}
        return lines.delta_metadata_line(action, beside=self._beside(totals, version))

    def _lines(self, files: FileBatch, version: int | None, timestamp: int | None) -> Iterator[bytes]:
        urls, ids = self._urls(files.paths), self._ids(files.paths)
        framed = partial(self._framed, "add", urls, ids, files.deletion_vectors, version, timestamp)
        return files.lines(ADD_FIELDS, framed)

    def change_line(self, action: FileAction, version: int, timestamp: int, *, partitioned: bool) -> bytes:
        vectors: list[DeletionVector | None] = [None]
        if isinstance(action, Cdc):
            kind = "cdc"
            fields = {"partitionValues": action.partition_values, "size": action.size, "dataChange": False}
        elif isinstance(action, Add):
            kind, vectors = "add", [action.deletion_vector]
            fields = {"partitionValues": action.partition_values, "size": action.size, "dataChange": action.data_change}
            fields |= {"modificationTime": action.modification_time, "stats": action.stats}
        else:
            kind, vectors = "remove", [action.deletion_vector]
            values, size = self._removed(action, partitioned=partitioned)
            fields = {"partitionValues": values, "size": size, "dataChange": action.data_change}
            fields |= {"extendedFileMetadata": True, "deletionTimestamp": action.deletion_timestamp}
            fields |= {"stats": action.stats}
        columns = {name: [value] for name, value in (fields | dict(action.more or {})).items()}
        urls, ids = self._urls([action.path]), self._ids([action.path])
        (line,) = lines.file_lines(self._framed(kind, urls, ids, vectors, version, timestamp, columns))
        return line

    def _framed(
        self,
        kind: str,
        urls: list[str],
        ids: list[str],
        vectors: Sequence[DeletionVector | None],
        version: int | None,
        timestamp: int | None,
        fields: lines.Layout,
    ) -> lines.Layout:
        vector_ids = None
        if any(vectors):
            described, vector_ids = zip(*map(self._vector, vectors), strict=True)
            fields = {**fields, "deletionVector": described}
        expires_at = self._expires_at
        return lines.delta_files(kind, urls, ids, vector_ids, fields, expires_at, version=version, timestamp=timestamp)

    def _vector(self, vector: DeletionVector | None) -> tuple[dict[str, Any] | None, str | None]:
        """The descriptor as clients take it, inline or with the URL of a file, and that file's id."""
        if vector is None:
            return None, None
        storage_type, where, file_id = vector.storage_type, vector.path_or_inline_dv, None
        if storage_type != "i":
            (file_id,) = self._ids([where])
            bucket, key = self._paths.find_deletion_vector(vector)
            storage_type, (where,) = "p", self._signed(bucket, [key])
        descriptor = {
            "storageType": storage_type,
            "pathOrInlineDv": where,
            "sizeInBytes": vector.size_in_bytes,
            "cardinality": vector.cardinality,
        }
        if vector.offset is not None:
            descriptor["offset"] = vector.offset
        return descriptor, file_id


ANSWERS: dict[str, type[TableAnswer]] = {answer.response_format: answer for answer in (ParquetAnswer, DeltaAnswer)}


def _metadata_action(metadata: Metadata) -> dict[str, Any]:
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
