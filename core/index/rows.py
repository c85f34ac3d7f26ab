"""Files as rows of arrow, in the one form in which they are packed."""

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

import orjson
from arro3.core import DataType, Field, RecordBatch, Schema, Table
from arro3.io import read_json

from core.delta.log.rows import FileRows
from core.delta.snapshot import Add


class NotIndexableError(Exception):
    """A table that has no index, and is read from its log. The message says why."""


# Statistics that the log does not have, made from the files themselves. Only pruning knows them.
PRUNING_STATS = "pruningStats"


def _texts_by_name() -> DataType:
    key, value = Field("key", DataType.string(), nullable=False), Field("value", DataType.string(), nullable=True)
    return DataType.map(key, value, keys_sorted=False)


VECTOR = {
    "storageType": DataType.string(),
    "pathOrInlineDv": DataType.string(),
    "offset": DataType.int64(),
    "sizeInBytes": DataType.int64(),
    "cardinality": DataType.int64(),
}
FIELDS: Mapping[str, DataType] = {
    "path": DataType.string(),
    "partitionValues": _texts_by_name(),
    "size": DataType.int64(),
    "modificationTime": DataType.int64(),
    "dataChange": DataType.bool(),
    "stats": DataType.string(),
    "deletionVector": DataType.struct([Field(name, kind, nullable=True) for name, kind in VECTOR.items()]),
    "tags": _texts_by_name(),
    "baseRowId": DataType.int64(),
    "defaultRowCommitVersion": DataType.int64(),
    "clusteringProvider": DataType.string(),
    PRUNING_STATS: DataType.string(),
}
SCHEMA = Schema([Field(name, kind, nullable=True) for name, kind in FIELDS.items()])


def rows_of(adds: Iterable[tuple[Add, str | None]]) -> RecordBatch:
    """Of files, each with the statistics that only pruning knows."""
    # Not as ASCII: arrow takes some pairs of escapes for other characters.
    lines = b"".join(orjson.dumps(_document(add, stats), option=orjson.OPT_APPEND_NEWLINE) for add, stats in adds)
    batches = read_json(BytesIO(lines), SCHEMA, batch_size=max(lines.count(b"\n"), 1)).read_all().to_batches()
    return Table.from_batches(batches, schema=SCHEMA).combine_chunks().to_batches()[0]


def _document(add: Add, pruning_stats: str | None) -> dict[str, Any]:
    return {
        "path": add.path,
        "partitionValues": add.partition_values,
        "size": add.size,
        "modificationTime": add.modification_time,
        "dataChange": add.data_change,
        "stats": add.stats,
        "deletionVector": add.deletion_vector and dict(zip(VECTOR, add.deletion_vector, strict=True)),
        **checked(add.more or {}),
        PRUNING_STATS: pruning_stats,
    }


def checked(more: Mapping[str, Any]) -> Mapping[str, Any]:
    """What few tables have. It is relayed as it stands, so it must come back as it is."""
    for name, value in more.items():
        if name == "tags":
            fits = type(value) is dict and all(text is None or type(text) is str for text in value.values())
        elif name == "clusteringProvider":
            fits = type(value) is str
        else:
            fits = type(value) is int and -(2**63) <= value < 2**63
        if not fits:
            raise NotIndexableError(f"The log has a value for {name} that is none.")
    return more


def files_in(rows: RecordBatch) -> FileRows:
    return FileRows({name: rows[name] for name in rows.schema.names}, {})
