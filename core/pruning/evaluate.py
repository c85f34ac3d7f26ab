"""Evaluates a predicate for many files at once, column by column.

Of each part of it we know which of SQL's three truths it may have in some row of a file: true, false, null. They are
kept apart, so NOT is exact: it makes true and false change places, where a mere "may match" could not be turned over.

    AND may be true if all may be true, false if any may be false, null if some may be null and no other must be false.
    OR  is the same with true and false changed.

A file is left out if the whole may not be true; every row of it matches if the whole may be nothing but true.
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
    EVERYTHING,
    NOTHING_KNOWN,
    Bounds,
    KnownColumn,
    PartitionColumn,
    Plane,
    Presence,
    StatsColumn,
    plane,
)
from core.pruning.schema import Field
from core.pruning.values import TOP


class Truths(NamedTuple):
    true: Plane
    false: Plane
    null: Plane


class Batch:
    """Some files, and what was found out about their columns so far."""

    def __init__(self, columns: Columns, *, with_stats: bool) -> None:
        self.size = len(columns)
        self.everywhere = plane([True] * self.size)
        self.with_stats = with_stats
        self._columns = columns
        self._partitions: dict[Field, PartitionColumn] = {}
        self._stats: dict[Field, StatsColumn] = {}

    @property
    def unknown(self) -> Truths:
        return Truths(self.everywhere, self.everywhere, self.everywhere)

    def partition(self, field: Field) -> PartitionColumn:
        if field not in self._partitions:
            self._partitions[field] = PartitionColumn(field, self._columns)
        return self._partitions[field]

    def stats(self, field: Field) -> StatsColumn:
        if field not in self._stats:
            self._stats[field] = StatsColumn(field, self._columns)
        return self._stats[field]

    def ask(self, field: Field, test: "Test") -> Truths:
        if field.in_partitions:
            column = self.partition(field)
            return _spread(test(column), column, self.everywhere)
        return test(self.stats(field)) if self.with_stats else self.unknown

    def ranges(self, field: Field) -> tuple[Bounds, Presence]:
        """A column's, whichever it is, of each file."""
        if not field.in_partitions:
            column = self.stats(field)
            bounds = column.bounds if field.type.name in EVERYTHING else _unbounded(self.size)
            return bounds, column.presence
        of_text = self.partition(field).of_text
        rows = [of_text[text] for text in self.partition(field).texts]
        lows, highs, values, nulls = ([row[part] for row in rows] for part in range(4))
        return (lows, highs), (plane(values), plane(nulls))


def _unbounded(size: int) -> Bounds:
    """Of a type without an order."""
    low, high = NOTHING_KNOWN
    return [low] * size, [high] * size


Compared: TypeAlias = tuple[Operator, Range]
Node: TypeAlias = Callable[[Batch], Truths]
Test: TypeAlias = Callable[[KnownColumn], Truths]
"""A question about one column."""


def verdicts(node: Node, columns: Columns, *, with_stats: bool) -> bytes:
    batch = Batch(columns, with_stats=with_stats)
    truths = node(batch)
    only_true = batch.everywhere ^ (truths.false | truths.null)
    return (truths.true | (truths.true & only_true) << 1).to_bytes(batch.size)


def unknown(batch: Batch) -> Truths:
    return batch.unknown


def always(truth: bool | None) -> Node:
    def node(batch: Batch) -> Truths:
        return Truths(*(batch.everywhere if truth is each else 0 for each in (True, False, None)))

    return node


def negation(operand: Node) -> Node:
    def node(batch: Batch) -> Truths:
        true, false, null = operand(batch)
        return Truths(false, true, null)

    return node


def conjunction(operands: Iterable[Node]) -> Node:
    """Comparisons of the same column are one question: NaN is greater than 5, but it is not less than 9 too."""
    of_columns: dict[Field, list[Compared]] = {}
    parts: list[Node] = []
    for operand in operands:
        if isinstance(operand, Comparisons):
            of_columns.setdefault(operand.field, []).extend(operand.compared)
        else:
            parts.append(operand)
    parts += [Comparisons(field, tuple(compared)) for field, compared in of_columns.items()]

    def node(batch: Batch) -> Truths:
        return reduce(_and, [part(batch) for part in parts])

    return node


def _and(one: Truths, other: Truths) -> Truths:
    null = (one.null & (other.null | other.true)) | (other.null & one.true)
    return Truths(one.true & other.true, one.false | other.false, null)


def disjunction(operands: Iterable[Node]) -> Node:
    return negation(conjunction(map(negation, operands)))


def ask(field: Field, test: Test) -> Node:
    def node(batch: Batch) -> Truths:
        return batch.ask(field, test)

    return node


def _spread(truths: Truths, column: PartitionColumn, everywhere: Plane) -> Truths:
    """From the distinct values of a column to all files."""
    distinct = (truths.true | truths.false << 1 | truths.null << 2).to_bytes(len(column.of_text))
    of_text = dict(zip(column.of_text, distinct, strict=True))
    spread = int.from_bytes(bytes([of_text[text] for text in column.texts]))
    return Truths(spread & everywhere, spread >> 1 & everywhere, spread >> 2 & everywhere)


def is_null(column: KnownColumn) -> Truths:
    values, nulls = column.presence
    return Truths(nulls, values, 0)


class Comparisons:
    """A node: a column compared with literals, each of which may be anything in its range. All of it must hold."""

    def __init__(self, field: Field, compared: tuple[Compared, ...]) -> None:
        self.field = field
        self.compared = compared
        of_nan = [_compare(operator, ([TOP], [TOP]), ([low], [high])) for operator, (low, high) in compared]
        self._of_nan = _all_hold(of_nan)
        self._node = ask(field, self._test)

    def __call__(self, batch: Batch) -> Truths:
        return self._node(batch)

    def _test(self, column: KnownColumn) -> Truths:
        size = len(column.bounds[0])
        truths = [
            _compare(operator, column.bounds, ([low] * size, [high] * size)) for operator, (low, high) in self.compared
        ]
        return _of_values(column, _all_hold(truths), self._of_nan)


def _all_hold(truths: Sequence[tuple[Plane, Plane]]) -> tuple[Plane, Plane]:
    """Of values, which are true or false, but never null."""
    return reduce(and_, [true for true, _ in truths]), reduce(or_, [false for _, false in truths])


def membership(ranges: Sequence[Range]) -> Test:
    """A column with many literals, of which it must equal one: one step for all of them, instead of one for each."""
    lows = sorted(low for low, _ in ranges)
    highs = list(accumulate((high for _, high in sorted(ranges)), max))  # of all ranges that begin so low or lower
    exact = {low for low, high in ranges if low == high}

    def may_equal(low: Any, high: Any) -> bool:
        first = bisect_left(highs, low)  # the first range that ends in the column's, or after it
        return first < len(lows) and bool(lows[first] <= high)

    of_nan = int(may_equal(TOP, TOP)), int(TOP not in exact)

    def test(column: KnownColumn) -> Truths:
        true = plane(map(may_equal, *column.bounds))
        false = plane([low != high or low not in exact for low, high in zip(*column.bounds, strict=True)])
        return _of_values(column, (true, false), of_nan)

    return test


def columns_comparison(operator: Operator, left: Field, right: Field) -> Node:
    fields = left, right

    def node(batch: Batch) -> Truths:
        if not batch.with_stats and not all(field.in_partitions for field in fields):
            return batch.unknown
        bounds, presences = zip(*map(batch.ranges, fields), strict=True)
        (left_values, left_nulls), (right_values, right_nulls) = presences
        true, false = _compare(operator, *bounds)
        values = left_values & right_values
        return Truths(true & values, false & values, left_nulls | right_nulls)

    return node


def _of_values(column: KnownColumn, truths: tuple[Plane, Plane], of_nan: tuple[int, int]) -> Truths:
    """A comparison is null where the column is. Writers leave NaN out of statistics, and say nothing of it."""
    true, false = truths
    values, nulls = column.presence
    if column.may_be_nan:
        true |= of_nan[0] * values
        false |= of_nan[1] * values
    return Truths(true & values, false & values, nulls)


def _compare(operator: Operator, left: Bounds, right: Bounds) -> tuple[Plane, Plane]:
    """Whether a comparison may be true, and whether it may be false, of values within these bounds."""
    (left_lows, left_highs), (right_lows, right_highs) = left, right
    match operator:
        case "<":
            return plane(map(lt, left_lows, right_highs)), plane(map(le, right_lows, left_highs))
        case "<=":
            return plane(map(le, left_lows, right_highs)), plane(map(lt, right_lows, left_highs))
        case "=":
            true = plane(map(le, left_lows, right_highs)) & plane(map(le, right_lows, left_highs))
            return true, plane(map(ne, left_lows, right_highs)) | plane(map(ne, left_highs, right_lows))
        case ">":
            return _compare("<", right, left)
        case ">=":
            return _compare("<=", right, left)
