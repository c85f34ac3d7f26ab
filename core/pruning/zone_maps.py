"""Zone maps: a summary of a column over many files, so that all of them can be skipped at once.

A zone map covers the ranges that pruning computes for each file, so it is as conservative as they are. A predicate is
evaluated on zone maps as on files: if it cannot be true for a zone map, it is true for no row of any file it covers.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from core.pruning.columns import Columns
from core.pruning.evaluate import Batch, ColumnTest, Node, TruthMasks
from core.pruning.ranges import FLOATS, FULL_RANGES, UNBOUNDED, Bounds, Presence, extremes_of, mask
from core.pruning.schema import Field

MAX_CHARACTERS = 64
LAST_CHARACTER = "\U0010ffff"


class ZoneMap(NamedTuple):
    low: Any
    high: Any
    has_values: bool
    has_nulls: bool


def zone_map_of(field: Field, columns: Columns) -> ZoneMap:
    """The zone map of a column over one or more files."""
    batch = Batch(columns, with_stats=True)
    column = batch.partition(field) if field.in_partitions else batch.stats(field)
    values, nulls = column.presence
    if not field.in_partitions and values == batch.all_ones and (extremes := extremes_of(field, columns)):
        return ZoneMap(*_shortened(*extremes), has_values=True, has_nulls=nulls > 0)
    has_order = field.in_partitions or field.type.name in FULL_RANGES
    lows, highs = column.bounds if has_order else ([bound] * len(columns) for bound in UNBOUNDED)
    # Ignore the bounds of files that hold only nulls.
    with_values = values.to_bytes(len(lows)) if values else bytes([1]) * len(lows)
    low, high = min(compress(lows, with_values)), max(compress(highs, with_values))
    return ZoneMap(*_shortened(low, high), values > 0, nulls > 0)


def _shortened(low: Any, high: Any) -> tuple[Any, Any]:
    """Truncates long strings so that the bounds still cover all values."""
    if isinstance(low, str):
        low = low[:MAX_CHARACTERS]
    if isinstance(high, str) and len(high) > MAX_CHARACTERS:
        high = high[:MAX_CHARACTERS] + LAST_CHARACTER
    return low, high


class ZoneMapColumn:
    def __init__(self, field: Field, zone_maps: Sequence[ZoneMap]) -> None:
        self.may_be_nan = field.type.name in FLOATS and not field.in_partitions
        self.bounds: Bounds = [each.low for each in zone_maps], [each.high for each in zone_maps]
        self.presence: Presence = (
            mask(each.has_values for each in zone_maps),
            mask(each.has_nulls for each in zone_maps),
        )


class ZoneMapBatch(Batch):
    """Zone maps of several chunks, reusable for any number of queries. A column without zone maps is unknown."""

    def __init__(self, number: int, zone_maps: Mapping[Field, Sequence[ZoneMap]]) -> None:
        self.size = number
        self.all_ones = mask([True] * number)
        self.with_stats = True
        self._zone_maps = zone_maps
        self._by_field: dict[Field, ZoneMapColumn] = {}

    def test(self, field: Field, test: ColumnTest) -> TruthMasks:
        return test(self._column(field)) if field in self._zone_maps else self.unknown

    def ranges(self, field: Field) -> tuple[Bounds, Presence]:
        column = self._column(field)
        return column.bounds, column.presence

    def may_match(self, node: Node) -> bytes:
        """One byte per chunk: 1 if some row may match, else 0."""
        return node(self).true.to_bytes(self.size)

    def _column(self, field: Field) -> ZoneMapColumn:
        if field not in self._zone_maps:
            anything = ZoneMap(*FULL_RANGES.get(field.type.name, UNBOUNDED), has_values=True, has_nulls=True)
            return ZoneMapColumn(field, [anything] * self.size)
        if field not in self._by_field:
            self._by_field[field] = ZoneMapColumn(field, self._zone_maps[field])
        return self._by_field[field]
