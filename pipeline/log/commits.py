"""The actions of commits, as rows that tell which of them is the newest: by version, and by the line in its commit.

A row is of a file (`add` or `remove`), or of the table (`protocol` or `metaData`): then `content` has it as JSON.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa

from core.delta.log import actions
from core.delta.log.commits import fetched
from core.delta.log.files import COMPACTION
from core.delta.snapshot import Remove
from core.storage.objects import ObjectInfo, ObjectReader
from pipeline.log.rows import BATCH_ROWS, FILE, batch_of, file_row, vector_row

ACTION = pa.schema(
    [("version", pa.int64()), ("line", pa.int32()), ("action", pa.string()), ("content", pa.string()), *FILE]
)
NO_FILE = (None,) * len(FILE)


def action_rows(reader: ObjectReader, commits: Sequence[ObjectInfo]) -> Iterator[pa.RecordBatch]:
    rows = _rows(reader, commits)
    while some := list(islice(rows, BATCH_ROWS)):
        yield batch_of(some, ACTION)


def _rows(reader: ObjectReader, commits: Sequence[ObjectInfo]) -> Iterator[Sequence[object]]:
    with fetched(reader.get, commits) as contents:
        for commit, content in zip(commits, contents, strict=True):
            yield from _commit_rows(_version(commit), content)


def _commit_rows(version: int, content: bytes) -> Iterator[Sequence[object]]:
    """What `core.delta` takes of a commit, after the checks that it makes."""
    found: dict[str, Any] = {}
    with actions.valid_actions():
        for line, action in enumerate(actions.json_actions(content)):
            if (added := action.get("add")) is not None:
                yield version, line, "add", None, *file_row(actions.add(added))
            elif (removed := action.get("remove")) is not None:
                yield version, line, "remove", None, *_removed_row(actions.remove(removed))
            else:
                actions.take_single(action, found)
        actions.optional(int, found.pop("commitInfo", {}).get("inCommitTimestamp"))
        for name, check in (("protocol", actions.protocol), ("metaData", actions.metadata)):
            if name in found:
                check(found[name])
                yield version, 0, name, orjson.dumps(found[name]).decode(), *NO_FILE


def _removed_row(remove: Remove) -> Sequence[object]:
    row = dict.fromkeys(FILE.names) | {"path": remove.path, "deletionVector": vector_row(remove.deletion_vector)}
    return list(row.values())


def _version(commit: ObjectInfo) -> int:
    """The last of those that were compacted, where it is not one commit."""
    name = commit.key.rpartition("/")[2]
    found = COMPACTION.fullmatch(name)
    return int(found[2] if found else name[:20])
