"""The actions in the files of a log, as the log's own JSON objects.

A commit is a line of JSON per action. A checkpoint holds the same actions as rows of Parquet: arro3 turns
each batch of rows into such lines, so that one replay serves both and no more than a batch is held decoded.
"""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import orjson
from arro3.core import Array, DataType, RecordBatch
from arro3.io import read_parquet, write_ndjson

from core.errors import MalformedRequestError

Action = dict[str, Any]

# A checkpoint's add also has parsed statistics, tags and more, which cost most of its size.
ADD_FIELDS = ("path", "partitionValues", "size", "modificationTime", "stats")
BATCH_ROWS = 8192


def commit_actions(commit: bytes) -> Iterator[Action]:
    for line in commit.splitlines():
        if line.strip():
            yield orjson.loads(line)


def checkpoint_actions(checkpoint: bytes) -> Iterator[Action]:
    try:
        for batch in read_parquet(checkpoint, batch_size=BATCH_ROWS):
            yield from _actions(batch)
    except (GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # arro3 panics on a damaged file, and a panic is no Exception
        raise MalformedRequestError("A checkpoint of the table's transaction log is damaged.") from problem


def _actions(batch: RecordBatch) -> Iterator[Action]:
    names = [name for name in ("protocol", "metaData", "add") if name in batch.schema.names]
    columns = [_narrow(batch[name]) if name == "add" else batch[name] for name in names]
    lines = BytesIO()
    # Nulls are written out because a partition value may be one.
    write_ndjson(RecordBatch.from_arrays(columns, names=names), lines, explicit_nulls=True)
    yield from commit_actions(lines.getvalue())


def _narrow(adds: Array) -> Array:
    return adds.cast(DataType.struct([field for field in adds.type.fields if field.name in ADD_FIELDS]))
