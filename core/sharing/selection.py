"""Selects the files of a snapshot that a query keeps: those that may match its predicates, up to its limit.

Predicates are evaluated by column, one batch at a time. A page continues from a position among all files of the
snapshot, including skipped ones.
"""

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, repeat
from typing import TYPE_CHECKING, NamedTuple

from core.api.requests.query import QueryRequest
from core.delta.features import column_mapping_mode
from core.delta.log.batch import FileBatch
from core.delta.model import Metadata
from core.pruning.files import ALL_MATCH, MAY_MATCH, row_count
from core.sharing.call import Observed

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate

# The first few files often have enough rows for a limit.
LIMITED_BATCH = 256
MAX_LOGGED_PARTS = 10
MAX_LOGGED_TEXT = 200


class Position(NamedTuple):
    """The position that an answer has reached."""

    place: int = 0
    """Number of files before this position, including skipped ones."""
    rows: int = 0
    """Number of rows in the kept files that count towards the limit."""


START = Position()


class Kept(NamedTuple):
    """Files of a snapshot that a query keeps."""

    files: FileBatch
    places: Sequence[int]
    """For each file, the number of files up to and including it."""
    rows: Sequence[int]
    """For each file, the number of rows that count towards the limit; empty without a limit."""

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
        from core.pruning.predicate import compile_predicate  # not at a cold start: most queries have no hints

        predicate = compile_predicate(
            query.predicate_hints,
            query.json_predicate_hints,
            schema_string=metadata.schema_string,
            partition_columns=metadata.partition_columns,
            column_mapping=column_mapping_mode(metadata) != "none",
        )
        return cls(predicate, query.limit_hint)

    def ignored_parts(self) -> list[str]:
        """Parts of the hints that could not be used, each with the reason, for the log."""
        notes = self.predicate.notes if self.predicate else ()
        ignored = [(note.text, note.ignored_because) for note in notes if note.ignored_because]
        return [f"{text[:MAX_LOGGED_TEXT]}: {why[:MAX_LOGGED_TEXT]}" for text, why in ignored[:MAX_LOGGED_PARTS]]

    def kept(self, batches: Iterable[FileBatch], observed: Observed, start: Position = START) -> Iterator[Kept]:
        """Yields the kept files after `start`, in order."""
        if self.limit is None:
            for place, batch in _batches_after(batches, start.place):
                yield self._evaluated(place, batch, observed)
            return
        rows = start.rows
        if rows >= self.limit:
            return
        for place, batch in _batches_after(batches, start.place, LIMITED_BATCH):
            kept = self._evaluated(place, batch, observed)
            *before, rows = accumulate(kept.rows, initial=rows)
            yield kept.first(bisect_left(before, self.limit))
            if rows >= self.limit:
                return

    def _evaluated(self, place: int, batch: FileBatch, observed: Observed) -> Kept:
        places = range(place + 1, place + 1 + batch.num_files)
        if self.predicate is None:
            return Kept(batch, places, self._rows(batch, repeat(MAY_MATCH | ALL_MATCH)))
        truth_values = self.predicate.evaluate(batch.columns)
        may_match = [value & MAY_MATCH for value in truth_values]
        files = batch.only(may_match)
        observed.files_pruned += batch.num_files - files.num_files
        return Kept(files, list(compress(places, may_match)), self._rows(files, compress(truth_values, may_match)))

    def _rows(self, files: FileBatch, truth_values: Iterable[int]) -> list[int]:
        """Counts only files whose rows all match. Other rows could fill the limit and cut off rows that match."""
        if self.limit is None:
            return []
        rows = zip(files.columns.num_records(), files.deletion_vectors, truth_values, strict=False)
        return [(row_count(number, vector) or 0) if value & ALL_MATCH else 0 for number, vector, value in rows]


def _batches_after(
    batches: Iterable[FileBatch], start: int, size: int = sys.maxsize
) -> Iterator[tuple[int, FileBatch]]:
    """Yields the files after the first `start` ones, at most `size` at a time, each with its position."""
    place = 0
    for batch in batches:
        files = batch.num_files
        for begin in range(max(start - place, 0), files, size):
            whole = begin == 0 and files <= size
            yield place + begin, batch if whole else batch.between(begin, begin + size)
        place += files
