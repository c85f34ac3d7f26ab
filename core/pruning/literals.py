"""Converts a literal to the range of values that it may have when Spark compares it with a column.

Usually the range is a single value. It is wider if Spark rounds, or if the value depends on the client's time zone,
which hints do not include:

    column           literal                  range
    integer          double of 2^53 or more   from the next lower to the next higher double
    float            0.1                      the double 0.1 and the nearest float
    decimal          double or string         from the next lower to the next higher double
    timestamp        without a time zone      18 hours earlier to 18 hours later
    timestamp_ntz    timestamp                18 hours earlier to 18 hours later
    date             timestamp                18 hours earlier to 18 hours later, or 36 without a time zone

A literal has no range, and the comparison is ignored, if it does not fit the type or Spark may return null for it.
"""

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from core.pruning.expressions import Literal, LiteralKind, Operator
from core.pruning.schema import INTEGER_BITS, DataType
from core.pruning.values import (
    ABOVE_ALL,
    DAY,
    MAX_UTC_OFFSET,
    Moment,
    nearest_floats,
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_double,
    parse_moment,
    parse_whole_number,
)

Range: TypeAlias = tuple[Any, Any]

MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1
# A double represents every whole number up to this one exactly.
EXACT_DOUBLES = 2.0**53
# Larger than every decimal, and small enough that arithmetic on doubles does not overflow.
LARGE_DOUBLES = 1e300
MAX_PRECISION = 38
# Spark converts a long to decimal(20,0).
LONG_DIGITS = 20
DATE, DOUBLE = DataType("date"), DataType("double")
TIMES = frozenset({"timestamp", "timestamp_ntz"})


def literal_range(literal: Literal, column_type: DataType, cast: DataType | None, operator: Operator) -> Range | None:
    """Returns the range that the column is compared with. `cast` is the type that the hint casts the column to."""
    if cast == DATE and column_type.name in TIMES:
        return _times_of_day(literal, column_type, operator)
    if cast and not (keeps_values(column_type, cast) and _compares_exactly(cast, literal)):
        return None
    if literal.kind == "string" and column_type.name != "string":  # Spark casts the string to the type of the column
        typed = cast_literal(literal, column_type)
        if typed and column_type.name == "decimal":  # only if the scale is 0; else both to double
            typed = cast_literal(literal, DOUBLE)
        if typed is None:
            return None
        literal = typed
    return RANGES[column_type.name](literal, column_type)


def _times_of_day(literal: Literal, column_type: DataType, operator: Operator) -> Range | None:
    """Returns the range of times for `CAST(time AS DATE) <operator> day`.

    < and >=: the first microsecond of the day
    <= and >: the last microsecond of the day
    =:        the whole day
    """
    day = cast_literal(literal, DATE) if literal.kind in ("date", "string") else None
    if day is None:
        return None
    first, last = day.value * DAY, (day.value + 1) * DAY - 1
    if operator in ("<", ">="):
        last = first
    elif operator in ("<=", ">"):
        first = last
    offset = MAX_UTC_OFFSET if column_type.name == "timestamp" else 0
    return first - offset, last + offset


def keeps_nulls(column_type: DataType, cast: DataType) -> bool:
    """Whether the CAST is null for exactly the rows in which the column is null."""
    return keeps_values(column_type, cast) or (cast == DATE and column_type.name in TIMES)


def keeps_values(column_type: DataType, cast: DataType) -> bool:
    """Whether the CAST preserves every value of the column."""
    whole_digits = cast.precision - cast.scale
    if column_type.name in INTEGER_BITS:
        bits = INTEGER_BITS[column_type.name]
        if cast.name == "decimal":
            return bool(10**whole_digits >= 1 << bits)
        return bits <= INTEGER_BITS.get(cast.name, 0)
    if column_type.name == cast.name == "decimal":
        return whole_digits >= column_type.precision - column_type.scale and cast.scale >= column_type.scale
    return column_type == cast or (column_type.name, cast.name) == ("float", "double")


def _boolean_range(literal: Literal, _: DataType) -> Range | None:
    return (literal.value, literal.value) if literal.kind == "boolean" else None


def _integer_range(literal: Literal, column_type: DataType) -> Range | None:
    match literal.kind:
        case "decimal" if not _compares_exactly(column_type, literal):
            return None
        case "double" if literal.value is not ABOVE_ALL and abs(literal.value) >= EXACT_DOUBLES:
            return _adjacent_doubles(literal.value)
        case "integer" | "decimal" if not MIN_LONG <= literal.value <= MAX_LONG:
            return None  # Spark folds the comparison to true or false, even for null
        case "integer" | "decimal" | "double":
            return literal.value, literal.value
    return None


def _adjacent_doubles(number: float) -> tuple[float, float]:
    """Returns the next lower and the next higher double. A number that rounds to `number` is between them."""
    return math.nextafter(number, -math.inf), math.nextafter(number, math.inf)


def _floating_range(literal: Literal, column_type: DataType) -> Range | None:
    number = _to_double(literal, DOUBLE)
    if number is None or number is ABOVE_ALL:
        return (ABOVE_ALL, ABOVE_ALL) if number else None
    candidates = [number]
    if literal.kind == "integer":
        candidates.append(literal.value)
    if "float" in (literal.kind, column_type.name):
        candidates += nearest_floats(number)
    return min(candidates), max(candidates)


def _decimal_range(literal: Literal, column_type: DataType) -> Range | None:
    """Returns the range in units of the column's last digit."""
    unit = 10**column_type.scale
    match literal.kind:
        case "integer" | "decimal":
            value = _comparable_to_integers(Fraction(literal.value) * unit)
            return (value, value) if _compares_exactly(column_type, literal) else None
        case "double" if literal.value is not ABOVE_ALL and abs(literal.value) < LARGE_DOUBLES:
            low, high = _adjacent_doubles(literal.value)
            return _comparable_to_integers(Fraction(low) * unit), _comparable_to_integers(Fraction(high) * unit)
    return None


def _compares_exactly(data_type: DataType, literal: Literal) -> bool:
    """Whether Spark compares a value of the type with the literal without rounding one of them."""
    if data_type.name == "decimal" and literal.kind == "string":
        return False
    if data_type.name == "decimal" and literal.kind in ("integer", "decimal"):
        return fit_one_decimal([literal], (data_type.precision - data_type.scale, data_type.scale))
    if data_type.name in INTEGER_BITS and literal.kind == "decimal":
        return fit_one_decimal([literal], (LONG_DIGITS, 0))
    return True


def fit_one_decimal(literals: Iterable[Literal], *digits: tuple[int, int]) -> bool:
    """Whether one Spark decimal type can hold all literals and all `digits` (before and after the decimal point).

    If not, Spark rounds some of them or returns null.
    """
    needed = [*digits, *map(_digits_in_spark, literals)]
    return max(whole for whole, _ in needed) + max(scale for _, scale in needed) <= MAX_PRECISION


def _digits_in_spark(literal: Literal) -> tuple[int, int]:
    whole, scale = digits_of(Decimal(literal.value))
    return (max(whole, LONG_DIGITS) if literal.kind == "integer" else whole), scale


def _comparable_to_integers(value: Fraction) -> int | Decimal:
    """Returns a number that compares with every whole number like `value`, but faster than a fraction."""
    whole = math.floor(value)
    return whole if value == whole else Decimal(f"{whole * 10 + 5}e-1")


def digits_of(value: Decimal) -> tuple[int, int]:
    """Returns the number of digits before and after the decimal point."""
    _, digits, exponent = value.as_tuple()
    return max(len(digits) + int(exponent), 0), max(-int(exponent), 0)


def _string_range(literal: Literal, _: DataType) -> Range | None:
    return (literal.value, literal.value) if literal.kind == "string" else None


def _date_range(literal: Literal, _: DataType) -> Range | None:
    match literal.kind:
        case "date":
            return literal.value, literal.value
        case "timestamp":  # a day of the column starts at midnight in the client's time zone
            low, high = instants(literal.value)
            return _comparable_to_integers(Fraction(low - MAX_UTC_OFFSET, DAY)), _comparable_to_integers(
                Fraction(high + MAX_UTC_OFFSET, DAY)
            )
        case "timestamp_ntz":
            time = _comparable_to_integers(Fraction(literal.value.wall, DAY))
            return time, time
    return None


def _timestamp_range(literal: Literal, column_type: DataType) -> Range | None:
    moment = _to_timestamp(literal, column_type)
    return moment and instants(moment)


def _timestamp_ntz_range(literal: Literal, column_type: DataType) -> Range | None:
    if literal.kind == "timestamp":  # Spark reads the column in the client's time zone
        moment: Moment = literal.value
        instant = moment.wall - (moment.offset or 0)
        return instant - MAX_UTC_OFFSET, instant + MAX_UTC_OFFSET
    wall = _to_timestamp_ntz(literal, column_type)
    return wall and (wall.wall, wall.wall)


def instants(moment: Moment) -> tuple[int, int]:
    """Returns the earliest and the latest time in UTC that the moment may be."""
    if moment.offset is None:
        return moment.wall - MAX_UTC_OFFSET, moment.wall + MAX_UTC_OFFSET
    return moment.wall - moment.offset, moment.wall - moment.offset


RANGES: dict[str, Callable[[Literal, DataType], Range | None]] = {
    "boolean": _boolean_range,
    **dict.fromkeys(INTEGER_BITS, _integer_range),
    "float": _floating_range,
    "double": _floating_range,
    "decimal": _decimal_range,
    "string": _string_range,
    "date": _date_range,
    "timestamp": _timestamp_range,
    "timestamp_ntz": _timestamp_ntz_range,
}


def cast_literal(literal: Literal, to: DataType) -> Literal | None:
    """Returns the literal after a CAST, or None if the result is not exactly one value.

    A typed null is not supported: Spark may cast the column to its type, which can turn values into null.
    """
    kind, cast = CASTS.get(to.name, (None, None))
    value = cast(literal, to) if cast else None
    return None if kind is None or value is None else Literal(kind, value, literal.text)


def _to_boolean(literal: Literal, _: DataType) -> bool | None:
    match literal.kind, literal.value:
        case "boolean", bool(value):
            return value
        case "string", str(text):
            return parse_boolean(text)
    return None


def _to_integer(literal: Literal, to: DataType) -> int | None:
    if literal.kind in ("integer", "string"):
        return parse_whole_number(str(literal.value), INTEGER_BITS[to.name])
    return None


def _to_double(literal: Literal, _: DataType) -> Any:
    match literal.kind:
        case "integer" | "decimal":
            return float(literal.value)
        case "float" | "double":
            return literal.value
        case "string":
            return parse_double(literal.value)
    return None


def _to_decimal(literal: Literal, to: DataType) -> Decimal | None:
    if literal.kind not in ("integer", "decimal", "string"):
        return None
    value = parse_decimal(str(literal.value))
    whole, scale = digits_of(value) if value is not None else (0, 0)
    return value if whole <= to.precision - to.scale and scale <= to.scale else None


def _to_string(literal: Literal, _: DataType) -> str | None:
    return str(literal.value) if literal.kind in ("string", "integer") else None


def _to_date(literal: Literal, _: DataType) -> int | None:
    match literal.kind, literal.value:
        case "date", int(day):
            return day
        case "string", str(text):
            return parse_date(text)
    return None


def _to_timestamp(literal: Literal, _: DataType) -> Moment | None:
    match literal.kind, literal.value:
        case (("timestamp" | "timestamp_ntz"), Moment() as moment):
            return moment
        case "date", int(day):
            return Moment(day * DAY, None, DAY)
        case "string", str(text):
            return parse_moment(text)
    return None


def _to_timestamp_ntz(literal: Literal, to: DataType) -> Moment | None:
    moment = _to_timestamp(literal, to) if literal.kind != "timestamp" else None
    return moment if moment and moment.offset is None else None


CASTS: dict[str, tuple[LiteralKind, Callable[[Literal, DataType], Any]]] = {
    "boolean": ("boolean", _to_boolean),
    **dict.fromkeys(INTEGER_BITS, ("integer", _to_integer)),
    "float": ("float", _to_double),
    "double": ("double", _to_double),
    "decimal": ("decimal", _to_decimal),
    "string": ("string", _to_string),
    "date": ("date", _to_date),
    "timestamp": ("timestamp", _to_timestamp),
    "timestamp_ntz": ("timestamp_ntz", _to_timestamp_ntz),
}
