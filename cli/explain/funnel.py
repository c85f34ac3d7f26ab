"""What becomes of each file of a snapshot in a query: left out, and by what; or kept, and how much is known of it.

Files are judged by the code that answers queries, a batch at a time: what is told here is what a recipient gets. With
an index, files of chunks that a query does not read are not looked at here either.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import compress, repeat

from cli.explain.columns import AskedColumns
from cli.explain.index import IndexUse
from core.delta.log.batch import FileBatch
from core.delta.snapshot import Snapshot
from core.pruning.columns import Columns
from core.pruning.compiler import Note
from core.pruning.files import ALL_MATCH, MAY_MATCH, PRUNED_BY_PARTITION, row_count
from core.pruning.predicate import IS_UNDECIDED, Predicate
from core.sharing.call import Observed
from core.sharing.selection import Selection


class Fate(IntEnum):
    """The verdicts of a predicate, and two more: a file is not looked at, or kept for want of knowledge."""

    LEFT_OUT_BY_PARTITION = PRUNED_BY_PARTITION
    LEFT_OUT_BY_STATISTICS = 0
    EVERY_ROW_MATCHES = MAY_MATCH | ALL_MATCH
    SOME_ROW_MAY_MATCH = MAY_MATCH
    LEFT_OUT_UNREAD = 16
    """In a chunk of the index in which no file can match."""
    UNKNOWN = 8
    """Statistics are missing that the predicate asks for, or no part of it can be used."""


KEPT = (Fate.EVERY_ROW_MATCHES, Fate.SOME_ROW_MAY_MATCH, Fate.UNKNOWN)


@dataclass(slots=True)
class Count:
    files: int = 0
    bytes: int = 0
    rows: int = 0
    """Those that are not deleted, as far as files say how many they have."""
    files_without_row_count: int = 0

    def add(self, sizes: Iterable[int], rows: Iterable[int | None]) -> None:
        for size, number in zip(sizes, rows, strict=True):
            self.files += 1
            self.bytes += size
            self.rows += number or 0
            self.files_without_row_count += number is None

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
    """Of the predicate, with what became of each."""
    fates: Mapping[Fate, Count]
    limited: Count | None
    """What a limit leaves of the kept files."""
    index: IndexUse | None = None
    unused_index: int | None = None
    """The version of an index that is there, if it is of no use to the query."""

    @property
    def kept(self) -> Count:
        return sum((self.fates[fate] for fate in KEPT), Count())

    @property
    def total(self) -> Count:
        return sum(self.fates.values(), Count())

    @property
    def listed(self) -> Count:
        """What a recipient gets."""
        return self.kept if self.limited is None else self.limited


def follow(snapshot: Snapshot, selection: Selection, progress: Callable[[int], None]) -> Funnel:
    """`progress` is told how many files have been looked at."""
    fates = {fate: Count() for fate in Fate}
    batches = _counted(snapshot.batches(selection.predicate), selection.predicate, fates, progress)
    limited = None if selection.limit is None else _limited(batches, selection)
    deque(batches, maxlen=0)  # those that a limit does not come to
    seen = sum(fates.values(), Count())
    unread = snapshot.num_files - seen.files
    fates[Fate.LEFT_OUT_UNREAD] = Count(unread, snapshot.size - seen.bytes, files_without_row_count=unread)
    return Funnel(snapshot.version, selection.predicate.notes if selection.predicate else (), fates, limited)


def _counted(
    batches: Iterable[FileBatch],
    predicate: Predicate | None,
    fates: Mapping[Fate, Count],
    progress: Callable[[int], None],
) -> Iterator[FileBatch]:
    seen = 0
    for batch in batches:
        columns = AskedColumns(batch.columns)
        found = _fates(predicate, columns) if predicate else bytes([Fate.EVERY_ROW_MATCHES]) * len(columns)
        rows = _rows(batch, columns)
        for fate, count in fates.items():
            chosen = [each == fate for each in found]
            count.add(compress(batch.sizes, chosen), compress(rows, chosen))
        seen += len(columns)
        progress(seen)
        yield batch


def _limited(batches: Iterable[FileBatch], selection: Selection) -> Count:
    count = Count()
    for kept in selection.kept(batches, Observed()):
        files = kept.files
        count.add(files.sizes, _rows(files, files.columns))
    return count


def _fates(predicate: Predicate, columns: AskedColumns) -> bytes:
    fates = bytearray(predicate.evaluate(columns))
    undecided = bytes(fates.translate(IS_UNDECIDED))
    is_used = predicate.uses_partitions or predicate.uses_stats
    unknown = columns.select(undecided).lack_statistics() if is_used else repeat(True)
    for place, is_unknown in zip(compress(range(len(fates)), undecided), unknown, strict=False):
        if is_unknown:
            fates[place] = Fate.UNKNOWN
    return bytes(fates)


def _rows(batch: FileBatch, columns: Columns) -> list[int | None]:
    """Of each file, how many rows are not deleted, if it says so."""
    return list(map(row_count, columns.num_records(), batch.deletion_vectors))
