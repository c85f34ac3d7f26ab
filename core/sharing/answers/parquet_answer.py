"""Answers in parquet format: plain Parquet files, for clients without support for Delta."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.api.lines import PARQUET_PROTOCOL_LINE, parquet_metadata_line
from core.api.requests.capabilities import PARQUET
from core.delta.features import CHANGE_FEED_PROPERTY
from core.delta.log.batch import FileBatch
from core.delta.model import Cdc, FileAction, Metadata, Protocol, Remove
from core.delta.snapshot import SnapshotSummary
from core.sharing.answers.file_lines import FramedFiles, file_lines, parquet_files
from core.sharing.answers.table_answer import TableAnswer, metadata_action

FIELDS = ("partitionValues", "size", "stats")


class ParquetAnswer(TableAnswer):
    response_format = PARQUET

    def protocol_line(self, protocol: Protocol, version: int | None = None) -> bytes:  # noqa: ARG002
        return PARQUET_PROTOCOL_LINE

    def metadata_line(
        self, metadata: Metadata, *, totals: SnapshotSummary | None = None, version: int | None = None
    ) -> bytes:
        changes_shared = self._table.history_shared and metadata.configuration.get(CHANGE_FEED_PROPERTY) == "true"
        return parquet_metadata_line(
            metadata_action(metadata),
            configuration={"enableChangeDataFeed": "true"} if changes_shared else {},
            extra=self._extra_fields(totals, version),
        )

    def _framed(self, files: FileBatch, version: int | None, timestamp: int | None) -> FramedFiles:
        return self._frame("file", files.paths, files.add_fields(FIELDS), version, timestamp)

    def change_line(self, action: FileAction, version: int, timestamp: int, *, partitioned: bool) -> bytes:
        if isinstance(action, Remove):
            kind, stats = "remove", None
            values, size = self._removed(action, partitioned=partitioned)
        else:
            kind, stats = ("cdf", None) if isinstance(action, Cdc) else ("add", action.stats)
            values, size = action.partition_values, action.size
        fields = {"partitionValues": [values], "size": [size], "stats": [stats]}
        (line,) = file_lines(self._frame(kind, [action.path], fields, version, timestamp), 1)
        return line

    def _frame(
        self, kind: str, paths: Sequence[str], fields: Mapping[str, Any], version: int | None, timestamp: int | None
    ) -> FramedFiles:
        urls, ids, expires_at = self._urls(paths), self._ids(paths), self._expires_at
        return parquet_files(kind, urls, ids, self._fitting(fields), expires_at, version=version, timestamp=timestamp)
