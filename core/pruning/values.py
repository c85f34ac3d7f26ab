"""Parses values from text into Python values that sort in Spark's order.

Numbers are Python numbers, dates are days since 1970, and times are microseconds since 1970. Invalid or ambiguous text
parses to None.
"""

import math
import re
import struct
from datetime import date
from decimal import Decimal
from typing import NamedTuple

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,38}")
# deltalake writes doubles without an exponent, so a text may have more than 300 digits.
NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?")
MOMENT = re.compile(
    r"(?P<year>[+-]?[0-9]{4,6})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[ T](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r"(?P<offset>Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
# The largest offset from UTC that Spark accepts. A time without a time zone may be this much earlier or later in UTC.
MAX_UTC_OFFSET = 18 * HOUR
EPOCH = date(1970, 1, 1).toordinal()


class AboveAll:
    """Greater than every other value and equal to itself. Represents NaN, which Spark orders above all numbers."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True


ABOVE_ALL = AboveAll()
NOT_FINITE: dict[str, float | AboveAll] = {
    "nan": ABOVE_ALL,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}


class Moment(NamedTuple):
    wall: int
    """Local time, in microseconds since 1970-01-01 00:00 local time."""
    offset: int | None
    """Local time minus UTC, in microseconds; None if the text has no time zone."""
    unit: int
    """The precision of the text: the value of its last digit, in microseconds."""


def parse_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def parse_whole_number(text: str, bits: int) -> int | None:
    value = int(text) if WHOLE_NUMBER.fullmatch(text) else None
    return value if value is not None and -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_decimal(text: str) -> Decimal | None:
    return Decimal(text) if NUMBER.fullmatch(text) else None


def parse_double(text: str) -> float | AboveAll | None:
    return float(text) if NUMBER.fullmatch(text) else NOT_FINITE.get(text.lower())


def parse_date(text: str) -> int | None:
    moment = parse_moment(text)
    return moment.wall // DAY if moment and moment.unit == DAY else None


def parse_moment(text: str) -> Moment | None:
    parts = MOMENT.fullmatch(text)
    if not parts:
        return None
    year, month, day, hour, minute, second, fraction, offset_text = parts.groups()
    cycles, year_of_cycle = divmod(int(year), 400)  # Python ends at year 9999; the calendar repeats every 400 years
    try:
        days = date(year_of_cycle + 400, int(month), int(day)).toordinal() - EPOCH + (cycles - 1) * 146_097
    except ValueError:
        return None
    if hour is None:
        return Moment(days * DAY, None, DAY)
    if not (int(hour) < 24 and int(minute) < 60 and int(second or 0) < 60):
        return None
    offset = _offset(offset_text) if offset_text else None
    if offset is not None and abs(offset) > MAX_UTC_OFFSET:
        return None
    wall = days * DAY + int(hour) * HOUR + int(minute) * MINUTE + int(second or 0) * SECOND
    if fraction:
        wall += int(fraction[:6].ljust(6, "0"))
    unit = SECOND // 10 ** min(len(fraction), 6) if fraction else SECOND if second else MINUTE
    return Moment(wall, offset, unit)


def _offset(text: str) -> int:
    if text == "Z":
        return 0
    offset = int(text[1:3]) * HOUR + int(text[-2:]) * MINUTE
    return -offset if text[0] == "-" else offset


def nearest_floats(number: float) -> tuple[float, float]:
    """Returns the least and the greatest 32-bit float that a text which parses to this double may represent.

    They differ only if the double is halfway between two floats, because the double no longer shows which one is nearer
    to the text.
    """
    below, above = math.nextafter(number, -math.inf), math.nextafter(number, math.inf)
    nearest: tuple[float, float] = struct.unpack("2f", struct.pack("2f", below, above))
    return nearest


def after_all_with_prefix(prefix: str) -> str | AboveAll:
    """Returns the least value that is greater than every string with this prefix."""
    prefix = prefix.rstrip("\U0010ffff")
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else ABOVE_ALL
