"""Reads the actions of commits as rows. Their version and line show which action on a file is the newest.

A row holds an action on a file (`add` or `remove`) or on the table (`protocol` or `metaData`). The latter is not yet
checked, because a later commit may replace it: `content` is its `TableAction` as JSON.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import orjson
import pyarrow as pa

from core.delta.log import actions
from core.delta.log.commits import fetched
from core.delta.log.damage import log_file, valid_actions
from core.delta.log.listing import COMPACTION
from core.delta.log.segment import Compacted, NotReconciledError, replaced_commits
from core.delta.model import Add, FileKey, Remove, file_key
from core.storage.objects import ObjectInfo, ObjectReader
from pipeline.log.rows import BATCH_ROWS, IDENTIFIED_FILE, batch_of, file_row, vector_row

ACTION = pa.schema(
    [
        ("version", pa.int64()),
        ("line", pa.int32()),
        ("action", pa.string()),
        ("content", pa.string()),
        *IDENTIFIED_FILE,
    ]
)
NO_FILE = (None,) * len(IDENTIFIED_FILE)


def action_rows(reader: ObjectReader, commits: Sequence[ObjectInfo], compacted: Compacted) -> Iterator[pa.RecordBatch]:
    """`compacted`: the commits that the compacted log files among `commits` replace."""
    rows = _rows(reader, commits, compacted)
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch_of(batch, ACTION)


def _rows(reader: ObjectReader, commits: Sequence[ObjectInfo], compacted: Compacted) -> Iterator[Sequence[object]]:
    with fetched(reader.get, commits) as contents:
        for commit, content in zip(commits, contents, strict=True):
            rows = _commit_rows(commit, content, is_compacted=commit.key in compacted)
            if commit.key in compacted:
                try:
                    rows = iter(list(rows))  # whole, because its last line may show that it is not reconciled
                except NotReconciledError:
                    rows = _rows(reader, replaced_commits(compacted, commit), {})
            yield from rows


def _commit_rows(commit: ObjectInfo, content: bytes, *, is_compacted: bool) -> Iterator[Sequence[object]]:
    """Yields the actions that `core.delta` replays, after the same checks of files."""
    version = _version(commit)
    found: dict[str, actions.TableAction] = {}
    keys: set[FileKey] = set()
    with valid_actions(log_file(commit.key)) as at:
        for action in actions.json_actions(content, at):
            file: Add | Remove | None = None
            if (added := action.get("add")) is not None:
                file = add = actions.add(added)
                yield version, at.line, "add", None, *_added_row(add)
            elif (removed := action.get("remove")) is not None:
                file = remove = actions.remove(removed)
                yield version, at.line, "remove", None, *_removed_row(remove)
            else:
                actions.take_single(action, found, at)
            if is_compacted and file:
                if file_key(file) in keys:
                    raise NotReconciledError
                keys.add(file_key(file))
    if is_compacted and any(action.is_ambiguous for action in found.values()):
        raise NotReconciledError
    actions.in_commit_timestamp_of(found.pop("commitInfo", None))
    for name, table_action in found.items():
        yield version, 0, name, orjson.dumps([*table_action]).decode(), *NO_FILE


def _added_row(add: Add) -> Sequence[object]:
    return (add.deletion_vector and add.deletion_vector.unique_id, *file_row(add))


def _removed_row(remove: Remove) -> Sequence[object]:
    vector = remove.deletion_vector
    row = {"vectorId": vector and vector.unique_id, "path": remove.path, "deletionVector": vector_row(vector)}
    return [row.get(name) for name in IDENTIFIED_FILE.names]


def _version(commit: ObjectInfo) -> int:
    """Returns the version of a commit, or the last version of a compacted log file."""
    name = commit.key.rpartition("/")[2]
    found = COMPACTION.fullmatch(name)
    return int(found[2] if found else name[:20])
