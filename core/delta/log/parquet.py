"""A Parquet file of a checkpoint, read in batches of rows: all of it, some columns, or from a row group on.

arro3 reads whole files only. It is given the file with another footer at its end, which exists only in memory, so that
concurrent requests can read the same file in different ways.
"""

import io
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import IO, TypeAlias, cast

from arro3.core import RecordBatch
from arro3.io import read_parquet

from core.delta.log.footer import MAGIC, RowGroups, narrowed_footer

ParquetFile: TypeAlias = bytes | IO[bytes]
"""The content of a file, or a temporary file that is removed with this object."""


class CheckpointFile:
    def __init__(self, content: ParquetFile, name: str) -> None:
        """`name` is relative to the table. An error contains it."""
        self.name = name
        self._content = content
        self.size = len(content) if isinstance(content, bytes) else content.seek(0, io.SEEK_END)  # this also flushes

    @property
    def is_in_memory(self) -> bool:
        return isinstance(self._content, bytes)

    def check_magic(self) -> None:
        """Raises if the file does not begin as Parquet. arro3 does not check, and may end the process."""
        if self._with_footer(b"").read(len(MAGIC)) != MAGIC:
            raise ValueError("a checkpoint is not a Parquet file")

    def batches(self, batch_rows: int, first_group: int = 0) -> Iterator[RecordBatch]:
        """Yields the rows from a row group on."""
        footer = self._groups.footer_from(first_group) if self._groups and first_group else b""
        return self._read(footer, batch_rows)

    def by_row_group(
        self, batch_rows: int, wanted: Callable[[tuple[str, ...]], bool]
    ) -> Iterator[tuple[int | None, RecordBatch]]:
        """Yields all rows with the wanted columns. Gives the number of a row group with the first batch of its rows.

        A row group of less than `batch_rows` rows is not told apart from the one before it, nor is any row group if the
        footer is unusual. The batches may then also have other columns.
        """
        try:
            narrowed = narrowed_footer(self._with_footer(b""), wanted)
        except ValueError:
            narrowed = b""
        starts = deque(_starts(self._groups.rows, batch_rows) if self._groups else ())
        row = 0
        for batch in self._read(narrowed, batch_rows):
            group, begin, end = None, row, row + batch.num_rows
            while starts and starts[0][1] < end:
                next_group, start = starts.popleft()
                if start > begin:
                    yield group, batch.slice(begin - row, start - begin)
                group, begin = next_group, start
            yield group, batch.slice(begin - row)
            row = end

    @cached_property
    def _groups(self) -> RowGroups | None:
        """None if the footer is unusual."""
        try:
            return RowGroups(self._with_footer(b""))
        except ValueError:
            return None

    def _read(self, footer: bytes, batch_rows: int) -> Iterator[RecordBatch]:
        # Closed here, because arro3 keeps the last file that it read.
        with self._with_footer(footer) as file:
            yield from read_parquet(file, batch_size=batch_rows)

    def _with_footer(self, footer: bytes) -> IO[bytes]:
        return cast("IO[bytes]", _WithFooter(self._content, self.size, footer))


def _starts(group_rows: Sequence[int], min_rows: int) -> Iterator[tuple[int, int]]:
    """Yields the numbers of row groups with their first rows, at least `min_rows` apart."""
    last = row = 0
    for group, rows in enumerate(group_rows):
        if row - last >= min_rows:
            yield group, row
            last = row
        row += rows


class _WithFooter(io.RawIOBase):
    """A file with a footer after its end, for one reader. It has its own position in the file."""

    def __init__(self, content: ParquetFile, size: int, footer: bytes) -> None:
        self._content = content
        self._content_size = size
        self._footer = footer
        self._at = 0

    def close(self) -> None:
        self._content = b""
        super().close()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._at
        elif whence == io.SEEK_END:
            offset += self._content_size + len(self._footer)
        self._at = offset
        return offset

    def read(self, size: int = -1) -> bytes:
        begin, split = self._at, self._content_size
        end = split + len(self._footer) if size < 0 else begin + size
        found = self._read_content(begin, min(end, split)) if begin < split else b""
        if end > split:
            found += self._footer[max(begin - split, 0) : end - split]
        self._at += len(found)
        return found

    def _read_content(self, begin: int, end: int) -> bytes:
        if isinstance(self._content, bytes):
            return self._content[begin:end]
        return os.pread(self._content.fileno(), end - begin, begin)
