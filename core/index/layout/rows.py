"""Files as Arrow rows: the columns of a checkpoint, and statistics for pruning."""

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

import orjson
from arro3.core import DataType, Field, RecordBatch, Schema, Table
from arro3.io import read_json

from core.delta.log.file_schema import FILE_TYPES, VECTOR_TYPES
from core.delta.log.rows import FileRows
from core.delta.model import Add

FileWithStats = tuple[Add, str | None]
"""A file and its `PRUNING_STATS`, if it has any."""


class NotIndexableError(Exception):
    """The table cannot be indexed and is read from its log. The message says why."""


# Statistics from Parquet footers for files without statistics in the log. Only pruning uses them.
PRUNING_STATS = "pruningStats"
FIELDS: Mapping[str, DataType] = {**FILE_TYPES, PRUNING_STATS: DataType.string()}
SCHEMA = Schema([Field(name, data_type, nullable=True) for name, data_type in FIELDS.items()])


def rows_of(files: Iterable[FileWithStats]) -> RecordBatch:
    return rows_from(lines_of(files))


def lines_of(files: Iterable[FileWithStats]) -> bytes:
    """Returns a line of JSON for each file, for `rows_from`."""
    # UTF-8 and not ASCII: Arrow's JSON reader misreads some pairs of escapes.
    return b"".join(orjson.dumps(_document(add, stats), option=orjson.OPT_APPEND_NEWLINE) for add, stats in files)


def rows_from(lines: bytes) -> RecordBatch:
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
        **checked_fields(add.extra_fields or {}),
        PRUNING_STATS: pruning_stats,
    }


def checked_fields(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the optional fields of a file. Raises an error for a value that Arrow would not return unchanged."""
    for name, value in fields.items():
        if name == "tags":
            fits = type(value) is dict and all(text is None or type(text) is str for text in value.values())
        elif name == "clusteringProvider":
            fits = type(value) is str
        else:
            fits = type(value) is int and -(2**63) <= value < 2**63
        if not fits:
            raise NotIndexableError(f"The log has an invalid value for {name}.")
    return fields


def files_in(rows: RecordBatch) -> FileRows:
    return FileRows({name: rows[name] for name in rows.schema.names}, {})
