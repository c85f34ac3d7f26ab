"""What the job itself reads of a log: which files it consists of, and all that it says but the files of the table.

Of a checkpoint that is its footers and the few rows that are no files, whatever its size.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from core.delta.features import check_readable
from core.delta.history import check_version
from core.delta.log import actions
from core.delta.log.commits import in_commit_timestamp
from core.delta.log.files import LogSegment, latest_log, whole_log
from core.delta.log.replay import IN_COMMIT_TIMESTAMPS
from core.delta.snapshot import Metadata, Protocol
from core.errors import MalformedRequestError
from pipeline.log.checkpoint import read_top
from pipeline.storage import TableObjects


@dataclass(frozen=True, slots=True)
class Top:
    """All that is said of a version but its files."""

    version: int
    timestamp: int
    """When it was committed, in milliseconds since 1970."""
    protocol: Protocol
    metadata: Metadata
    segment: LogSegment
    checkpoint_bytes: int
    """With its sidecars."""


def segment_of(table: TableObjects, version: int | None = None) -> LogSegment:
    """That of a version, by default of the latest."""
    log = latest_log(table.objects, table.location)
    log.check_complete()
    if version is None:
        return log.segment(log.version)
    if not log.reaches(version):
        log = whole_log(table.objects, table.location)
    check_version(log, version)
    return log.segment(version)


def top_of(table: TableObjects, segment: LogSegment, newest: Mapping[str, str]) -> Top:
    """`newest`: the last `protocol` and `metaData` of the segment's commits, as JSON, if they have any."""
    of_checkpoint = read_top(table.objects, segment.checkpoint)
    protocol, metadata = of_checkpoint.protocol, of_checkpoint.metadata
    if "protocol" in newest:
        protocol = actions.protocol(orjson.loads(newest["protocol"]))
    if "metaData" in newest:
        metadata = actions.metadata(orjson.loads(newest["metaData"]))
    if protocol is None:
        raise MalformedRequestError("The table's transaction log has no protocol.")
    if metadata is None:
        raise MalformedRequestError("The table's transaction log has no metadata.")
    check_readable(protocol, metadata)
    stated_time = _stated_time(table, segment, metadata)
    return Top(
        version=segment.version,
        timestamp=segment.timestamp if stated_time is None else stated_time,
        protocol=protocol,
        metadata=metadata,
        segment=segment,
        checkpoint_bytes=sum(part.size for part in segment.checkpoint)
        + sum(size for _, size in of_checkpoint.sidecars),
    )


def _stated_time(table: TableObjects, segment: LogSegment, metadata: Metadata) -> int | None:
    """The time that the version's own commit states, where `core.delta` looks for one."""
    enabled = metadata.configuration.get(IN_COMMIT_TIMESTAMPS) == "true"
    if segment.tip in segment.checkpoint or not (enabled or segment.commits):
        return None
    return in_commit_timestamp(table.objects.get(segment.tip.key, segment.tip.etag))
