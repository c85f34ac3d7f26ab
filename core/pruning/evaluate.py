"""Evaluates an expression for a file of which some columns are known.

The result says whether the expression may be true, and whether it may be false, in the file's rows: both where it is
unknown, neither where it is SQL's null. A file can be dropped if the expression may not be true. `NOT` makes the two
change places, so it is as exact as its operand; a mere "may match" could not be turned over.

    AND may be true if all may be true, and false if any may be false.
    OR  may be true if any may be true, and false if all may be false.
"""

import operator
from collections.abc import Mapping
from enum import Enum
from functools import reduce
from typing import Any, TypeAlias

from core.pruning.expressions import And, Column, Comparison, Expression, IsNull, Literal, Not, Or

# Two bits: this runs once for each distinct partition.
Truths: TypeAlias = int
TRUE, FALSE = 1, 2
NULL, UNKNOWN = 0, TRUE | FALSE

OPERATORS = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Missing(Enum):
    """What stands in the place of a column's value."""

    NULL = "null"
    UNKNOWN = "unknown"


def evaluate(expression: Expression, columns: Mapping[Column, Any]) -> Truths:
    """`columns` has the value that a column has in every row; a column that is not there is unknown."""
    match expression:
        case And(operands):
            return reduce(_and, [evaluate(operand, columns) for operand in operands])
        case Or(operands):
            return _not(reduce(_and, [_not(evaluate(operand, columns)) for operand in operands]))
        case Not(operand):
            return _not(evaluate(operand, columns))
        case Comparison():
            return _compare(expression, columns)
        case IsNull(column):
            value = _value(column, columns)
            return UNKNOWN if value is Missing.UNKNOWN else _truth(value is Missing.NULL)
        case Column() | Literal():
            value = _value(expression, columns)
            return NULL if value is Missing.NULL else _truth(value) if isinstance(value, bool) else UNKNOWN
    return UNKNOWN


def _compare(comparison: Comparison, columns: Mapping[Column, Any]) -> Truths:
    values = (_value(comparison.left, columns), _value(comparison.right, columns))
    if Missing.NULL in values:
        return NULL
    if Missing.UNKNOWN in values:
        return UNKNOWN
    return _truth(OPERATORS[comparison.operator](*values))


def _value(operand: Column | Literal, columns: Mapping[Column, Any]) -> Any:
    return operand.value if isinstance(operand, Literal) else columns.get(operand, Missing.UNKNOWN)


def _truth(holds: bool) -> Truths:
    return TRUE if holds else FALSE


def _not(truths: Truths) -> Truths:
    return (FALSE if truths & TRUE else 0) | (TRUE if truths & FALSE else 0)


def _and(one: Truths, other: Truths) -> Truths:
    return one & other & TRUE | (one | other) & FALSE
