"""Zone maps: the range of a column over all files of a chunk, so that the whole chunk can be skipped at once.

A zone map contains the ranges that pruning computes for each file, so it is just as conservative. A predicate is
evaluated on zone maps with the rules for files (`evaluate`). If it cannot be true for a zone map, it is not true for
any row of the files in the chunk.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from core.pruning.columns import Columns
from core.pruning.evaluate import Batch, ColumnTest, Node, TruthMasks
from core.pruning.ranges import FLOATS, FULL_RANGES, UNBOUNDED, Bounds, Presence, extremes_of, mask
from core.pruning.schema import Field
from core.pruning.values import after_all_with_prefix

MAX_BOUND_CHARACTERS = 64
# Number of columns that stay ready for the next query. The least recently used is read again when it is needed.
MAX_COLUMNS = 8


class ZoneMap(NamedTuple):
    low: Any
    high: Any
    has_values: bool
    has_nulls: bool


def zone_map_of(field: Field, columns: Columns) -> ZoneMap:
    """Returns the zone map of a column over one or more files."""
    batch = Batch(columns, with_stats=True)
    column = batch.partition(field) if field.in_partitions else batch.stats(field)
    values, nulls = column.presence
    if not field.in_partitions and values == batch.all_ones and (extremes := extremes_of(field, columns)):
        return ZoneMap(*_shortened(*extremes), has_values=True, has_nulls=nulls > 0)
    has_order = field.in_partitions or field.type.name in FULL_RANGES
    lows, highs = column.bounds if has_order else ([bound] * len(columns) for bound in UNBOUNDED)
    # Ignore the bounds of files that contain only nulls, unless all files do.
    with_values = values.to_bytes(len(lows)) if values else bytes([1]) * len(lows)
    low, high = min(compress(lows, with_values)), max(compress(highs, with_values))
    return ZoneMap(*_shortened(low, high), values > 0, nulls > 0)


def _shortened(low: Any, high: Any) -> tuple[Any, Any]:
    """Truncates long strings. The low becomes a prefix, the high a bound above every string with its prefix."""
    if isinstance(low, str):
        low = low[:MAX_BOUND_CHARACTERS]
    if isinstance(high, str) and len(high) > MAX_BOUND_CHARACTERS:
        high = after_all_with_prefix(high[:MAX_BOUND_CHARACTERS])
    return low, high


class ZoneMapColumn:
    def __init__(self, field: Field, zone_maps: Sequence[ZoneMap]) -> None:
        self.may_be_nan = field.type.name in FLOATS and not field.in_partitions
        self.bounds: Bounds = [each.low for each in zone_maps], [each.high for each in zone_maps]
        self.presence: Presence = (
            mask(each.has_values for each in zone_maps),
            mask(each.has_nulls for each in zone_maps),
        )


class ZoneMapBatch:
    """The zone maps of several chunks, reusable for any number of queries. A column without zone maps is unknown."""

    def __init__(self, size: int, zone_maps: Mapping[Field, Sequence[ZoneMap]]) -> None:
        self.size = size
        self.all_ones = mask([True] * size)
        self.unknown = TruthMasks(self.all_ones, self.all_ones, self.all_ones)
        self.with_stats = True
        self._zone_maps = zone_maps
        self._columns: dict[Field, ZoneMapColumn] = {}
        """The most recently used is last."""

    def test(self, field: Field, test: ColumnTest) -> TruthMasks:
        return test(self._column(field)) if field in self._zone_maps else self.unknown

    def ranges(self, field: Field) -> tuple[Bounds, Presence]:
        column = self._column(field)
        return column.bounds, column.presence

    def may_match(self, node: Node) -> bytes:
        """Returns one byte per chunk: 1 if some row may match, else 0."""
        return node(self).true.to_bytes(self.size)

    def _column(self, field: Field) -> ZoneMapColumn:
        if field not in self._zone_maps:
            unknown = ZoneMap(*FULL_RANGES.get(field.type.name, UNBOUNDED), has_values=True, has_nulls=True)
            return ZoneMapColumn(field, [unknown] * self.size)
        # Threads share the batch. At worst two of them read the same column.
        column = self._columns.pop(field, None) or ZoneMapColumn(field, self._zone_maps[field])
        self._columns[field] = column
        for oldest in list(self._columns)[:-MAX_COLUMNS]:
            self._columns.pop(oldest, None)
        return column
