"""Evaluates a predicate on many files at once, column by column.

In SQL, a predicate is true, false or null for each row. For a file we only know which of the three some row *may*
have. Each expression therefore evaluates to three independent flags per file. `min` and `max` are the bounds of a
column, `low` and `high` those of a literal (equal unless its meaning is ambiguous, see `literals`):

    expression      may be true                  may be false                    may be null
    c < literal     min < high                   max >= low                      c may be null
    c <= literal    min <= high                  max > low                       c may be null
    c = literal     min <= high and max >= low   unless min = max = low = high   c may be null
    c IN (list)     some c = member may be true  unless min = max = a member     c may be null
    a < b           min a < max b                max a >= min b                  a or b may be null
    c IS NULL       c may be null                c may have a value              never
    constant        if it is true                if it is false                  if it is null
    unknown         always                       always                          always
    NOT x           x may be false               x may be true                   x may be null
    x AND y         both may be true             x or y may be false             one is null, the other null or true
    x OR y          x or y may be true           both may be false               one is null, the other null or false

- `>` and `>=` are `<` and `<=` with the sides swapped. `<=` and `=` of two columns follow the rules for literals.
- A comparison may be true or false only if the column may have a value. In a file of nulls it can only be null.
- Statistics leave out NaN, which is greater than every number. A float or double column with values may therefore also
  have the result of NaN: `c > 5` may be true in any file.
- NOT is exact because the three flags are separate. A single "may match" flag could not be negated: `NOT c = 7` would
  skip a file with values from 5 to 10.

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
from typing import Any, NamedTuple, Protocol, TypeAlias

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


class Candidates(Protocol):
    """What a predicate is evaluated on: files, or whole chunks of an index. Each mask has one byte per candidate."""

    all_ones: Mask
    unknown: TruthMasks
    with_stats: bool
    """Whether data columns are known. If not, only partition columns are."""

    def test(self, field: Field, test: "ColumnTest") -> TruthMasks: ...

    def ranges(self, field: Field) -> tuple[Bounds, Presence]:
        """Returns the bounds and the presence of a column, one entry per candidate."""


class Batch:
    """The files that a predicate is evaluated on, with a cache of the column summaries it has used so far."""

    def __init__(self, columns: Columns, *, with_stats: bool) -> None:
        self.size = len(columns)
        self.all_ones = mask([True] * self.size)
        self.unknown = TruthMasks(self.all_ones, self.all_ones, self.all_ones)
        self.with_stats = with_stats
        self._columns = columns
        self._partitions: dict[Field, PartitionColumn] = {}
        self._stats: dict[Field, StatsColumn] = {}

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
        if not field.in_partitions:
            column = self.stats(field)
            bounds = column.bounds if field.type.name in FULL_RANGES else _unbounded(self.size)
            return bounds, column.presence
        partition = self.partition(field)
        rows = [partition.by_text[text] for text in partition.texts]
        lows, highs, values, nulls = ([row[part] for row in rows] for part in range(4))
        return (lows, highs), (mask(values), mask(nulls))


def _unbounded(size: int) -> Bounds:
    """Returns the bounds of a column whose type has no order."""
    low, high = UNBOUNDED
    return [low] * size, [high] * size


Compared: TypeAlias = tuple[Operator, Range]
Node: TypeAlias = Callable[[Candidates], TruthMasks]
ColumnTest: TypeAlias = Callable[[ColumnSummary], TruthMasks]
"""A predicate on a single column."""


def truth_values(node: Node, columns: Columns, *, with_stats: bool) -> bytes:
    """Returns 0, `MAY_MATCH` or `MAY_MATCH | ALL_MATCH` per file. Without statistics, data columns are unknown."""
    batch = Batch(columns, with_stats=with_stats)
    truths = node(batch)
    only_true = batch.all_ones ^ (truths.false | truths.null)
    return (truths.true | (truths.true & only_true) << 1).to_bytes(batch.size)


def unknown(candidates: Candidates) -> TruthMasks:
    return candidates.unknown


def always(truth: bool | None) -> Node:
    def node(candidates: Candidates) -> TruthMasks:
        return TruthMasks(*(candidates.all_ones if truth is each else 0 for each in (True, False, None)))

    return node


def negation(operand: Node) -> Node:
    def node(candidates: Candidates) -> TruthMasks:
        true, false, null = operand(candidates)
        return TruthMasks(false, true, null)

    return node


def conjunction(operands: Iterable[Node]) -> Node:
    """Tests all comparisons of one column together, because NaN satisfies `c > 5`, but not `c > 5 AND c < 9`."""
    by_field: dict[Field, list[Compared]] = {}
    parts: list[Node] = []
    for operand in operands:
        if isinstance(operand, Comparisons):
            by_field.setdefault(operand.field, []).extend(operand.compared)
        else:
            parts.append(operand)
    parts += [Comparisons(field, tuple(compared)) for field, compared in by_field.items()]

    def node(candidates: Candidates) -> TruthMasks:
        return reduce(_and, [part(candidates) for part in parts])

    return node


def _and(one: TruthMasks, other: TruthMasks) -> TruthMasks:
    null = (one.null & (other.null | other.true)) | (other.null & one.true)
    return TruthMasks(one.true & other.true, one.false | other.false, null)


def disjunction(operands: Iterable[Node]) -> Node:
    """By De Morgan: x OR y is NOT (NOT x AND NOT y)."""
    return negation(conjunction(map(negation, operands)))


def column_test(field: Field, test: ColumnTest) -> Node:
    def node(candidates: Candidates) -> TruthMasks:
        return candidates.test(field, test)

    return node


def _spread_to_files(truths: TruthMasks, column: PartitionColumn, all_ones: Mask) -> TruthMasks:
    """Expands the results for the distinct values of a partition column to one result per file."""
    flags = (truths.true | truths.false << 1 | truths.null << 2).to_bytes(len(column.by_text))
    flags_by_text = dict(zip(column.by_text, flags, strict=True))
    spread = int.from_bytes(bytes([flags_by_text[text] for text in column.texts]))
    return TruthMasks(spread & all_ones, spread >> 1 & all_ones, spread >> 2 & all_ones)


def is_null(column: ColumnSummary) -> TruthMasks:
    values, nulls = column.presence
    return TruthMasks(nulls, values, 0)


class Comparisons:
    """A node: the conjunction of comparisons of one column. A literal may have any one value of its range."""

    def __init__(self, field: Field, compared: tuple[Compared, ...]) -> None:
        self.field = field
        self.compared = compared
        nan = [ABOVE_ALL], [ABOVE_ALL]
        self._nan = _all_hold([_compare(operator, nan, ([low], [high])) for operator, (low, high) in compared])
        self._node = column_test(field, self._test)

    def __call__(self, candidates: Candidates) -> TruthMasks:
        return self._node(candidates)

    def _test(self, column: ColumnSummary) -> TruthMasks:
        size = len(column.bounds[0])
        truths = [
            _compare(operator, column.bounds, ([low] * size, [high] * size)) for operator, (low, high) in self.compared
        ]
        return _with_nulls_and_nan(column, _all_hold(truths), self._nan)


def _all_hold(truths: Sequence[tuple[Mask, Mask]]) -> tuple[Mask, Mask]:
    """Returns whether a conjunction may be true and whether it may be false, for rows whose value is not null."""
    return reduce(and_, [true for true, _ in truths]), reduce(or_, [false for _, false in truths])


def membership(ranges: Sequence[Range]) -> ColumnTest:
    """Tests `c IN (list)` with one binary search per file instead of one pass per literal."""
    lows = sorted(low for low, _ in ranges)
    highs = list(accumulate((high for _, high in sorted(ranges)), max))  # running maximum
    exact = {low for low, high in ranges if low == high}

    def may_equal(low: Any, high: Any) -> bool:
        first = bisect_left(highs, low)  # the first literal that does not end below the bounds of the column
        return first < len(lows) and bool(lows[first] <= high)

    nan = int(may_equal(ABOVE_ALL, ABOVE_ALL)), int(ABOVE_ALL not in exact)

    def test(column: ColumnSummary) -> TruthMasks:
        true = mask(map(may_equal, *column.bounds))
        false = mask([low != high or low not in exact for low, high in zip(*column.bounds, strict=True)])
        return _with_nulls_and_nan(column, (true, false), nan)

    return test


def columns_comparison(operator: Operator, left: Field, right: Field) -> Node:
    fields = left, right

    def node(candidates: Candidates) -> TruthMasks:
        if not candidates.with_stats and not all(field.in_partitions for field in fields):
            return candidates.unknown
        bounds, presences = zip(*map(candidates.ranges, fields), strict=True)
        (left_values, left_nulls), (right_values, right_nulls) = presences
        true, false = _compare(operator, *bounds)
        values = left_values & right_values
        return TruthMasks(true & values, false & values, left_nulls | right_nulls)

    return node


def _with_nulls_and_nan(column: ColumnSummary, truths: tuple[Mask, Mask], nan: tuple[int, int]) -> TruthMasks:
    """Adds the results of rows that the bounds do not cover: null for a null, and `nan` for a NaN."""
    true, false = truths
    values, nulls = column.presence
    if column.may_be_nan:
        true |= nan[0] * values
        false |= nan[1] * values
    return TruthMasks(true & values, false & values, nulls)


def _compare(operator: Operator, left: Bounds, right: Bounds) -> tuple[Mask, Mask]:
    """Returns whether a comparison may be true and whether it may be false, for values within these bounds."""
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
