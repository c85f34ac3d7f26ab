"""Files as Arrow rows, in the form in which they are packed."""

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

import orjson
from arro3.core import DataType, Field, RecordBatch, Schema, Table
from arro3.io import read_json

from core.delta.log.file_schema import FILE_TYPES, VECTOR_TYPES
from core.delta.log.rows import FileRows
from core.delta.model import Add


class NotIndexableError(Exception):
    """The table cannot be indexed and is read from its log. The message says why."""


# Statistics from Parquet footers for files without statistics in the log. Only pruning uses them.
PRUNING_STATS = "pruningStats"


FIELDS: Mapping[str, DataType] = {**FILE_TYPES, PRUNING_STATS: DataType.string()}
SCHEMA = Schema([Field(name, kind, nullable=True) for name, kind in FIELDS.items()])


def rows_of(adds: Iterable[tuple[Add, str | None]]) -> RecordBatch:
    """The rows of files, each with its pruning statistics."""
    # Not as ASCII: Arrow misreads some pairs of escapes.
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
        "deletionVector": add.deletion_vector and dict(zip(VECTOR_TYPES, add.deletion_vector, strict=True)),
        **checked(add.more or {}),
        PRUNING_STATS: pruning_stats,
    }


def checked(more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the optional fields of a file. Raises an error for a value that Arrow would not return unchanged."""
    for name, value in more.items():
        if name == "tags":
            fits = type(value) is dict and all(text is None or type(text) is str for text in value.values())
        elif name == "clusteringProvider":
            fits = type(value) is str
        else:
            fits = type(value) is int and -(2**63) <= value < 2**63
        if not fits:
            raise NotIndexableError(f"The log has an invalid value for {name}.")
    return more


def files_in(rows: RecordBatch) -> FileRows:
    return FileRows({name: rows[name] for name in rows.schema.names}, {})
