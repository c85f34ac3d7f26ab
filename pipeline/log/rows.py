"""The Arrow schema of a file, and the conversion from Python objects to it.

Most files come from a checkpoint and are already Arrow. Files of commits, and of checkpoints in an unusual form, are
parsed by `core.delta` and converted here.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa

from core.delta.log.actions import EXTRA_FIELDS
from core.delta.log.file_schema import FILE_SCHEMA, VECTOR_TYPES
from core.delta.model import Add, DeletionVector, vector_id
from core.index.layout.rows import checked_fields

BATCH_ROWS = 8192

FILE = pa.schema(FILE_SCHEMA)
# The path and the id of the deletion vector identify a file. The id is null for a file without a vector.
VECTOR_ID = pa.field("vectorId", pa.string())
IDENTIFIED_FILE = pa.schema([VECTOR_ID, *FILE])


def file_batches(adds: Iterable[Add]) -> Iterator[pa.RecordBatch]:
    remaining = map(file_row, adds)
    while rows := list(islice(remaining, BATCH_ROWS)):
        yield batch_of(rows, FILE)


def file_row(add: Add) -> Sequence[object]:
    extra = dict(checked_fields(add.extra_fields or {}))
    if "tags" in extra:
        extra["tags"] = list(extra["tags"].items())
    return (
        add.path,
        list(add.partition_values.items()),
        add.size,
        add.modification_time,
        add.data_change,
        add.stats,
        vector_row(add.deletion_vector),
        *map(extra.get, EXTRA_FIELDS),
    )


def vector_row(vector: DeletionVector | None) -> dict[str, object] | None:
    return vector and dict(zip(VECTOR_TYPES, vector, strict=True))


def with_vector_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts a batch from the schema `FILE` to `IDENTIFIED_FILE`."""
    ids = pa.array(vector_ids(batch.column("deletionVector")), VECTOR_ID.type)
    return pa.RecordBatch.from_arrays([ids, *batch.columns], schema=IDENTIFIED_FILE)


def vector_ids(vectors: pa.Array) -> list[str | None]:
    if vectors.null_count == len(vectors):
        return [None] * len(vectors)
    return [
        vector and vector_id(vector["storageType"], vector["pathOrInlineDv"], vector["offset"])
        for vector in vectors.to_pylist()
    ]


def batch_of(rows: Sequence[Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )
