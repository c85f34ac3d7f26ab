"""In which order files are packed: so that each chunk has but a few values of the columns that queries ask for.

Partition columns come first, then the column whose files overlap least. In a table that is written in order of time,
that is the time, or a number that rises with it. If a second column tells files apart as well, as in a table that was
clustered by two, files follow a Hilbert curve through both: then a query for either reads a few chunks, and not one of
them all.
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

# In what share of the files a value of a second column may lie.
FEW = 0.1
# Along each side of the square that the curve fills.
CELLS = 64
# Files of columns that rise together lie in a few cells of each row, and the one column is as good as both.
OF_TWO = 4


@dataclass(frozen=True, slots=True)
class Order:
    partitions: Sequence[Field]
    clustering: Sequence[Field]
    """The one or two columns of which a value lies within the bounds of the fewest files."""
    cuts: Sequence[Sequence[Any]]
    """Of each of two such columns, the values at which a new cell of the curve's square begins."""

    @classmethod
    def of(cls, fields: Sequence[Field], sample: Columns) -> "Order":
        """`sample`: of the files, or all of them."""
        partitions = [field for field in fields if field.in_partitions]
        if not len(sample):
            return cls(partitions, (), ())
        batch = Batch(sample, with_stats=True)
        overlaps = {field: _overlap(*batch.ranges(field)[0]) for field in fields if not field.in_partitions}
        least = sorted(overlaps, key=overlaps.__getitem__)[:2]
        clustering = [field for field, most in zip(least, (1, FEW), strict=False) if overlaps[field] < most]
        lows = [lows_of(field, sample) for field in clustering]
        cuts = [_cuts(values) for values in lows] if len(lows) > 1 else ()
        if cuts and len(set(_cells(cuts, lows))) < OF_TWO * CELLS:
            return cls(partitions, clustering[:1], ())
        return cls(partitions, clustering, cuts)

    def keys(self, columns: Columns) -> list[tuple[Any, ...]]:
        """Of each file one that can be compared: files are packed as their keys rise."""
        if not len(columns):
            return []
        keys = [lows_of(field, columns) for field in self.partitions]
        lows = [lows_of(field, columns) for field in self.clustering]
        if self.cuts:
            keys.append([curve()[cell] for cell in _cells(self.cuts, lows)])
        keys += lows[:1]
        return list(zip(*keys, strict=True)) if keys else [()] * len(columns)


def _cells(cuts: Sequence[Sequence[Any]], lows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, int]]:
    across, along = ([bisect_right(at, low) for low in values] for at, values in zip(cuts, lows, strict=True))
    return zip(across, along, strict=True)


@cache
def curve() -> dict[tuple[int, int], int]:
    """The place of each cell on the curve."""
    cells, side = [(0, 0)], 1
    while side < CELLS:
        cells = [
            *((y, x) for x, y in cells),
            *((x, y + side) for x, y in cells),
            *((x + side, y + side) for x, y in cells),
            *((2 * side - 1 - y, side - 1 - x) for x, y in cells),
        ]
        side *= 2
    return {cell: place for place, cell in enumerate(cells)}


def _cuts(values: Sequence[Any]) -> list[Any]:
    """So that each cell has as many values."""
    ordered = sorted(values)
    return [ordered[len(ordered) * cell // CELLS] for cell in range(1, CELLS)]


def _overlap(lows: Sequence[Any], highs: Sequence[Any]) -> float:
    """What share of the files a value is in, on average."""
    by_low, by_high = sorted(lows), sorted(highs)
    within = sum(bisect_right(by_low, low) - bisect_left(by_high, low) for low in lows)
    return within / len(lows) ** 2
