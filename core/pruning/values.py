"""Values from their text, in a form that Python compares as Spark compares them.

Only a text with one exact meaning has a value. A time without a zone has none: the log does not record the
zone of its writer.
"""

import math
import re
import struct
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?")
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def exact_value(text: str, value_type: str) -> Any:
    """The value of `text`; None if it is not exactly one value of the type."""
    try:
        return PARSERS[value_type](text)
    except (ValueError, OverflowError):
        return None


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _whole_number(text: str, limit: int) -> int:
    value = int(_checked(text, WHOLE_NUMBER))
    if not -limit <= value < limit:
        raise OverflowError
    return value


def _double(text: str) -> tuple[bool, float]:
    """In Spark, NaN equals itself and is greater than every number."""
    number = NOT_FINITE[text] if text in NOT_FINITE else float(_checked(text, NUMBER))
    return (True, 0.0) if math.isnan(number) else (False, number)


def _float(text: str) -> tuple[bool, float]:
    is_nan, number = _double(text)
    below, nearest, above = (
        struct.unpack("f", struct.pack("f", near))[0]
        for near in (math.nextafter(number, -math.inf), number, math.nextafter(number, math.inf))
    )
    if below != above:  # half-way between two floats: rounding twice may differ from rounding the text once
        raise ValueError
    return is_nan, nearest


def _date(text: str) -> date:
    return date.fromisoformat(_checked(text, DATE))


def _timestamp(text: str) -> datetime:
    return datetime.fromisoformat(_checked(text, TIMESTAMP))


def _checked(text: str, form: re.Pattern[str]) -> str:
    if not form.fullmatch(text):
        raise ValueError
    return text


PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": _boolean,
    "int": lambda text: _whole_number(text, 2**31),
    "long": lambda text: _whole_number(text, 2**63),
    "string": str,
    "date": _date,
    "float": _float,
    "double": _double,
    "timestamp": _timestamp,
}


def comparable(one: str, other: str) -> bool:
    return one == other or {one, other} == {"int", "long"}
