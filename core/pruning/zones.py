"""Zones: what is known of a column in many files together, so that they can be left out together.

A zone is made of the ranges that pruning itself takes from each file, so it has room for whatever a file may hold. A
predicate is asked of zones as it is asked of files: if it may be true in none of a zone's rows, it is true in no row of
any file there.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from core.pruning.columns import Columns
from core.pruning.evaluate import Batch, Node, Test, Truths
from core.pruning.ranges import EVERYTHING, FLOATS, NOTHING_KNOWN, Bounds, Presence, extremes_of, plane
from core.pruning.schema import Field

MAX_CHARACTERS = 64
LAST_CHARACTER = "\U0010ffff"


class Zone(NamedTuple):
    low: Any
    high: Any
    has_values: bool
    has_nulls: bool


def zone_of(field: Field, columns: Columns) -> Zone:
    """Of at least one file."""
    batch = Batch(columns, with_stats=True)
    column = batch.partition(field) if field.in_partitions else batch.stats(field)
    values, nulls = column.presence
    if not field.in_partitions and values == batch.everywhere and (extremes := extremes_of(field, columns)):
        return Zone(*_shortened(*extremes), has_values=True, has_nulls=nulls > 0)
    has_order = field.in_partitions or field.type.name in EVERYTHING
    lows, highs = column.bounds if has_order else ([bound] * len(columns) for bound in NOTHING_KNOWN)
    # A file without a value says nothing of the values.
    with_values = values.to_bytes(len(lows)) if values else bytes([1]) * len(lows)
    low, high = min(compress(lows, with_values)), max(compress(highs, with_values))
    return Zone(*_shortened(low, high), values > 0, nulls > 0)


def _shortened(low: Any, high: Any) -> tuple[Any, Any]:
    """Long texts are cut, to others that still have all between them."""
    if isinstance(low, str):
        low = low[:MAX_CHARACTERS]
    if isinstance(high, str) and len(high) > MAX_CHARACTERS:
        high = high[:MAX_CHARACTERS] + LAST_CHARACTER
    return low, high


class ZoneColumn:
    def __init__(self, field: Field, zones: Sequence[Zone]) -> None:
        self.may_be_nan = field.type.name in FLOATS and not field.in_partitions
        self.bounds: Bounds = [zone.low for zone in zones], [zone.high for zone in zones]
        self.presence: Presence = plane(zone.has_values for zone in zones), plane(zone.has_nulls for zone in zones)


class ZoneBatch(Batch):
    """Some zones, for any number of queries. A column of which there are none may be anything."""

    def __init__(self, number: int, zones: Mapping[Field, Sequence[Zone]]) -> None:
        self.size = number
        self.everywhere = plane([True] * number)
        self.with_stats = True
        self._zones = zones
        self._by_field: dict[Field, ZoneColumn] = {}

    def ask(self, field: Field, test: Test) -> Truths:
        return test(self._column(field)) if field in self._zones else self.unknown

    def ranges(self, field: Field) -> tuple[Bounds, Presence]:
        column = self._column(field)
        return column.bounds, column.presence

    def may_match(self, node: Node) -> bytes:
        """Of each zone whether some row may match: 1 or 0."""
        return node(self).true.to_bytes(self.size)

    def _column(self, field: Field) -> ZoneColumn:
        if field not in self._zones:
            anything = Zone(*EVERYTHING.get(field.type.name, NOTHING_KNOWN), has_values=True, has_nulls=True)
            return ZoneColumn(field, [anything] * self.size)
        if field not in self._by_field:
            self._by_field[field] = ZoneColumn(field, self._zones[field])
        return self._by_field[field]
