"""What a literal means beside a column of some type: the range of values of that type that it may stand for.

Mostly that is one value. It is more where Spark rounds (0.1 beside a float), or where the meaning depends on the
client's time zone, which no hint tells: then all that it may stand for is in the range. A literal that does not fit the
type has no range.
"""

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from core.pruning.expressions import Literal, LiteralKind, Operator
from core.pruning.schema import INTEGER_BITS, DataType
from core.pruning.values import (
    DAY,
    TOP,
    ZONES,
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
# Doubles below this hold every whole number exactly.
EXACT_DOUBLES = 2.0**53
# No decimal is as large, and twice as much is still a double.
LARGE_DOUBLES = 1e300
MAX_PRECISION = 38
# Of the decimal that Spark makes of a long.
LONG_DIGITS = 20
DATE, DOUBLE = DataType("date"), DataType("double")
TIMES = frozenset({"timestamp", "timestamp_ntz"})


def literal_range(literal: Literal, column_type: DataType, cast: DataType | None, operator: Operator) -> Range | None:
    """The range that a column is compared with; `cast` is what the hint casts the column to."""
    if cast == DATE and column_type.name in TIMES:
        return _times_of_day(literal, column_type, operator)
    if cast and not (keeps_values(column_type, cast) and _is_exact_beside(cast, literal)):
        return None
    if literal.kind == "string" and column_type.name != "string":  # Spark casts it
        typed = cast_literal(literal, column_type)
        if typed and column_type.name == "decimal":  # to the decimal if that has no scale, and else both to doubles
            typed = cast_literal(literal, DOUBLE)
        if typed is None:
            return None
        literal = typed
    return RANGES[column_type.name](literal, column_type)


def _times_of_day(literal: Literal, column_type: DataType, operator: Operator) -> Range | None:
    """A time is before a day if it is before the first of its times, and after a day if after the last."""
    day = cast_literal(literal, DATE) if literal.kind in ("date", "string") else None
    if day is None:
        return None
    first, last = day.value * DAY, (day.value + 1) * DAY - 1
    if operator in ("<", ">="):
        last = first
    elif operator in ("<=", ">"):
        first = last
    zones = ZONES if column_type.name == "timestamp" else 0
    return first - zones, last + zones


def keeps_nulls(column_type: DataType, cast: DataType) -> bool:
    """Whether a column is null after a CAST exactly where it was before."""
    return keeps_values(column_type, cast) or (cast == DATE and column_type.name in TIMES)


def keeps_values(column_type: DataType, cast: DataType) -> bool:
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
        case "double" if literal.value is not TOP and abs(literal.value) >= EXACT_DOUBLES:
            return _around(literal.value)
        case "integer" | "decimal" if not LEAST_LONG <= literal.value <= GREATEST_LONG:
            return None  # Spark calls the comparison true or false at once, even of null
        case "integer" | "decimal" | "double":
            return literal.value, literal.value
    return None


def _around(number: float) -> tuple[float, float]:
    """What is rounded to this double may be so much less or more."""
    return math.nextafter(number, -math.inf), math.nextafter(number, math.inf)


def _floating_range(literal: Literal, column_type: DataType) -> Range | None:
    number = _to_double(literal, DOUBLE)
    if number is None or number is TOP:
        return (TOP, TOP) if number else None
    meanings = [number]
    if literal.kind == "integer":
        meanings.append(literal.value)
    if "float" in (literal.kind, column_type.name):
        meanings += nearest_floats(number)
    return min(meanings), max(meanings)


def _decimal_range(literal: Literal, column_type: DataType) -> Range | None:
    """In units of the column's last digit."""
    unit = 10**column_type.scale
    match literal.kind:
        case "integer" | "decimal":
            value = _among_whole_numbers(Fraction(literal.value) * unit)
            return (value, value) if _is_exact_beside(column_type, literal) else None
        case "double" if literal.value is not TOP and abs(literal.value) < LARGE_DOUBLES:
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
    """Whether there is a decimal type for all of these numbers, and for so many digits before and after the point.

    If not, Spark rounds some of them, or has null.
    """
    of_all = [*digits, *map(_digits_in_spark, literals)]
    return max(whole for whole, _ in of_all) + max(scale for _, scale in of_all) <= MAX_PRECISION


def _digits_in_spark(literal: Literal) -> tuple[int, int]:
    whole, scale = _digits(Decimal(literal.value))
    return (max(whole, LONG_DIGITS) if literal.kind == "integer" else whole), scale


def _among_whole_numbers(value: Fraction) -> int | Decimal:
    """A number that stands among the whole numbers where `value` does, but is quick to compare with them."""
    whole = math.floor(value)
    return whole if value == whole else Decimal(f"{whole * 10 + 5}e-1")


def _digits(value: Decimal) -> tuple[int, int]:
    """How many digits it has before and after the point."""
    _, digits, exponent = value.as_tuple()
    return max(len(digits) + int(exponent), 0), max(-int(exponent), 0)


def _string_range(literal: Literal, _: DataType) -> Range | None:
    return (literal.value, literal.value) if literal.kind == "string" else None


def _date_range(literal: Literal, _: DataType) -> Range | None:
    match literal.kind:
        case "date":
            return literal.value, literal.value
        case "timestamp":  # the column's days begin at the client's midnight
            low, high = instants(literal.value)
            return _among_whole_numbers(Fraction(low - ZONES, DAY)), _among_whole_numbers(Fraction(high + ZONES, DAY))
        case "timestamp_ntz":
            time = _among_whole_numbers(Fraction(literal.value.wall, DAY))
            return time, time
    return None


def _timestamp_range(literal: Literal, column_type: DataType) -> Range | None:
    moment = _to_timestamp(literal, column_type)
    return moment and instants(moment)


def _timestamp_ntz_range(literal: Literal, column_type: DataType) -> Range | None:
    if literal.kind == "timestamp":  # the column is read as the client's time
        moment: Moment = literal.value
        instant = moment.wall - (moment.offset or 0)
        return instant - ZONES, instant + ZONES
    wall = _to_timestamp_ntz(literal, column_type)
    return wall and (wall.wall, wall.wall)


def instants(moment: Moment) -> tuple[int, int]:
    if moment.offset is None:
        return moment.wall - ZONES, moment.wall + ZONES
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
    """The literal after a CAST; None where that is not exactly one value.

    A null with a type is none: Spark may cast the column beside it to that type, which makes nulls of other values.
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
