"""Reads what the job itself needs from a log: the log segment, and the protocol, metadata and timestamp of a snapshot.

The workers read the files. The job reads only the footers of a checkpoint and its few rows of other actions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from core.delta.features import check_readable
from core.delta.history import check_version
from core.delta.log.actions import TableAction
from core.delta.log.commits import in_commit_timestamp
from core.delta.log.damage import log_file
from core.delta.log.listing import latest_log, whole_log
from core.delta.log.replay import IN_COMMIT_TIMESTAMPS, require_protocol_and_metadata
from core.delta.log.segment import LogSegment
from core.delta.model import Metadata, Protocol
from core.storage.objects import TableObjects
from pipeline.log.checkpoint import table_actions


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A snapshot without its files."""

    version: int
    timestamp: int
    """When the version was committed, in milliseconds since 1970."""
    protocol: Protocol
    metadata: Metadata
    segment: LogSegment
    checkpoint_bytes: int
    """Including sidecars."""


def segment_of(table: TableObjects, version: int | None = None) -> LogSegment:
    """Returns the log segment of a version, by default the latest."""
    log = latest_log(table.objects, table.location)
    log.check_complete()
    if version is None:
        return log.segment(log.version)
    if not log.reaches(version):
        log = whole_log(table.objects, table.location)
    check_version(log, version)
    return log.segment(version)


def snapshot_info(table: TableObjects, segment: LogSegment, newest: Mapping[str, str]) -> SnapshotInfo:
    """`newest`: the newest `protocol` and `metaData` in the segment's commits as `ACTION` has them, if any."""
    found = table_actions(table.objects, segment.checkpoint)
    sidecars = found.sidecar_files(table.location)
    for content in newest.values():
        found.put(TableAction(*orjson.loads(content)))
    protocol, metadata = require_protocol_and_metadata(found.protocol, found.metadata)
    check_readable(protocol, metadata)
    commit_time = _in_commit_timestamp(table, segment, metadata)
    return SnapshotInfo(
        version=segment.version,
        timestamp=segment.timestamp if commit_time is None else commit_time,
        protocol=protocol,
        metadata=metadata,
        segment=segment,
        checkpoint_bytes=sum(file.size for file in (*segment.checkpoint, *sidecars)),
    )


def _in_commit_timestamp(table: TableObjects, segment: LogSegment, metadata: Metadata) -> int | None:
    """Returns the in-commit timestamp of the version, in the cases in which `core.delta` reads it."""
    enabled = metadata.configuration.get(IN_COMMIT_TIMESTAMPS) == "true"
    if segment.tip in segment.checkpoint or not (enabled or segment.commits):
        return None
    return in_commit_timestamp(table.objects.get(segment.tip.key, segment.tip.etag), log_file(segment.tip.key))
