"""A chunk of the index: a few hundred to a few thousand files, in sections that are compressed separately.

A query decompresses the sections of the columns in its predicate: partition values and statistics, as JSON. Only if it
keeps a file does it read the section of the files, which is Parquet with the columns of a checkpoint. The same code
turns both into lines, so answers do not depend on the index.

    4 bytes    length of the directory
    directory  {"files": number of files, "sections": {name: length, ...}}
    sections   in the order of the directory
"""

import zlib
from collections.abc import Sequence
from functools import cached_property
from io import BytesIO
from typing import Any, cast

import orjson
from arro3.core import RecordBatch
from arro3.io import read_parquet, write_parquet

from core.api.json import dumps
from core.delta.index import UnusableIndexError
from core.delta.log.rows import FileRows
from core.index.layout.rows import NotIndexableError
from core.pruning.columns import ABSENT, Absent, Columns, JsonValue
from core.pruning.schema import Field

LENGTH_BYTES = 4
# For JSON sections. ISA-L's level 1 takes a quarter of the time of zlib's level 1, and its output is a tenth smaller.
ISAL_LEVEL = 1
PARQUET_COMPRESSION = "zstd(1)"
# Replaces a partition value that is missing from the log. Other values are strings or null.
NO_VALUE = 0

StatsPath = tuple[str, ...]


def pack_chunk(files: FileRows, columns: Columns, num_records: Sequence[JsonValue], fields: Sequence[Field]) -> bytes:
    """`columns` has the partition values and statistics for pruning. Each column in `fields` gets its own section."""
    sections = {"files": _parquet(files), "rows": _pack(num_records)}
    for field in fields:
        if field.in_partitions:
            (name,) = field.path
            values = [NO_VALUE if value is ABSENT else value for value in columns.partition(name)]
            sections[_partition_section(name)] = _pack(values)
        else:
            path = field.path
            sections[_stats_section(path)] = _pack(
                [columns.minimum(path), columns.maximum(path), columns.null_count(path)]
            )
    directory = dumps({"files": len(columns), "sections": {name: len(part) for name, part in sections.items()}})
    return b"".join([len(directory).to_bytes(LENGTH_BYTES), directory, *sections.values()])


class Chunk:
    def __init__(self, content: bytes) -> None:
        try:
            begin = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES])
            directory = orjson.loads(content[LENGTH_BYTES:begin])
            self.size: int = directory["files"]
            self._sections: dict[str, tuple[int, int]] = {}
            for name, length in directory["sections"].items():
                self._sections[name] = begin, begin + length
                begin += length
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnusableIndexError("a chunk is damaged") from error
        if begin != len(content):
            raise UnusableIndexError("a chunk is damaged")
        self._content = memoryview(content)

    @cached_property
    def files(self) -> FileRows:
        begin, end = self._sections["files"]
        (batch,) = read_parquet(bytes(self._content[begin:end]), batch_size=self.size)
        return FileRows({name: batch[name] for name in batch.schema.names}, {})

    @cached_property
    def num_records(self) -> list[JsonValue]:
        return cast("list[JsonValue]", self._json("rows"))

    def partition(self, name: str) -> list[str | Absent | None] | None:
        """The column's partition values; None if it has no section."""
        values = self._json(_partition_section(name))
        return values and [ABSENT if value == NO_VALUE else value for value in values]

    def stats(self, path: StatsPath) -> list[list[JsonValue]] | None:
        """The column's minima, maxima and null counts; None if it has no section."""
        return cast("list[list[JsonValue]] | None", self._json(_stats_section(path)))

    def _json(self, section: str) -> Any:
        if section not in self._sections:
            return None
        begin, end = self._sections[section]
        return orjson.loads(zlib.decompress(self._content[begin:end]))


def _parquet(files: FileRows) -> bytes:
    written = BytesIO()
    fields = files.fields
    batch = RecordBatch.from_arrays(list(fields.values()), names=list(fields))
    # Every column is read whole, so dictionaries and the Arrow schema would only add bytes.
    write_parquet(batch, written, compression=PARQUET_COMPRESSION, dictionary_enabled=False, skip_arrow_metadata=True)
    return written.getvalue()


def _partition_section(name: str) -> str:
    return f"partition/{name}"


def _stats_section(path: StatsPath) -> str:
    return f"stats/{orjson.dumps(path).decode()}"


def _pack(value: Any) -> bytes:
    from isal import isal_zlib  # imported late: readers do not need it

    try:
        return isal_zlib.compress(dumps(value), ISAL_LEVEL)
    except RecursionError as error:
        raise NotIndexableError("The log has statistics that are nested too deeply.") from error
