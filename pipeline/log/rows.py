"""The columns of a file, and the way into them for files that are Python objects.

Most are a checkpoint's and come as Arrow. What commits say, and a checkpoint that is written unusually, `core.delta`
reads, and it takes this way.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import orjson
import pyarrow as pa

from core.delta.snapshot import Add, DeletionVector

BATCH_ROWS = 8192

VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
FILE = pa.schema(
    {
        "path": pa.string(),
        "partitionValues": pa.map_(pa.string(), pa.string()),
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "stats": pa.string(),
        "deletionVector": VECTOR,
        "more": pa.string(),
    }
)
"""As the log has them; `more` is JSON of what few tables have."""


def file_batches(adds: Iterable[Add]) -> Iterator[pa.RecordBatch]:
    remaining = map(file_row, adds)
    while rows := list(islice(remaining, BATCH_ROWS)):
        yield batch_of(rows, FILE)


def file_row(add: Add) -> Sequence[object]:
    return (
        add.path,
        list(add.partition_values.items()),
        add.size,
        add.modification_time,
        add.data_change,
        add.stats,
        vector_row(add.deletion_vector),
        add.more and orjson.dumps(add.more).decode(),
    )


def vector_row(vector: DeletionVector | None) -> dict[str, object] | None:
    return vector and dict(zip((field.name for field in VECTOR), vector, strict=True))


def batch_of(rows: Sequence[Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )
