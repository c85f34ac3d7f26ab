"""Selects the files of a snapshot that a query keeps: those that may match its predicates, up to its limit.

Predicates are evaluated by column, one batch at a time. The files of a snapshot are numbered, including skipped files,
and a page continues after a file number.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, repeat
from typing import TYPE_CHECKING, NamedTuple

from core.api.requests.query import QueryRequest
from core.delta.features import column_mapping_mode
from core.delta.log.batch import FileBatch, NumberedBatch
from core.delta.model import Metadata
from core.delta.source import Demand
from core.pruning.files import ALL_MATCH, MAY_MATCH, row_count
from core.sharing.call import Observed

if TYPE_CHECKING:
    from core.pruning.predicate import Predicate
    from core.sharing.row_counts import FooterRowCounts

UNKNOWN_ROWS = -1
# Files evaluated at a time if there is a limit, because the first few files often have enough rows.
LIMITED_BATCH = 256


class Position(NamedTuple):
    """How far an answer has read a snapshot."""

    last_file: int = 0
    """Number of the last file; 0 at the start."""
    rows: int = 0
    """Number of rows so far that count towards the limit."""


START = Position()


class KeptFiles(NamedTuple):
    """Files of a snapshot that a query keeps."""

    files: FileBatch
    file_numbers: Sequence[int]
    rows: Sequence[int]
    """For each file, the number of rows that count towards the limit; empty without a limit."""

    def first(self, count: int) -> "KeptFiles":
        return KeptFiles(self.files.between(0, count), self.file_numbers[:count], self.rows[:count])


@dataclass(frozen=True, slots=True)
class Selection:
    predicate: "Predicate | None" = None
    limit: int | None = None
    footers: "FooterRowCounts | None" = None
    """Counts rows of files whose statistics do not. Without it, such files do not count towards the limit."""

    @classmethod
    def of(cls, query: QueryRequest, metadata: Metadata, footers: "FooterRowCounts | None" = None) -> "Selection":
        if not query.predicate_hints and not query.json_predicate_hints:
            return cls(None, query.limit_hint, footers)
        from core.pruning.predicate import compile_predicate  # imported on demand, because most queries have no hints

        predicate = compile_predicate(
            query.predicate_hints,
            query.json_predicate_hints,
            schema_string=metadata.schema_string,
            partition_columns=metadata.partition_columns,
            column_mapping=column_mapping_mode(metadata) != "none",
        )
        return cls(predicate, query.limit_hint, footers)

    @staticmethod
    def demand(query: QueryRequest) -> Demand:
        """Returns what a query reads of a snapshot that is not known yet."""
        wanted = query.page_size
        if query.limit_hint is not None:
            wanted = min(query.limit_hint, LIMITED_BATCH)
        return Demand(wanted, lambda metadata: Selection.of(query, metadata).predicate)

    def ignored_parts(self) -> list[str]:
        """Returns the columns of the hints that could not be used, each with the reason, for the log."""
        return list(self.predicate.ignored) if self.predicate else []

    def kept(self, batches: Iterable[NumberedBatch], observed: Observed, rows: int = 0) -> Iterator[KeptFiles]:
        """Yields the files to keep, in order. `rows` is the number of rows before them that count towards the limit."""
        if self.limit is None:
            for batch in batches:
                yield self._evaluate(batch, observed)
            return
        if rows >= self.limit:
            return
        for batch in _small_batches(batches):
            kept = self._evaluate(batch, observed)
            kept = kept._replace(rows=self._counted(kept, self.limit - rows))
            *before, rows = accumulate(kept.rows, initial=rows)
            yield kept.first(bisect_left(before, self.limit))
            if rows >= self.limit:
                return

    def _evaluate(self, batch: NumberedBatch, observed: Observed) -> KeptFiles:
        numbers, files = batch
        if self.predicate is None:
            return KeptFiles(files, numbers, self._rows(files, repeat(MAY_MATCH | ALL_MATCH)))
        truth_values = self.predicate.evaluate(files.columns)
        may_match = [value & MAY_MATCH for value in truth_values]
        numbers, files = batch.only(may_match)
        observed.files_pruned += len(batch.numbers) - len(numbers)
        return KeptFiles(files, numbers, self._rows(files, compress(truth_values, may_match)))

    def _rows(self, files: FileBatch, truth_values: Iterable[int]) -> list[int]:
        """Counts only rows of files whose rows all match. Other rows could fill the limit and exclude matching rows.

        The count of such a file is `UNKNOWN_ROWS` if its statistics lack it.
        """
        if self.limit is None:
            return []
        rows = zip(files.columns.num_records(), files.deletion_vectors, truth_values, strict=False)
        counts = ((row_count(number, vector), value) for number, vector, value in rows)
        return [(UNKNOWN_ROWS if count is None else count) if value & ALL_MATCH else 0 for count, value in counts]

    def _counted(self, kept: KeptFiles, missing: int) -> list[int]:
        """Returns the rows of `kept` with the unknown counts of its first files, if `missing` rows depend on them."""
        counts = [max(count, 0) for count in kept.rows]
        unknown = [index for index, count in enumerate(kept.rows) if count == UNKNOWN_ROWS]
        while unknown and self.footers and (max_reads := self.footers.max_reads):
            # Files after the one that reaches the limit do not matter.
            end = bisect_left(list(accumulate(counts)), missing)
            group = [index for index in unknown[:max_reads] if index < end]
            if not group:
                break
            files = kept.files
            paths, sizes, vectors = files.paths, files.sizes, files.deletion_vectors
            found = self.footers.read([paths[index] for index in group], [sizes[index] for index in group])
            for index, number in zip(group, found, strict=True):
                counts[index] = row_count(number, vectors[index]) or 0
            unknown = unknown[len(group) :]
        return counts


def _small_batches(batches: Iterable[NumberedBatch]) -> Iterator[NumberedBatch]:
    for batch in batches:
        for begin in range(0, len(batch.numbers), LIMITED_BATCH):
            yield batch.between(begin, begin + LIMITED_BATCH)
