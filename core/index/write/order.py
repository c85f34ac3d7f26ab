"""The order in which files are packed. It gives each chunk narrow ranges in the columns that queries filter by.

Partition columns come first, then the column whose file ranges overlap least. In a table written in time order, that is
the time or a number that rises with it. If a second column separates files as well, as in a table clustered by two
columns, files follow a Hilbert curve through both. A query on either column then reads a few chunks, instead of all
chunks for the second column.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.pruning.columns import Columns
from core.pruning.evaluate import Batch
from core.pruning.ranges import lows_of
from core.pruning.schema import Field

# A second column is used if a value is within the range of less than this share of the files.
MAX_SECOND_OVERLAP = 0.1
# The curve fills a grid with this many cells per side.
CELLS = 64
# If files occupy fewer cells per row on average, the two columns rise together and one of them is enough.
MIN_CELLS_PER_ROW = 4


@dataclass(frozen=True, slots=True)
class Order:
    partitions: Sequence[Field]
    clustering: Sequence[Field]
    """The one or two columns whose file ranges overlap least; empty if every column overlaps fully."""
    cuts: Sequence[Sequence[Any]]
    """If there are two such columns: the values of each at which a new cell of the grid begins."""

    @classmethod
    def of(cls, fields: Sequence[Field], sample: Columns) -> "Order":
        """Chooses the order from a sample of the files, or from all files."""
        partitions = [field for field in fields if field.in_partitions]
        if not len(sample):
            return cls(partitions, (), ())
        batch = Batch(sample, with_stats=True)
        overlaps = {field: _overlap(*batch.ranges(field)[0]) for field in fields if not field.in_partitions}
        best = sorted(overlaps, key=overlaps.__getitem__)[:2]
        limits = (1, MAX_SECOND_OVERLAP)
        clustering = [field for field, limit in zip(best, limits, strict=False) if overlaps[field] < limit]
        lows = [lows_of(field, sample) for field in clustering]
        cuts = [_cuts(values) for values in lows] if len(lows) > 1 else ()
        if cuts and len(set(_cells(cuts, lows))) < MIN_CELLS_PER_ROW * CELLS:
            return cls(partitions, clustering[:1], ())
        return cls(partitions, clustering, cuts)

    def keys(self, columns: Columns) -> list[tuple[Any, ...]]:
        """A sort key per file. Files are packed in ascending order of their keys."""
        if not len(columns):
            return []
        keys = [lows_of(field, columns) for field in self.partitions]
        lows = [lows_of(field, columns) for field in self.clustering]
        if self.cuts:
            keys.append([curve()[cell] for cell in _cells(self.cuts, lows)])
        keys += lows[:1]
        return list(zip(*keys, strict=True)) if keys else [()] * len(columns)


def _cells(cuts: Sequence[Sequence[Any]], lows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, int]]:
    x, y = ([bisect_right(cut_points, low) for low in values] for cut_points, values in zip(cuts, lows, strict=True))
    return zip(x, y, strict=True)


@cache
def curve() -> dict[tuple[int, int], int]:
    """The position of each cell on the Hilbert curve."""
    cells, side = [(0, 0)], 1
    while side < CELLS:
        cells = [
            *((y, x) for x, y in cells),
            *((x, y + side) for x, y in cells),
            *((x + side, y + side) for x, y in cells),
            *((2 * side - 1 - y, side - 1 - x) for x, y in cells),
        ]
        side *= 2
    return {cell: position for position, cell in enumerate(cells)}


def _cuts(values: Sequence[Any]) -> list[Any]:
    """Quantiles, so each cell gets about the same number of files."""
    ordered = sorted(values)
    return [ordered[len(ordered) * cell // CELLS] for cell in range(1, CELLS)]


def _overlap(lows: Sequence[Any], highs: Sequence[Any]) -> float:
    """The average share of files whose range contains a given value."""
    by_low, by_high = sorted(lows), sorted(highs)
    within = sum(bisect_right(by_low, low) - bisect_left(by_high, low) for low in lows)
    return within / len(lows) ** 2
