"""Reads the text of a JSON literal as a value of the column that it is compared with.

DuckDB's client declares every column as `string`. It declares whole numbers, doubles and booleans as `int`, and all
other literals (decimals, huge integers, strings, dates and times) as `string`. It means a comparison of typed values:

    declared   text         column          read as
    int        7            long            7
    int        1.5          double          1.5
    int        true         boolean         true
    string     2024-01-01   date            2024-01-01
    string     a            string          'a'
    string     1.5          decimal(10,2)   1.50
    string     1.5          integer         nothing: a decimal 1.5 compares exactly, a string '1.5' is rounded to 2
    int        7            string          nothing: DuckDB converts the column to integers, so '07' equals 7

A text that is not exactly one value of the column's type is read as nothing, and the comparison is ignored. So is a
text for which readers may round differently.
"""

import math
import re
from collections.abc import Callable
from decimal import Decimal

from core.pruning.expressions import Literal
from core.pruning.literals import TIMES, cast_literal, digits_of
from core.pruning.schema import INTEGER_BITS, DataType
from core.pruning.values import parse_decimal, parse_double, parse_whole_number

# Up to this many digits, a decimal and the nearest double compare in the same way.
EXACT_DIGITS = 15
# The shortest text of a double has at most this many digits.
SHORTEST_DIGITS = 17
# A double represents every power of ten up to this exponent exactly.
EXACT_SCALE = 22
# Readers round or truncate digits after the microseconds.
NANOSECONDS = re.compile(r"\.[0-9]{7}")


def typed_literal(literal: Literal, column_type: DataType) -> Literal | None:
    """Returns the literal with a kind that fits the column, or None unless its text is exactly one value of the type.

    The kind of `literal` says how the hint declared it: `integer` or `text` as `int`, and `string` as `string`.
    """
    read = READERS.get(column_type.name, _by_cast)
    return read(literal, column_type) if literal.kind in ("integer", "text", "string") else None


def _by_cast(literal: Literal, column_type: DataType) -> Literal | None:
    return cast_literal(Literal("string", literal.text, literal.text), column_type)


def _string(literal: Literal, _: DataType) -> Literal | None:
    return literal if literal.kind == "string" else None


def _integer(literal: Literal, column_type: DataType) -> Literal | None:
    return literal if literal.kind == "integer" else _by_cast(literal, column_type)


def _floating(literal: Literal, _: DataType) -> Literal | None:
    """A double may also be the shortest text of a float, so the literal is both (see `float` in `literals`)."""
    text = literal.text
    if literal.kind == "integer":
        return literal
    number, exact = parse_double(text), parse_decimal(text)
    if number is None or (exact is not None and not _keeps_magnitude(exact, number)):
        return None
    if literal.kind == "text" and parse_whole_number(text, 64) is not None:
        return Literal("integer", int(text), text)
    if exact is not None and not _rounds_to_nearest(exact, literal):
        return None
    return Literal("float", number, text)


def _rounds_to_nearest(exact: Decimal, literal: Literal) -> bool:
    """Whether every reader turns the text into the nearest double.

    A text declared as `string` may be a decimal, which DuckDB divides by a power of ten. One declared as `int` is the
    shortest text of a double.
    """
    _, digits, exponent = exact.as_tuple()
    if literal.kind == "text":
        return len(digits) <= SHORTEST_DIGITS
    return len(digits) <= EXACT_DIGITS and -EXACT_SCALE <= int(exponent) <= EXACT_SCALE


def _keeps_magnitude(exact: Decimal, number: object) -> bool:
    """Whether the nearest double is neither infinite nor zero instead of a tiny number."""
    return isinstance(number, float) and math.isfinite(number) and (number != 0) == (exact != 0)


def _decimal(literal: Literal, column_type: DataType) -> Literal | None:
    """Reads only values that fit the column's type. For others, readers round the column, the literal or both."""
    value = parse_decimal(literal.text)
    if value is None:
        return None
    whole, scale = digits_of(value)
    if max(whole, 1) > column_type.precision - column_type.scale or scale > column_type.scale:
        return None
    if column_type.precision <= EXACT_DIGITS:
        return Literal("decimal", value, literal.text)
    if literal.kind == "string":  # Spark compares as doubles, DuckDB as decimals; the range of a double covers both
        return Literal("double", float(value), literal.text)
    return literal if literal.kind == "integer" else None


def _time(literal: Literal, column_type: DataType) -> Literal | None:
    return None if NANOSECONDS.search(literal.text) else _by_cast(literal, column_type)


READERS: dict[str, Callable[[Literal, DataType], Literal | None]] = {
    "string": _string,
    **dict.fromkeys(INTEGER_BITS, _integer),
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    **dict.fromkeys(TIMES, _time),
}
