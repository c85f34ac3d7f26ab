"""Evaluates a predicate on many files at once, column by column.

In SQL, a predicate is true, false or null for each row. For a file we only know which of the three some row *may*
have. Each expression therefore evaluates to three independent possibilities per file:

    expression       may be true                may be false           may be null
    c < 5            min < 5                    max >= 5               nulls are possible
    c IS NULL        nulls are possible         values are possible    never
    a constant       if it is true              if it is false         if it is null
    unknown          always                     always                 always
    NOT a            a may be false             a may be true          a may be null
    a AND b          a and b may be true        a or b may be false    one may be null, the other null or true
    a OR b           a or b may be true         a and b may be false   one may be null, the other null or false

Because the three are tracked separately, NOT is exact. A single "may match" bit could not be negated.

The file's truth value follows from the root of the predicate:

    may be true    may be false or null    truth value
    no             any                     0: the file is skipped
    yes            yes                     MAY_MATCH: the file is kept
    yes            no                      MAY_MATCH | ALL_MATCH: every row matches, so the rows count towards a limit
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import accumulate
from operator import and_, le, lt, ne, or_
from typing import Any, NamedTuple, TypeAlias

from core.pruning.columns import Columns
from core.pruning.expressions import Operator
from core.pruning.literals import Range
from core.pruning.ranges import (
    FULL_RANGES,
    UNBOUNDED,
    Bounds,
    ColumnSummary,
    Mask,
    PartitionColumn,
    Presence,
    StatsColumn,
    mask,
)
from core.pruning.schema import Field
from core.pruning.values import ABOVE_ALL


class TruthMasks(NamedTuple):
    """For each file, whether some row may be true, false or null."""

    true: Mask
    false: Mask
    null: Mask


class Batch:
    """Some files, with a cache of the column summaries that the predicate has used so far."""

    def __init__(self, columns: Columns, *, with_stats: bool) -> None:
        self.size = len(columns)
        self.all_ones = mask([True] * self.size)
        self.with_stats = with_stats
        self._columns = columns
        self._partitions: dict[Field, PartitionColumn] = {}
        self._stats: dict[Field, StatsColumn] = {}

    @property
    def unknown(self) -> TruthMasks:
        return TruthMasks(self.all_ones, self.all_ones, self.all_ones)

    def partition(self, field: Field) -> PartitionColumn:
        if field not in self._partitions:
            self._partitions[field] = PartitionColumn(field, self._columns)
        return self._partitions[field]

    def stats(self, field: Field) -> StatsColumn:
        if field not in self._stats:
            self._stats[field] = StatsColumn(field, self._columns)
        return self._stats[field]

    def test(self, field: Field, test: "ColumnTest") -> TruthMasks:
        if field.in_partitions:
            column = self.partition(field)
            return _spread_to_files(test(column), column, self.all_ones)
        return test(self.stats(field)) if self.with_stats else self.unknown

    def ranges(self, field: Field) -> tuple[Bounds, Presence]:
        """The bounds and the presence of a column, one entry per file."""
        if not field.in_partitions:
            column = self.stats(field)
            bounds = column.bounds if field.type.name in FULL_RANGES else _unbounded(self.size)
            return bounds, column.presence
        of_text = self.partition(field).of_text
        rows = [of_text[text] for text in self.partition(field).texts]
        lows, highs, values, nulls = ([row[part] for row in rows] for part in range(4))
        return (lows, highs), (mask(values), mask(nulls))


def _unbounded(size: int) -> Bounds:
    """The bounds of a column whose type has no order."""
    low, high = UNBOUNDED
    return [low] * size, [high] * size


Compared: TypeAlias = tuple[Operator, Range]
Node: TypeAlias = Callable[[Batch], TruthMasks]
ColumnTest: TypeAlias = Callable[[ColumnSummary], TruthMasks]
"""A predicate on a single column."""


def truth_values(node: Node, columns: Columns, *, with_stats: bool) -> bytes:
    """One byte per file: 0, `MAY_MATCH` or `MAY_MATCH | ALL_MATCH`. Without statistics, data columns are unknown."""
    batch = Batch(columns, with_stats=with_stats)
    truths = node(batch)
    only_true = batch.all_ones ^ (truths.false | truths.null)
    return (truths.true | (truths.true & only_true) << 1).to_bytes(batch.size)


def unknown(batch: Batch) -> TruthMasks:
    return batch.unknown


def always(truth: bool | None) -> Node:
    def node(batch: Batch) -> TruthMasks:
        return TruthMasks(*(batch.all_ones if truth is each else 0 for each in (True, False, None)))

    return node


def negation(operand: Node) -> Node:
    def node(batch: Batch) -> TruthMasks:
        true, false, null = operand(batch)
        return TruthMasks(false, true, null)

    return node


def conjunction(operands: Iterable[Node]) -> Node:
    """Combines comparisons of one column into one test. NaN passes `c > 5`, but not `c > 5 AND c < 9`."""
    of_columns: dict[Field, list[Compared]] = {}
    parts: list[Node] = []
    for operand in operands:
        if isinstance(operand, Comparisons):
            of_columns.setdefault(operand.field, []).extend(operand.compared)
        else:
            parts.append(operand)
    parts += [Comparisons(field, tuple(compared)) for field, compared in of_columns.items()]

    def node(batch: Batch) -> TruthMasks:
        return reduce(_and, [part(batch) for part in parts])

    return node


def _and(one: TruthMasks, other: TruthMasks) -> TruthMasks:
    null = (one.null & (other.null | other.true)) | (other.null & one.true)
    return TruthMasks(one.true & other.true, one.false | other.false, null)


def disjunction(operands: Iterable[Node]) -> Node:
    return negation(conjunction(map(negation, operands)))


def column_test(field: Field, test: ColumnTest) -> Node:
    def node(batch: Batch) -> TruthMasks:
        return batch.test(field, test)

    return node


def _spread_to_files(truths: TruthMasks, column: PartitionColumn, all_ones: Mask) -> TruthMasks:
    """Expands results for the distinct values of a partition column to all files."""
    distinct = (truths.true | truths.false << 1 | truths.null << 2).to_bytes(len(column.of_text))
    of_text = dict(zip(column.of_text, distinct, strict=True))
    spread = int.from_bytes(bytes([of_text[text] for text in column.texts]))
    return TruthMasks(spread & all_ones, spread >> 1 & all_ones, spread >> 2 & all_ones)


def is_null(column: ColumnSummary) -> TruthMasks:
    values, nulls = column.presence
    return TruthMasks(nulls, values, 0)


class Comparisons:
    """A node: a conjunction of comparisons of one column. A literal stands for any one value of its range."""

    def __init__(self, field: Field, compared: tuple[Compared, ...]) -> None:
        self.field = field
        self.compared = compared
        of_nan = [_compare(operator, ([ABOVE_ALL], [ABOVE_ALL]), ([low], [high])) for operator, (low, high) in compared]
        self._of_nan = _all_hold(of_nan)
        self._node = column_test(field, self._test)

    def __call__(self, batch: Batch) -> TruthMasks:
        return self._node(batch)

    def _test(self, column: ColumnSummary) -> TruthMasks:
        size = len(column.bounds[0])
        truths = [
            _compare(operator, column.bounds, ([low] * size, [high] * size)) for operator, (low, high) in self.compared
        ]
        return _of_values(column, _all_hold(truths), self._of_nan)


def _all_hold(truths: Sequence[tuple[Mask, Mask]]) -> tuple[Mask, Mask]:
    """The conjunction for rows whose value is not null: whether it may be true, and whether it may be false."""
    return reduce(and_, [true for true, _ in truths]), reduce(or_, [false for _, false in truths])


def membership(ranges: Sequence[Range]) -> ColumnTest:
    """Whether a column equals one of many literals, by one binary search per file instead of a pass per literal."""
    lows = sorted(low for low, _ in ranges)
    highs = list(accumulate((high for _, high in sorted(ranges)), max))  # running maximum of the ends
    exact = {low for low, high in ranges if low == high}

    def may_equal(low: Any, high: Any) -> bool:
        first = bisect_left(highs, low)  # the first range that does not end below the column's
        return first < len(lows) and bool(lows[first] <= high)

    of_nan = int(may_equal(ABOVE_ALL, ABOVE_ALL)), int(ABOVE_ALL not in exact)

    def test(column: ColumnSummary) -> TruthMasks:
        true = mask(map(may_equal, *column.bounds))
        false = mask([low != high or low not in exact for low, high in zip(*column.bounds, strict=True)])
        return _of_values(column, (true, false), of_nan)

    return test


def columns_comparison(operator: Operator, left: Field, right: Field) -> Node:
    fields = left, right

    def node(batch: Batch) -> TruthMasks:
        if not batch.with_stats and not all(field.in_partitions for field in fields):
            return batch.unknown
        bounds, presences = zip(*map(batch.ranges, fields), strict=True)
        (left_values, left_nulls), (right_values, right_nulls) = presences
        true, false = _compare(operator, *bounds)
        values = left_values & right_values
        return TruthMasks(true & values, false & values, left_nulls | right_nulls)

    return node


def _of_values(column: ColumnSummary, truths: tuple[Mask, Mask], of_nan: tuple[int, int]) -> TruthMasks:
    """Adds nulls and NaN: a comparison with null is null, and statistics do not show whether a file has NaN."""
    true, false = truths
    values, nulls = column.presence
    if column.may_be_nan:
        true |= of_nan[0] * values
        false |= of_nan[1] * values
    return TruthMasks(true & values, false & values, nulls)


def _compare(operator: Operator, left: Bounds, right: Bounds) -> tuple[Mask, Mask]:
    """Whether a comparison may be true, and whether it may be false, for values within these bounds."""
    (left_lows, left_highs), (right_lows, right_highs) = left, right
    match operator:
        case "<":
            return mask(map(lt, left_lows, right_highs)), mask(map(le, right_lows, left_highs))
        case "<=":
            return mask(map(le, left_lows, right_highs)), mask(map(lt, right_lows, left_highs))
        case "=":
            true = mask(map(le, left_lows, right_highs)) & mask(map(le, right_lows, left_highs))
            return true, mask(map(ne, left_lows, right_highs)) | mask(map(ne, left_highs, right_lows))
        case ">":
            return _compare("<", right, left)
        case ">=":
            return _compare("<=", right, left)
