"""Evaluates an expression for a file of which some columns are known.

The result is the *set* of SQL truth values (true, false, null) that the expression may have in the file's
rows: a single one where all is known, all three where nothing is. A file can be dropped if true is not among
them. `NOT` turns each member over, so it is as exact as its operand; a mere "may match" could not be.

    NOT: true and false change places, null stays.
    AND: false if either is false, else null if either is null, else true.
    OR:  true if either is true, else null if either is null, else false.
"""

import operator
from collections.abc import Mapping
from enum import Enum
from functools import reduce
from typing import Any, TypeAlias

from core.pruning.expressions import And, Column, Comparison, Expression, IsNull, Literal, Not, Or

# Sets are bits: this runs once for each distinct partition.
Truths: TypeAlias = int
TRUE, FALSE, NULL = 1, 2, 4
ANY = TRUE | FALSE | NULL

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
            return ANY if value is Missing.UNKNOWN else _truth(value is Missing.NULL)
        case Column() | Literal():
            value = _value(expression, columns)
            return NULL if value is Missing.NULL else _truth(value) if isinstance(value, bool) else ANY
    return ANY


def _compare(comparison: Comparison, columns: Mapping[Column, Any]) -> Truths:
    values = (_value(comparison.left, columns), _value(comparison.right, columns))
    if Missing.NULL in values:
        return NULL
    if Missing.UNKNOWN in values:
        return ANY
    return _truth(OPERATORS[comparison.operator](*values))


def _value(operand: Column | Literal, columns: Mapping[Column, Any]) -> Any:
    return operand.value if isinstance(operand, Literal) else columns.get(operand, Missing.UNKNOWN)


def _truth(holds: bool) -> Truths:
    return TRUE if holds else FALSE


def _not(truths: Truths) -> Truths:
    return truths & NULL | (FALSE if truths & TRUE else 0) | (TRUE if truths & FALSE else 0)


def _and(one: Truths, other: Truths) -> Truths:
    null = (one & NULL and other & (NULL | TRUE)) or (other & NULL and one & (NULL | TRUE))
    return one & other & TRUE | (one | other) & FALSE | (NULL if null else 0)
