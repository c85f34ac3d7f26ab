"""In which order files are packed: so that each chunk has but a few values of the columns that queries ask for.

Partition columns come first, then the column whose files overlap least. In a table that is written in order of time,
that is the time, or a number that rises with it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from core.pruning.columns import Columns
from core.pruning.evaluate import Batch
from core.pruning.schema import Field


def clustering_field(fields: Sequence[Field], sample: Columns) -> Field | None:
    """The column of which a value lies within the bounds of the fewest files."""
    batch = Batch(sample, with_stats=True)
    overlaps = {field: _overlap(*batch.ranges(field)[0]) for field in fields if not field.in_partitions}
    best = min(overlaps, key=lambda field: overlaps[field], default=None)
    return best if best and overlaps[best] < 1 else None


def sorted_places(fields: Sequence[Field], clustering: Field | None, columns: Columns) -> list[int]:
    """The files' places, in the order in which they are packed."""
    batch = Batch(columns, with_stats=True)
    by = [field for field in fields if field.in_partitions]
    lows = [batch.ranges(field)[0][0] for field in (*by, *filter(None, [clustering]))]
    keys = list(zip(*lows, strict=True)) if lows else [()] * len(columns)
    return sorted(range(len(columns)), key=keys.__getitem__)


def _overlap(lows: Sequence[Any], highs: Sequence[Any]) -> float:
    """What share of the files a value is in, on average."""
    by_low, by_high = sorted(lows), sorted(highs)
    within = sum(bisect_right(by_low, low) - bisect_left(by_high, low) for low in lows)
    return within / len(lows) ** 2 if lows else 1.0
