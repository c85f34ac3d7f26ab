"""Writes the lines of files: the fields of the files by column, framed for a response format, become NDJSON.

Data flows in one direction. A `FileBatch` returns the fields of its files, `parquet_files` or `delta_files` frames
them, and `file_lines` writes the framed columns. Only `file_lines` decides which library writes:

- Arrow, if it writes the same bytes as orjson. This takes half the time.
- orjson, line by line, in all other cases: fields from commits, missing values, unusual types, deletion vectors and
  non-ASCII characters.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import repeat
from typing import Any, TypeAlias

from arro3.core import Array, DataType, RecordBatch
from arro3.io import write_ndjson

from core.api.json import dump_line
from core.api.statistics import reduced_statistics
from core.delta.log.batch import ArrowField
from core.delta.log.rows import is_text_map

FramedFiles: TypeAlias = Mapping[str, Any]
"""Files by column. A column is a sequence with one value per file, one number for all files, or nested columns.
Lines omit values that are None."""

# Fields of the log, each with a check for the type that Arrow writes in the same way as orjson.
ARROW_TYPES: dict[str, Callable[[DataType], bool]] = {
    "partitionValues": is_text_map,
    "size": DataType.is_int64,
    "modificationTime": DataType.is_int64,
    "dataChange": DataType.is_boolean,
    "stats": DataType.is_string,
    "tags": is_text_map,
    "baseRowId": DataType.is_int64,
    "defaultRowCommitVersion": DataType.is_int64,
    "clusteringProvider": DataType.is_string,
}
# Columns of strings that the frames add. They have a value for every file.
FRAME_TEXTS = frozenset({"url", "path", "id"})


def parquet_files(
    kind: str,
    urls: Sequence[str],
    ids: Sequence[str],
    fields: Mapping[str, Any],
    expiration_timestamp: int,
    *,
    version: int | None = None,
    timestamp: int | None = None,
) -> FramedFiles:
    """Frames files in parquet format. `kind` is `file` in a snapshot, and `add`, `remove` or `cdf` among changes."""
    file = {"url": urls, "id": ids, **fields, "expirationTimestamp": expiration_timestamp}
    return {kind: {**file, "version": version, "timestamp": timestamp}}


def delta_files(
    kind: str,
    urls: Sequence[str],
    ids: Sequence[str],
    deletion_vector_file_ids: Sequence[str | None] | None,
    fields: Mapping[str, Any],
    expiration_timestamp: int,
    *,
    version: int | None = None,
    timestamp: int | None = None,
) -> FramedFiles:
    """Frames files in delta format. `kind` is the name of the log's action: `add`, `remove` or `cdc`."""
    return {
        "file": {
            "id": ids,
            "deletionVectorFileId": deletion_vector_file_ids,
            "version": version,
            "timestamp": timestamp,
            "expirationTimestamp": expiration_timestamp,
            "deltaSingleAction": {kind: {"path": urls, **fields}},
        }
    }


def with_reduced_stats(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replaces the statistics of files with their number of records."""
    stats = fields.get("stats")
    if stats is None:
        return fields
    if not isinstance(stats, ArrowField):
        return {**fields, "stats": list(map(reduced_statistics, stats))}
    reduced = list(map(reduced_statistics, stats.read()))
    return {**fields, "stats": ArrowField(Array(reduced, type=DataType.string()), lambda: reduced)}


def file_lines(files: FramedFiles, num_files: int) -> Iterator[bytes]:
    """Yields the lines of the files in order: all at once if Arrow writes them, one by one otherwise."""
    if _arrow_writes(files):
        lines = BytesIO()
        write_ndjson(_record_batch(files, num_files), lines, explicit_nulls=True)
        content = lines.getvalue()
        if content.isascii():  # lines must be ASCII, but Arrow does not escape other characters
            yield content
            return
    yield from map(dump_line, _documents(files))


def num_lines(lines: bytes, num_files: int) -> int:
    """Returns the number of lines in a block of `file_lines`: one or all. Counting them would take much longer."""
    return 1 if lines.index(b"\n") == len(lines) - 1 else num_files


def _arrow_writes(columns: FramedFiles) -> bool:
    return all(_arrow_writes_column(name, values) for name, values in columns.items() if values is not None)


def _arrow_writes_column(name: str, values: Any) -> bool:
    if isinstance(values, ArrowField):
        # Null partition values need `explicit_nulls`, which would also write missing fields as null.
        return values.array.null_count == 0 and ARROW_TYPES[name](values.array.type)
    if isinstance(values, Mapping):
        return _arrow_writes(values)
    return isinstance(values, int) or name in FRAME_TEXTS


def _record_batch(columns: FramedFiles, num_files: int) -> RecordBatch:
    present = {name: values for name, values in columns.items() if values is not None}
    return RecordBatch.from_arrays([_array(values, num_files) for values in present.values()], names=list(present))


def _array(values: Any, num_files: int) -> Array:
    if isinstance(values, ArrowField):
        return values.array
    if isinstance(values, Mapping):
        return _record_batch(values, num_files).to_struct_array()
    if isinstance(values, int):
        return Array([values] * num_files, type=DataType.int64())
    return Array(values, type=DataType.string())


def _documents(columns: FramedFiles) -> Iterator[dict[str, Any]]:
    names, values = list(columns), [_values(each) for each in columns.values()]
    for row in zip(*values, strict=False):
        yield {name: value for name, value in zip(names, row, strict=True) if value is not None}


def _values(values: Any) -> Iterable[Any]:
    if isinstance(values, ArrowField):
        return values.read()
    if isinstance(values, Mapping):
        return _documents(values)
    return repeat(values) if values is None or isinstance(values, int) else values
