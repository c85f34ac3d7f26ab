"""Values from their texts, in a form that Python orders as Spark orders them.

Numbers are Python's numbers, dates are days and times microseconds since 1970. Only a text with one exact meaning has a
value; any other is None.
"""

import math
import re
import struct
from datetime import date
from decimal import Decimal
from typing import NamedTuple

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,38}")
# As long as deltalake writes a double: without an exponent.
NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?")
MOMENT = re.compile(
    r"(?P<year>[+-]?[0-9]{4,6})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[ T](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
# No zone is further from UTC than this, so a time without a zone is a time of at most so much more or less.
ZONES = 18 * HOUR
EPOCH = date(1970, 1, 1).toordinal()


class Top:
    """Greater than every value. As a double it is NaN, which Spark orders above all numbers and as equal to itself."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True


TOP = Top()
NOT_FINITE: dict[str, float | Top] = {
    "nan": TOP,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}


class Moment(NamedTuple):
    wall: int
    """What the clock on the wall shows, as microseconds since it showed 1970."""
    offset: int | None
    """How far the clock is before UTC; None where the text does not say."""
    unit: int
    """How long the last digit of the text stands for."""


def parse_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def parse_whole_number(text: str, bits: int) -> int | None:
    value = int(text) if WHOLE_NUMBER.fullmatch(text) else None
    return value if value is not None and -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_decimal(text: str) -> Decimal | None:
    return Decimal(text) if NUMBER.fullmatch(text) else None


def parse_double(text: str) -> float | Top | None:
    return float(text) if NUMBER.fullmatch(text) else NOT_FINITE.get(text.lower())


def parse_date(text: str) -> int | None:
    moment = parse_moment(text)
    return moment.wall // DAY if moment and moment.unit == DAY else None


def parse_moment(text: str) -> Moment | None:
    parts = MOMENT.fullmatch(text)
    if not parts:
        return None
    year, month, day, hour, minute, second, fraction, zone = parts.groups()
    cycles, year_of_cycle = divmod(int(year), 400)  # Python knows no year after 9999, and the calendar repeats itself
    try:
        days = date(year_of_cycle + 400, int(month), int(day)).toordinal() - EPOCH + (cycles - 1) * 146_097
    except ValueError:
        return None
    if hour is None:
        return Moment(days * DAY, None, DAY)
    if not (int(hour) < 24 and int(minute) < 60 and int(second or 0) < 60):
        return None
    offset = _offset(zone) if zone else None
    if offset is not None and abs(offset) > ZONES:
        return None
    wall = days * DAY + int(hour) * HOUR + int(minute) * MINUTE + int(second or 0) * SECOND
    if fraction:
        wall += int(fraction[:6].ljust(6, "0"))
    unit = SECOND // 10 ** min(len(fraction), 6) if fraction else SECOND if second else MINUTE
    return Moment(wall, offset, unit)


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    offset = int(zone[1:3]) * HOUR + int(zone[-2:]) * MINUTE
    return -offset if zone[0] == "-" else offset


def nearest_floats(number: float) -> tuple[float, float]:
    """The floats (of 32 bits) that a text may mean which reads as this double.

    They are two where the double is half-way between them: which one is nearer was lost when the text was read.
    """
    below, above = math.nextafter(number, -math.inf), math.nextafter(number, math.inf)
    nearest: tuple[float, float] = struct.unpack("2f", struct.pack("2f", below, above))
    return nearest


def after_all_with_prefix(prefix: str) -> str | Top:
    """The least string that is greater than every string with this prefix."""
    prefix = prefix.rstrip("\U0010ffff")
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else TOP
