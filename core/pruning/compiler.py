"""Compiles an expression for the columns of a table, once per request, and notes how each part is used.

A part that cannot be used is unknown for every file. The other parts still prune.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt
from typing import Literal as OneOf
from typing import TypeAlias

from core.pruning.evaluate import (
    Comparisons,
    Node,
    always,
    column_test,
    columns_comparison,
    conjunction,
    disjunction,
    is_null,
    membership,
    negation,
    unknown,
)
from core.pruning.expressions import (
    And,
    Column,
    ColumnPath,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Not,
    NullSafeEqual,
    Operator,
    Or,
    Unknown,
    named_columns,
)
from core.pruning.literals import Range, keeps_nulls, literal_range
from core.pruning.schema import INTEGER_BITS, ORDERED, UNORDERED, Field, NoColumnError, Schema, is_partition_value
from core.pruning.texts import typed_literal

# Each comparison costs about 0.2 µs per file. Typical queries have a few; an IN list counts as one.
MAX_COMPARISONS = 128

DECLARED_TYPES = {
    "bool": frozenset({"boolean"}),
    "int": frozenset(INTEGER_BITS),
    "long": frozenset(INTEGER_BITS),
    **{name: frozenset({name}) for name in ("string", "date", "float", "double", "timestamp")},
    "string or date": frozenset({"string", "date"}),
}
# The types of columns that clients declare as `int`. As `string` they declare columns of any type.
MISDECLARED_TYPES = {"int": ORDERED - {"string"}, "string": ORDERED | UNORDERED}
OPERATORS = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
MIRRORED: dict[Operator, Operator] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
TRUE = Literal("boolean", value=True, text="TRUE")

Source: TypeAlias = OneOf["partition values", "statistics", "constants"]


@dataclass(frozen=True, slots=True)
class Note:
    """How pruning used one part of the hints, or why it did not."""

    text: str
    """May contain literals, so it must not be logged."""
    used_by: Source | None
    ignored_because: str | None = None
    """Contains no text of the client."""
    columns: tuple[ColumnPath, ...] = ()
    """The columns that an ignored part names, as written in the hint."""


class _IgnoredError(Exception):
    """A part of a hint cannot be used. The message is the reason, which is logged and has no text of the client."""


class Compiler:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._comparisons = 0
        self._has_too_many = False
        self.notes: list[Note] = []

    def compile(self, expression: Expression) -> Node:
        match expression:
            case And(operands):
                return conjunction([self.compile(operand) for operand in operands])
            case Or():
                return self._disjunction(expression)
            case Not(operand):
                return negation(self.compile(operand))
            case Unknown(text, reason, columns):
                return self._ignored(text, reason, columns)
        if self._comparisons == MAX_COMPARISONS:
            return self._too_many()
        try:
            return self._leaf(expression)
        except (_IgnoredError, NoColumnError) as reason:
            return self._ignored(str(expression), str(reason), named_columns(expression))

    def _ignored(self, text: str, reason: str, columns: tuple[ColumnPath, ...] = ()) -> Node:
        self.notes.append(Note(text, None, reason, columns))
        return unknown

    def _too_many(self) -> Node:
        if not self._has_too_many:
            self._has_too_many = True
            self._ignored("…", f"there are more than {MAX_COMPARISONS} comparisons")
        return unknown

    def _used(self, expression: object, *fields: Field) -> None:
        self._comparisons += 1
        by: Source = "constants"
        if fields:
            by = "partition values" if all(field.in_partitions for field in fields) else "statistics"
        self.notes.append(Note(str(expression), by))

    def _disjunction(self, expression: Or) -> Node:
        equals: dict[Column, list[Literal]] = {}
        others: list[Expression] = []
        for operand in _flattened(expression):
            match operand:
                case Comparison("=", Column() as column, Literal() as literal):
                    equals.setdefault(column, []).append(literal)
                case Comparison("=", Literal() as literal, Column() as column):
                    equals.setdefault(column, []).append(literal)
                case _:
                    others.append(operand)
        nodes = [self._one_of(column, literals) for column, literals in equals.items()]
        return disjunction([*nodes, *map(self.compile, others)])

    def _one_of(self, column: Column, literals: list[Literal]) -> Node:
        if len(literals) == 1:
            return self.compile(Comparison("=", column, literals[0]))
        if self._comparisons == MAX_COMPARISONS:
            return self._too_many()
        text = f"{column} IN ({', '.join(map(str, literals[:5]))}{', …' if len(literals) > 5 else ''})"
        try:
            field = self._field(column)
            values = [literal for literal in literals if literal.kind != "null"]
            ranges = [self._range(column, field, literal) for literal in values]
            self._used(text, field)
        except (_IgnoredError, NoColumnError) as reason:
            return self._ignored(text, str(reason), named_columns(column))
        nodes = [column_test(field, membership(ranges))] if ranges else []
        return disjunction(nodes if len(values) == len(literals) else [*nodes, always(None)])

    def _leaf(self, expression: Expression) -> Node:
        match expression:
            case Column():
                return self._comparison("=", expression, TRUE)
            case Comparison(operator, Column() as column, Literal() as literal):
                return self._comparison(operator, column, literal)
            case Comparison(operator, Literal() as literal, Column() as column):
                return self._comparison(MIRRORED[operator], column, literal)
            case Comparison(operator, Column() as left, Column() as right):
                return self._columns_comparison(operator, left, right)
            case NullSafeEqual(column, literal):
                return self._null_safe_equal(column, literal)
            case IsNull(column):
                return self._is_null(column)
        return self._constant(expression)

    def _comparison(self, operator: Operator, column: Column, literal: Literal) -> Node:
        field = self._field(column)
        if literal.kind == "null":
            self._used(Comparison(operator, column, literal))
            return always(None)
        range_ = self._range(column, field, literal, operator)
        self._used(column if literal is TRUE else Comparison(operator, column, literal), field)
        return Comparisons(field, ((operator, range_),))

    def _null_safe_equal(self, column: Column, literal: Literal) -> Node:
        field = self._field(column)
        range_ = self._range(column, field, literal)
        self._used(NullSafeEqual(column, literal), field)
        return conjunction([negation(column_test(field, is_null)), Comparisons(field, (("=", range_),))])

    def _columns_comparison(self, operator: Operator, left: Column, right: Column) -> Node:
        fields = self._field(left), self._field(right)
        types = {"long" if field.type.name in INTEGER_BITS else str(field.type) for field in fields}
        if len(types) != 1 or any(column.cast or is_partition_value(column.path) for column in (left, right)):
            raise _IgnoredError("the columns have different types")
        if fields[0].type.name not in ORDERED or types & {"float", "double"}:
            raise _IgnoredError(f"two columns of type {fields[0].type} cannot be compared")
        self._used(Comparison(operator, left, right), *fields)
        return columns_comparison(operator, *fields)

    def _is_null(self, column: Column) -> Node:
        field = self._field(column)
        if column.cast and not keeps_nulls(field.type, column.cast):
            raise _IgnoredError("the cast may turn values into null")
        if not field.in_partitions and field.type.name not in ORDERED | UNORDERED:
            raise _IgnoredError(f"statistics do not count nulls of type {field.type}")
        self._used(IsNull(column), field)
        return column_test(field, is_null)

    def _constant(self, expression: Expression) -> Node:
        match expression:
            case Literal("boolean" | "null", truth):
                self._used(expression)
                return always(truth)
            case Comparison(operator, Literal(left_kind, left), Literal(right_kind, right)):
                if {left_kind, right_kind} <= {"integer", "decimal"}:
                    self._used(expression)
                    return always(OPERATORS[operator](left, right))
        raise _IgnoredError("it does not compare a column")

    def _field(self, column: Column) -> Field:
        field = self._schema.find(column.path)
        types = MISDECLARED_TYPES if column.is_misdeclared else DECLARED_TYPES
        if column.declared and field.type.name not in types[column.declared]:
            raise _IgnoredError(f"the column has type {field.type}, not {column.declared}")
        return field

    def _range(self, column: Column, field: Field, literal: Literal, operator: Operator = "=") -> Range:
        if field.type.name not in ORDERED:
            raise _IgnoredError(f"type {field.type} has no known order")
        is_from_map = is_partition_value(column.path if len(column.path) > 1 else tuple(column.path[0].split(".")))
        as_string = is_from_map and not column.cast and literal.kind == "string"
        if as_string and field.type.name != "string":
            raise _IgnoredError("without a CAST, the partition value is compared as a string")
        typed = typed_literal(literal, field.type) if column.is_misdeclared else literal
        range_ = literal_range(typed, field.type, column.cast, operator) if typed else None
        if range_ is None:
            raise _IgnoredError(f"the literal has no exact meaning for a column of type {field.type}")
        return range_


def _flattened(expression: Or) -> Iterator[Expression]:
    for operand in expression.operands:
        if isinstance(operand, Or):
            yield from _flattened(operand)
        else:
            yield operand
