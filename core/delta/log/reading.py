"""Decodes the files of a checkpoint from any position on, without those before it.

Decoding can start at a *skip point*: the first row of a row group. A row group may have a million rows, so a reading
that stops in the middle of one is kept for a while, and the next page continues from it.
"""

import contextlib
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from core.delta.log.damage import undamaged
from core.delta.log.parquet import CheckpointFile
from core.delta.log.rows import FileRows, PartitionCache

MAX_PAUSED = 2
IDLE_SECONDS = 300
# Approximate memory of a reader besides its batch: the current page of each column, decompressed.
READER_BYTES = 4 * 1024 * 1024


class SkipPoint(NamedTuple):
    files_before: int
    """Number of files of the checkpoint before this point."""
    part: int
    """Index of the Parquet file."""
    group: int
    """Number of the row group in the Parquet file."""


class Reading:
    def __init__(self, parts: Sequence[CheckpointFile], start: SkipPoint, batch_rows: int) -> None:
        self.files_before = start.files_before
        """Number of files of the checkpoint before `rows`."""
        self.rows: FileRows | None = None
        """The current batch; None before the first and after the last."""
        self._batches = _decoded(parts, start, batch_rows)

    def advance(self) -> FileRows | None:
        """Decodes the next batch."""
        if self.rows:
            self.files_before += self.rows.num_files
        self.rows = next(self._batches, None)
        return self.rows

    @property
    def memory_bytes(self) -> int:
        columns = self.rows.fields.values() if self.rows else ()
        return READER_BYTES + sum(column.nbytes for column in columns)


def _decoded(parts: Sequence[CheckpointFile], start: SkipPoint, batch_rows: int) -> Iterator[FileRows]:
    partitions: PartitionCache = {}
    group = start.group
    for part in parts[start.part :]:
        with undamaged(part.name):
            for batch in part.batches(batch_rows, group):
                rows = FileRows.of(batch, partitions)
                rows.check()
                yield rows
        group = 0


class EncodedFiles:
    """The files of a checkpoint that is decoded each time it is read."""

    def __init__(self, parts: Sequence[CheckpointFile], skip_points: Sequence[SkipPoint], batch_rows: int) -> None:
        """`skip_points` are in order. The first is the start of the checkpoint."""
        self._parts = parts
        self._skip_points = skip_points
        self._batch_rows = batch_rows
        self._paused = PausedReadings()

    @property
    def memory_bytes(self) -> int:
        return self._paused.memory_bytes

    def after(self, number: int) -> Iterator[tuple[int, FileRows]]:
        """Yields batches from the one with file `number + 1` on, each with the number of files before it."""
        reading = self._reading(number)
        try:
            rows = reading.rows or reading.advance()
            while rows:
                if reading.files_before + rows.num_files > number:
                    yield reading.files_before, rows
                rows = reading.advance()
        except GeneratorExit:
            # Decoding from a skip point again would repeat what this reading has done since.
            if reading.files_before - self._skip_point(reading.files_before).files_before >= self._batch_rows:
                self._paused.put(reading)
            raise

    def _reading(self, number: int) -> Reading:
        start = self._skip_point(number)
        return self._paused.take(start.files_before, number) or Reading(self._parts, start, self._batch_rows)

    def _skip_point(self, number: int) -> SkipPoint:
        """The last skip point that is not after file `number + 1`."""
        return self._skip_points[bisect_right(self._skip_points, number, key=lambda point: point.files_before) - 1]


class PausedReadings:
    """A few readings that stopped before the end. Each is used by one request at a time.

    Threads share it without a lock: every step is a single operation on a list. A lock could deadlock, because the
    interpreter may close an abandoned answer, and so put back its reading, at any time.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._readings: list[tuple[float, Reading]] = []

    @property
    def memory_bytes(self) -> int:
        return sum(reading.memory_bytes for _, reading in tuple(self._readings))

    def take(self, first: int, last: int) -> Reading | None:
        """Takes out the furthest reading between two numbers of files. Returns None if there is none."""
        self._drop_idle()
        between = [entry for entry in tuple(self._readings) if first <= entry[1].files_before <= last]
        for entry in sorted(between, key=lambda entry: -entry[1].files_before):
            with contextlib.suppress(ValueError):  # another thread took it
                self._readings.remove(entry)
                return entry[1]
        return None

    def put(self, reading: Reading) -> None:
        self._drop_idle()
        self._readings.append((self._now(), reading))
        del self._readings[:-MAX_PAUSED]

    def _drop_idle(self) -> None:
        for entry in tuple(self._readings):
            if self._now() - entry[0] >= IDLE_SECONDS:
                with contextlib.suppress(ValueError):
                    self._readings.remove(entry)
