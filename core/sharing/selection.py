"""Which of a snapshot's files a query keeps: those that its predicates do not rule out, up to its limit.

Files are judged by column, a batch at a time. An answer in pages goes on from a place among all files of the snapshot,
kept or not.
"""

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, repeat
from typing import TYPE_CHECKING, NamedTuple

from core.api.query import QueryRequest
from core.delta.features import column_mapping_mode
from core.delta.snapshot import FileBatch, Metadata
from core.pruning.files import EVERY, SOME, row_count
from core.sharing.call import Observed

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate

# What a limit asks for is often in the first few files.
LIMITED_BATCH = 256
MAX_LOGGED_PARTS = 10
MAX_LOGGED_TEXT = 200


class Position(NamedTuple):
    """How far an answer has come."""

    place: int = 0
    """How many files came before, kept or not."""
    rows: int = 0
    """How many rows of those that were kept count towards the limit."""


START = Position()


class Kept(NamedTuple):
    """Some files of a snapshot."""

    files: FileBatch
    places: Sequence[int]
    """Of each, how many files came up to it and with it."""
    rows: Sequence[int]
    """Of each, how many rows count towards the limit; empty if there is none."""

    def first(self, number: int) -> "Kept":
        return Kept(self.files.between(0, number), self.places[:number], self.rows[:number])


@dataclass(frozen=True, slots=True)
class Selection:
    predicate: "Predicate | None" = None
    limit: int | None = None

    @classmethod
    def of(cls, query: QueryRequest, metadata: Metadata) -> "Selection":
        if not query.predicate_hints and not query.json_predicate_hints:
            return cls(limit=query.limit_hint)
        from core.pruning.predicate import compile_predicate  # not at a cold start: most queries come without a hint

        predicate = compile_predicate(
            query.predicate_hints,
            query.json_predicate_hints,
            schema_string=metadata.schema_string,
            partition_columns=metadata.partition_columns,
            column_mapping=column_mapping_mode(metadata) != "none",
        )
        return cls(predicate, query.limit_hint)

    def ignored_parts(self) -> list[str]:
        """What of the hints is of no use, and why: for the log."""
        notes = self.predicate.notes if self.predicate else ()
        ignored = [(note.text, note.ignored_because) for note in notes if note.ignored_because]
        return [f"{text[:MAX_LOGGED_TEXT]}: {why[:MAX_LOGGED_TEXT]}" for text, why in ignored[:MAX_LOGGED_PARTS]]

    def kept(self, batches: Iterable[FileBatch], observed: Observed, start: Position = START) -> Iterator[Kept]:
        """The files after `start`, in the order in which they come."""
        if self.limit is None:
            for place, batch in _coming(batches, start.place):
                yield self._judged(place, batch, observed)
            return
        rows = start.rows
        if rows >= self.limit:
            return
        for place, batch in _coming(batches, start.place, LIMITED_BATCH):
            kept = self._judged(place, batch, observed)
            *before, rows = accumulate(kept.rows, initial=rows)
            yield kept.first(bisect_left(before, self.limit))
            if rows >= self.limit:
                return

    def _judged(self, place: int, batch: FileBatch, observed: Observed) -> Kept:
        places = range(place + 1, place + 1 + batch.num_files)
        if self.predicate is None:
            return Kept(batch, places, self._rows(batch, repeat(SOME | EVERY)))
        verdicts = self.predicate.evaluate(batch.columns)
        may_match = [verdict & SOME for verdict in verdicts]
        files = batch.only(may_match)
        observed.files_pruned += batch.num_files - files.num_files
        return Kept(files, list(compress(places, may_match)), self._rows(files, compress(verdicts, may_match)))

    def _rows(self, files: FileBatch, verdicts: Iterable[int]) -> list[int]:
        """Rows that may not match do not count: a limit that they fill could cut off others that do."""
        if self.limit is None:
            return []
        judged = zip(files.columns.num_records(), files.deletion_vectors, verdicts, strict=False)
        return [(row_count(number, vector) or 0) if verdict & EVERY else 0 for number, vector, verdict in judged]


def _coming(batches: Iterable[FileBatch], start: int, size: int = sys.maxsize) -> Iterator[tuple[int, FileBatch]]:
    """The files after the first `start` ones, at most `size` at a time, each time with the place where they begin."""
    place = 0
    for batch in batches:
        files = batch.num_files
        for begin in range(max(start - place, 0), files, size):
            whole = begin == 0 and files <= size
            yield place + begin, batch if whole else batch.between(begin, begin + size)
        place += files
