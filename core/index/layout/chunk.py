"""A chunk of the index: some thousand files, in sections that are packed each for itself.

A query unpacks the columns that its predicate names, as the JSON that statistics have. If it keeps any file, it unpacks
the files themselves, which are Parquet with the columns of a checkpoint: the code that writes the lines of one writes
theirs too, so they are the same.

    4 bytes    the length of the directory
    directory  {"files": number, "sections": {name: length, ...}}
    sections   in the directory's order
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
# Of ISA-L, for the JSON columns: a quarter of the time of zlib's first level, and a tenth smaller.
LEVEL = 1
COMPRESSION = "zstd(1)"
# In the place of a partition value that the log does not have. Values are texts or null.
NO_VALUE = 0

StatsPath = tuple[str, ...]


def pack_chunk(files: FileRows, columns: Columns, num_records: Sequence[JsonValue], fields: Sequence[Field]) -> bytes:
    """`columns`: what pruning is to know of the files; `fields`: those of them that get sections of their own."""
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
        """None if the column has no section; `stats` the same."""
        values = self._json(_partition_section(name))
        return values and [ABSENT if value == NO_VALUE else value for value in values]

    def stats(self, path: StatsPath) -> list[list[JsonValue]] | None:
        """Minima, maxima and null counts."""
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
    # Dictionaries and statistics are of no use to whoever reads all of it.
    write_parquet(batch, written, compression=COMPRESSION, dictionary_enabled=False, skip_arrow_metadata=True)
    return written.getvalue()


def _partition_section(name: str) -> str:
    return f"partition/{name}"


def _stats_section(path: StatsPath) -> str:
    return f"stats/{orjson.dumps(path).decode()}"


def _pack(value: Any) -> bytes:
    from isal import isal_zlib  # for builds: who reads does without

    try:
        return isal_zlib.compress(dumps(value), LEVEL)
    except RecursionError as error:
        raise NotIndexableError("The log has statistics that are nested too deeply.") from error
