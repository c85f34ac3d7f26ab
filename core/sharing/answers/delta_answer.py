"""Answers in delta format: the actions of the log, with URLs in place of paths.

Features and properties are sorted. Their order may differ between a checkpoint and commits, and a version must have the
same lines in either case.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from core.api.lines import delta_metadata_line, delta_protocol_line
from core.api.requests.capabilities import DELTA
from core.delta.log.actions import EXTRA_FIELDS
from core.delta.log.batch import FileBatch
from core.delta.model import Add, Cdc, DeletionVector, FileAction, Metadata, Protocol
from core.delta.snapshot import SnapshotSummary
from core.sharing.answers.file_lines import FramedFiles, delta_files, file_lines
from core.sharing.answers.table_answer import TableAnswer, metadata_action

FIELDS = ("partitionValues", "size", "dataChange", "modificationTime", "stats", *EXTRA_FIELDS)
# These properties make a reader look for timestamps in commits. Clients get a timestamp per file instead of commits.
NOT_RELAYED = ("delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablement")


class DeltaAnswer(TableAnswer):
    response_format = DELTA

    def protocol_line(self, protocol: Protocol, version: int | None = None) -> bytes:
        return delta_protocol_line(
            protocol.min_reader_version,
            protocol.min_writer_version,
            sorted(protocol.reader_features),
            sorted(protocol.writer_features),
            version,
        )

    def metadata_line(
        self, metadata: Metadata, *, totals: SnapshotSummary | None = None, version: int | None = None
    ) -> bytes:
        configuration = {
            name: value for name, value in sorted(metadata.configuration.items()) if not name.startswith(NOT_RELAYED)
        }
        action = metadata_action(metadata) | {"configuration": configuration}
        return delta_metadata_line(action, extra=self._extra_fields(totals, version))

    def _framed(self, files: FileBatch, version: int | None, timestamp: int | None) -> FramedFiles:
        fields = files.add_fields(FIELDS)
        return self._frame("add", files.paths, fields, files.deletion_vectors, version, timestamp)

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
        columns = {name: [value] for name, value in (fields | dict(action.extra_fields or {})).items()}
        (line,) = file_lines(self._frame(kind, [action.path], columns, vectors, version, timestamp), 1)
        return line

    def _frame(
        self,
        kind: str,
        paths: Sequence[str],
        fields: Mapping[str, Any],
        vectors: Sequence[DeletionVector | None],
        version: int | None,
        timestamp: int | None,
    ) -> FramedFiles:
        urls, ids, vector_ids, expires_at = self._urls(paths), self._ids(paths), None, self._expires_at
        if any(vectors):
            descriptors, vector_ids = zip(*map(self._vector, vectors), strict=True)
            fields = {**fields, "deletionVector": descriptors}
        return delta_files(
            kind, urls, ids, vector_ids, self._fitting(fields), expires_at, version=version, timestamp=timestamp
        )

    def _vector(self, vector: DeletionVector | None) -> tuple[dict[str, Any] | None, str | None]:
        """Returns the descriptor for clients, and the id of the file that contains the vector unless it is inline."""
        if vector is None:
            return None, None
        storage_type, path_or_inline, file_id = vector.storage_type, vector.path_or_inline_dv, None
        if storage_type != "i":
            (file_id,) = self._ids([path_or_inline])
            bucket, key = self._paths.find_deletion_vector(vector)
            storage_type, (path_or_inline,) = "p", self._signed(bucket, [key])
        descriptor = {
            "storageType": storage_type,
            "pathOrInlineDv": path_or_inline,
            "sizeInBytes": vector.size_in_bytes,
            "cardinality": vector.cardinality,
        }
        if vector.offset is not None:
            descriptor["offset"] = vector.offset
        return descriptor, file_id
