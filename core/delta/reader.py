"""Reads a snapshot from the files of its log segment, with `deltalake` as the judge of the table.

The judge decides whether the log is valid. The files are read by us, because it does not hand out what must
be relayed as it was written: raw statistics, raw partition values, the schema's own text.
"""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from deltalake import DeltaTable

from core.delta.actions import checkpoint_actions, commit_actions
from core.delta.log import LogSegment
from core.delta.replay import Replay
from core.delta.snapshot import Snapshot
from core.errors import MalformedRequestError
from core.storage.session import StorageSession

PARALLEL_READS = 16


def read_snapshot(storage: StorageSession, segment: LogSegment, base: Snapshot | None = None) -> Snapshot:
    """The snapshot at the segment's end; `base`, if given, is the snapshot that the segment's commits follow.

    A base was judged when it was read, so the judge is asked again only if more than files has changed.
    """
    objects = storage.objects()
    replay = Replay(base)
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        verdict = None if base else pool.submit(judge, storage, segment.version)
        for part in segment.checkpoint:  # one at a time: parts exist because the whole is large
            replay.apply(checkpoint_actions(objects.get(part.key)))
        for commit in pool.map(objects.get, [commit.key for commit in segment.commits]):
            replay.apply(commit_actions(commit))
        snapshot = replay.snapshot(segment)
        if verdict:
            verdict.result()
    if base and (snapshot.protocol, snapshot.metadata) != (base.protocol, base.metadata):
        judge(storage, segment.version)
    return snapshot


def judge(storage: StorageSession, version: int | None = None) -> DeltaTable:
    """The table as deltalake opens it. A failure of S3 is no verdict: it surfaces as the OSError that it is."""
    location = storage.location
    try:
        return DeltaTable(
            f"s3://{location.bucket}/{quote(location.prefix)}",
            version=version,
            storage_options=storage.delta_options(),
        )
    except (OSError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # also a panic, which is no Exception; its text has paths, so it is for the log only
        raise MalformedRequestError(
            "The table's transaction log cannot be read: it is damaged, or needs what this server does not support."
        ) from error
