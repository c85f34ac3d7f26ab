"""Counts the files of a snapshot by their fate in a query: left out or kept, and why.

Evaluates batches of files with the code that answers queries, so the counts match what a recipient gets. With an index,
reads only the chunks that the query reads.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import compress, repeat

from cli.explain.columns import RecordingColumns
from cli.explain.index import IndexUse, UnusedIndex
from core.delta.log.batch import FileBatch, NumberedBatch
from core.delta.snapshot import Snapshot
from core.delta.source import Source
from core.pruning.columns import Columns
from core.pruning.compiler import Note
from core.pruning.files import ALL_MATCH, MAY_MATCH, PRUNED_BY_PARTITION, row_count
from core.pruning.predicate import IS_UNDECIDED, Predicate
from core.sharing.call import Observed
from core.sharing.selection import Selection


class Fate(IntEnum):
    """The truth values of a predicate, and two more: not read, and unknown."""

    LEFT_OUT_BY_PARTITION = PRUNED_BY_PARTITION
    LEFT_OUT_BY_STATISTICS = 0
    EVERY_ROW_MATCHES = MAY_MATCH | ALL_MATCH
    SOME_ROW_MAY_MATCH = MAY_MATCH
    LEFT_OUT_UNREAD = 16
    """In a chunk of the index that cannot contain a matching file."""
    UNKNOWN = 8
    """Kept, because statistics that the predicate needs are missing, or because no part of it can be used."""


KEPT = (Fate.EVERY_ROW_MATCHES, Fate.SOME_ROW_MAY_MATCH, Fate.UNKNOWN)


@dataclass(slots=True)
class Count:
    files: int = 0
    bytes: int = 0
    rows: int = 0
    """Rows that are not deleted, in the files that have a row count."""
    files_without_row_count: int = 0

    def add(self, sizes: Iterable[int], row_counts: Iterable[int | None]) -> None:
        for size, rows in zip(sizes, row_counts, strict=True):
            self.files += 1
            self.bytes += size
            self.rows += rows or 0
            self.files_without_row_count += rows is None

    def __add__(self, other: "Count") -> "Count":
        return Count(
            self.files + other.files,
            self.bytes + other.bytes,
            self.rows + other.rows,
            self.files_without_row_count + other.files_without_row_count,
        )


@dataclass(frozen=True, slots=True)
class Funnel:
    version: int
    parts: tuple[Note, ...]
    """The parts of the predicate: how each was used, or why not."""
    fates: Mapping[Fate, Count]
    limited: Count | None
    """The kept files up to the limit. None without a limit."""
    index: IndexUse | None = None
    unused_index: UnusedIndex | None = None
    """An existing index that the query cannot use, and why."""
    source: Source | None = None
    """The way that was chosen, and why. None if there was no choice."""

    @property
    def kept(self) -> Count:
        return sum((self.fates[fate] for fate in KEPT), Count())

    @property
    def total(self) -> Count:
        return sum(self.fates.values(), Count())

    @property
    def listed(self) -> Count:
        """The files that a recipient gets."""
        return self.kept if self.limited is None else self.limited


def follow(snapshot: Snapshot, selection: Selection, progress: Callable[[int], None]) -> Funnel:
    """Counts all files of a snapshot. Calls `progress` with the number of files read so far."""
    fates = {fate: Count() for fate in Fate}
    batches = _counted(snapshot.batches_after(selection.predicate, 0), selection.predicate, fates, progress)
    limited = None if selection.limit is None else _limited(batches, selection)
    deque(batches, maxlen=0)  # also counts the batches after the limit
    read = sum(fates.values(), Count())
    unread = snapshot.num_files - read.files
    fates[Fate.LEFT_OUT_UNREAD] = Count(unread, snapshot.size - read.bytes, files_without_row_count=unread)
    return Funnel(snapshot.version, selection.predicate.notes if selection.predicate else (), fates, limited)


def _counted(
    batches: Iterable[NumberedBatch],
    predicate: Predicate | None,
    fates: Mapping[Fate, Count],
    progress: Callable[[int], None],
) -> Iterator[NumberedBatch]:
    files_read = 0
    for numbered in batches:
        batch = numbered.files
        columns = RecordingColumns(batch.columns)
        fate_of_file = _fates(predicate, columns) if predicate else bytes([Fate.EVERY_ROW_MATCHES]) * len(columns)
        row_counts = _row_counts(batch, columns)
        for fate, count in fates.items():
            chosen = [found == fate for found in fate_of_file]
            count.add(compress(batch.sizes, chosen), compress(row_counts, chosen))
        files_read += len(columns)
        progress(files_read)
        yield numbered


def _limited(batches: Iterable[NumberedBatch], selection: Selection) -> Count:
    count = Count()
    for kept in selection.kept(batches, Observed()):
        files = kept.files
        count.add(files.sizes, _row_counts(files, files.columns))
    return count


def _fates(predicate: Predicate, columns: RecordingColumns) -> bytes:
    fates = bytearray(predicate.evaluate(columns))
    undecided = bytes(fates.translate(IS_UNDECIDED))
    is_used = predicate.uses_partitions or predicate.uses_stats
    unknown = columns.select(undecided).lack_statistics() if is_used else repeat(True)
    for index, is_unknown in zip(compress(range(len(fates)), undecided), unknown, strict=False):
        if is_unknown:
            fates[index] = Fate.UNKNOWN
    return bytes(fates)


def _row_counts(batch: FileBatch, columns: Columns) -> list[int | None]:
    """Returns the number of rows of each file that are not deleted, or None if its statistics lack it."""
    return list(map(row_count, columns.num_records(), batch.deletion_vectors))
