"""The range of values that a literal may stand for when it is compared with a column of a given type.

Usually the range is a single value. It is wider if Spark rounds (0.1 compared with a float), or if the meaning depends
on the client's time zone, which hints do not carry. A literal that does not fit the type has no range.
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

LEAST_LONG, GREATEST_LONG = -(2**63), 2**63 - 1
# Doubles represent every whole number below this exactly.
EXACT_DOUBLES = 2.0**53
# Larger than every decimal, and far enough from the largest double that arithmetic does not overflow.
LARGE_DOUBLES = 1e300
MAX_PRECISION = 38
# Spark converts a long to decimal(20,0).
LONG_DIGITS = 20
DATE, DOUBLE = DataType("date"), DataType("double")
TIMES = frozenset({"timestamp", "timestamp_ntz"})


def literal_range(literal: Literal, column_type: DataType, cast: DataType | None, operator: Operator) -> Range | None:
    """The range that a column is compared with; `cast` is the type that the hint casts the column to."""
    if cast == DATE and column_type.name in TIMES:
        return _times_of_day(literal, column_type, operator)
    if cast and not (keeps_values(column_type, cast) and _is_exact_beside(cast, literal)):
        return None
    if literal.kind == "string" and column_type.name != "string":  # Spark casts the string
        typed = cast_literal(literal, column_type)
        if typed and column_type.name == "decimal":  # to the decimal if its scale is 0, else both to double
            typed = cast_literal(literal, DOUBLE)
        if typed is None:
            return None
        literal = typed
    return RANGES[column_type.name](literal, column_type)


def _times_of_day(literal: Literal, column_type: DataType, operator: Operator) -> Range | None:
    """The range for `CAST(time AS DATE) <operator> day`: the first or the last moment of the day, or the whole day."""
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
    """Whether the CAST is null exactly where the column is null."""
    return keeps_values(column_type, cast) or (cast == DATE and column_type.name in TIMES)


def keeps_values(column_type: DataType, cast: DataType) -> bool:
    """Whether the CAST changes no value of the column."""
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
        case "decimal" if not _is_exact_beside(column_type, literal):
            return None
        case "double" if literal.value is not ABOVE_ALL and abs(literal.value) >= EXACT_DOUBLES:
            return _around(literal.value)
        case "integer" | "decimal" if not LEAST_LONG <= literal.value <= GREATEST_LONG:
            return None  # Spark folds the comparison to true or false, even for null
        case "integer" | "decimal" | "double":
            return literal.value, literal.value
    return None


def _around(number: float) -> tuple[float, float]:
    """The neighbours of a double: a number that was rounded to it lies between them."""
    return math.nextafter(number, -math.inf), math.nextafter(number, math.inf)


def _floating_range(literal: Literal, column_type: DataType) -> Range | None:
    number = _to_double(literal, DOUBLE)
    if number is None or number is ABOVE_ALL:
        return (ABOVE_ALL, ABOVE_ALL) if number else None
    meanings = [number]
    if literal.kind == "integer":
        meanings.append(literal.value)
    if "float" in (literal.kind, column_type.name):
        meanings += nearest_floats(number)
    return min(meanings), max(meanings)


def _decimal_range(literal: Literal, column_type: DataType) -> Range | None:
    """The range in units of the column's last digit."""
    unit = 10**column_type.scale
    match literal.kind:
        case "integer" | "decimal":
            value = _among_whole_numbers(Fraction(literal.value) * unit)
            return (value, value) if _is_exact_beside(column_type, literal) else None
        case "double" if literal.value is not ABOVE_ALL and abs(literal.value) < LARGE_DOUBLES:
            low, high = _around(literal.value)
            return _among_whole_numbers(Fraction(low) * unit), _among_whole_numbers(Fraction(high) * unit)
    return None


def _is_exact_beside(data_type: DataType, literal: Literal) -> bool:
    if data_type.name == "decimal" and literal.kind == "string":
        return False
    if data_type.name == "decimal" and literal.kind in ("integer", "decimal"):
        return have_one_type([literal], (data_type.precision - data_type.scale, data_type.scale))
    if data_type.name in INTEGER_BITS and literal.kind == "decimal":
        return have_one_type([literal], (LONG_DIGITS, 0))
    return True


def have_one_type(literals: Iterable[Literal], *digits: tuple[int, int]) -> bool:
    """Whether one decimal type of Spark fits all literals and all pairs of (digits before, digits after the point).

    If not, Spark rounds some of them or returns null.
    """
    of_all = [*digits, *map(_digits_in_spark, literals)]
    return max(whole for whole, _ in of_all) + max(scale for _, scale in of_all) <= MAX_PRECISION


def _digits_in_spark(literal: Literal) -> tuple[int, int]:
    whole, scale = _digits(Decimal(literal.value))
    return (max(whole, LONG_DIGITS) if literal.kind == "integer" else whole), scale


def _among_whole_numbers(value: Fraction) -> int | Decimal:
    """A number that compares with every whole number as `value` does, but faster than a fraction."""
    whole = math.floor(value)
    return whole if value == whole else Decimal(f"{whole * 10 + 5}e-1")


def _digits(value: Decimal) -> tuple[int, int]:
    """The number of digits before and after the point."""
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
            return _among_whole_numbers(Fraction(low - MAX_UTC_OFFSET, DAY)), _among_whole_numbers(
                Fraction(high + MAX_UTC_OFFSET, DAY)
            )
        case "timestamp_ntz":
            time = _among_whole_numbers(Fraction(literal.value.wall, DAY))
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
    """The earliest and the latest time in UTC that a moment may stand for."""
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
    """The literal after a CAST; None if the result is not exactly one value.

    A typed null is not supported: Spark may cast the column to that type, which can turn its values into null.
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
    whole, scale = _digits(value) if value is not None else (0, 0)
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
