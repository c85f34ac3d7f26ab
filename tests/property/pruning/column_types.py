"""Delta types for the property tests: their values, and how the values are written in the log and in hints.

Deliberately independent of the code under test: values are days, microseconds, `Decimal`s and `Fraction`s, and each
literal defines how Spark compares it with a column. `utc_offset` is the client's UTC offset in microseconds.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

DAY = 86_400_000_000
EPOCH = date(1970, 1, 1)


def single(number: float) -> float:
    return struct.unpack("f", struct.pack("f", number))[0]


def order(value: Any) -> Any:
    """Returns a sort key in Spark's order: NaN is the greatest number and equals itself."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value)


@dataclass(frozen=True)
class Operand:
    """A literal. Spark compares it as `of_column(value) <operator> key`; both may depend on the client's time zone."""

    text: str
    key: Callable[[int], Any]
    of_column: Callable[[Any, int], Any] = lambda value, utc_offset: value
    json: tuple[str, str] | None = None
    """The value type and the value in a JSON hint."""
    cast: str | None = None
    """The type that a SQL hint casts the column to."""
    exact: bool = True
    """Whether the literal has exactly one meaning, so that the result for a file with a single value is certain."""


@dataclass(frozen=True, eq=False, repr=False)
class ColumnType:
    name: str
    delta_type: str
    values: st.SearchStrategy[Any]
    operands: Callable[[Any], list[Operand]]
    """Returns the literals that a value can be written as."""
    partition_texts: Callable[[Any, int], list[str]]
    near: Callable[[Any], list[Any]]
    """Returns other values that a writer or reader might confuse with this one."""
    json_type: str | None = None

    def __repr__(self) -> str:
        return self.name


def fixed(text: str, value: Any, **more: Any) -> Operand:
    return Operand(text, lambda _: value, **more)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def pool(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def integers(name: str, bits: int) -> ColumnType:
    least, greatest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def operands(value: int) -> list[Operand]:
        json_type = "int" if -(2**31) <= value < 2**31 else "long"
        number = float(value)
        forms = [
            fixed(str(value), value, json=(json_type, str(value))),
            fixed(quoted(str(value)), value),
            fixed(f"CAST({value} AS BIGINT)", value),
            Operand(f"{number!r}D", lambda _: number, lambda own, _: float(own), exact=abs(value) < 2**53),
        ]
        if abs(value) < 2**62:  # beyond a long, Spark folds the comparison to true or false even for null
            forms.append(fixed(f"{value}.5", Fraction(Decimal(f"{value}.5"))))
        return forms

    values = pool(least, -10, -1, 0, 1, 2, 9, 10, greatest) | st.integers(least, greatest)

    def near(value: int) -> list[int]:
        return [max(value - 1, least), min(value + 1, greatest)]

    return ColumnType(name, name, values, operands, lambda value, _: [str(value)], near, "long")


def floating_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else repr(value)


def doubles() -> ColumnType:
    def operands(value: float) -> list[Operand]:
        text = floating_text(value)
        forms = [
            fixed(quoted(text), value, json=("double", text)),
            fixed(f"CAST('{text}' AS DOUBLE)", value, json=("double", text)),
        ]
        if math.isfinite(value):
            forms.append(fixed(text, value, json=("double", text)))
            if abs(value) < 1e30:
                whole = int(value)
                forms.append(fixed(str(whole), float(whole), exact=abs(value) < 2**53))
        return forms

    def near(value: float) -> list[float]:
        return [math.nextafter(value, math.inf), math.nextafter(value, -math.inf), math.nan]

    values = pool(math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 0.3, 1e300, -1e300, 5e-324, 2.0**53) | st.floats()
    return ColumnType("double", "double", values, operands, lambda value, _: [floating_text(value)], near, "double")


def float_text(value: float) -> str:
    """Returns the shortest text that parses to this float, as Spark and deltalake write it."""
    if not math.isfinite(value):
        return floating_text(value)
    return next(text for digits in range(1, 18) if single(float(text := f"{value:.{digits}g}")) == value)


def floats() -> ColumnType:
    def operands(value: float) -> list[Operand]:
        text = float_text(value)
        written = float(text)
        forms = [fixed(f"CAST('{text}' AS FLOAT)", value, json=("float", text), exact=written == value)]
        if math.isfinite(value):
            # Spark compares a float with a decimal literal as doubles.
            forms.append(fixed(text, written, exact=written == value))
        return forms

    def near(value: float) -> list[float]:
        return [single(value * 1.0000001), single(value * 0.9999999), math.nan]

    numbers = st.floats(width=32)
    values = pool(math.nan, math.inf, -math.inf, -0.0, 0.0, single(0.1), -1.5, 16777216.0, single(1e-45)) | numbers
    return ColumnType("float", "float", values, operands, lambda value, _: [float_text(value)], near, "float")


def decimals(precision: int, scale: int) -> ColumnType:
    def operands(value: Decimal) -> list[Operand]:
        number = float(value)
        forms = [
            fixed(f"{value:f}", Fraction(value)),
            fixed(f"CAST('{value:f}' AS DECIMAL({precision},{scale}))", Fraction(value)),
            Operand(f"{number!r}D", lambda _: number, lambda own, _: float(own), exact=False),
            fixed(str(int(value)), Fraction(int(value))),
        ]
        if precision < 30:
            forms.append(fixed(f"{value:f}5", Fraction(Decimal(f"{value:f}5"))))
        return forms

    greatest = 10**precision - 1
    unscaled = pool(-greatest, -125, -1, 0, 1, 110, 125, 126, 225, greatest) | st.integers(-greatest, greatest)
    values = unscaled.map(lambda number: Decimal(f"{number}E-{scale}"))

    def near(value: Decimal) -> list[Decimal]:
        number = int(f"{value:f}".replace(".", ""))
        return [Decimal(f"{max(-greatest, min(number + step, greatest))}E-{scale}") for step in (-1, 1, 1000)]

    return ColumnType(
        f"decimal{precision}", f"decimal({precision},{scale})", values, operands, lambda value, _: [f"{value:f}"], near
    )


def strings(*, long: bool = True) -> ColumnType:
    def operands(value: str) -> list[Operand]:
        return [fixed(quoted(value), value, json=("string", value))]

    characters = st.characters(exclude_categories=["Cs"])
    truncated = st.builds(
        lambda head, repeated, count, tail: head + repeated * count + tail,
        st.text(characters, max_size=2),
        st.sampled_from(["a", "b", "é", "\U0010ffff", "\U0001f600"]),
        st.integers(7, 70),
        st.text(characters, max_size=2),
    )
    short = pool("", "a", "B", "b", "ba", "é", "\uffff", "\U00010000", " a", "10", "9", "null", "b" * 31, "b" * 32)
    values = short | st.text(characters, max_size=5) | truncated if long else pool("a", "B", "b", "ba", "é")

    def near(value: str) -> list[str]:
        return [value + "a", value + "\U0010ffff", value[:-1] + "\ufffd", value.ljust(40, "b")] if long else ["b"]

    return ColumnType("string", "string", values, operands, lambda value, _: [value], near, "string")


def booleans() -> ColumnType:
    def operands(value: bool) -> list[Operand]:
        text = str(value).lower()
        return [fixed(text, value, json=("bool", text)), fixed(quoted(text), value)]

    return ColumnType(
        "boolean",
        "boolean",
        st.booleans(),
        operands,
        lambda value, _: [str(value).lower()],
        lambda value: [not value],
        "bool",
    )


def date_text(days: int) -> str:
    cycles, day_of_cycle = divmod(days, 146_097)
    day = EPOCH + timedelta(days=day_of_cycle)
    year = day.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{day:%m-%d}"


def time_text(microseconds: int, *, digits: int = 6, between: str = "T") -> str:
    days, rest = divmod(microseconds, DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{date_text(days)}{between}{clock}" + (f".{fraction:06}"[: digits + 1] if digits else "")


def offset_text(utc_offset: int) -> str:
    minutes = abs(utc_offset) // 60_000_000
    return f"{'-' if utc_offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"


DAYS = pool(-800_000, -1, 0, 1, 19_000, 19_001, 2_932_896, 2_932_897) | st.integers(-100_000, 3_000_000)
INSTANTS = pool(-1, 0, 1, 1_600_000_000_123_456, 1_600_000_000_124_000, 1_600_000_000_000_000, -62_135_596_800_000_000)
TIMES = INSTANTS | st.integers(-(10**16), 10**17) | st.integers(1_600_000_000_000_000, 1_600_000_400_000_000)


def times_near(value: int) -> list[int]:
    """Returns times in the same millisecond or day, and one that is a large UTC offset away."""
    return [value - 1, value + 1, value // 1000 * 1000, value + 400, value // DAY * DAY, value + 17 * 3_600_000_000]


def dates() -> ColumnType:
    def operands(value: int) -> list[Operand]:
        text = date_text(value)
        noon = value * DAY + DAY // 2
        return [
            fixed(f"DATE '{text}'", value, json=("date", text)),
            fixed(quoted(text), value, json=("date", text)),
            fixed(f"CAST('{text}' AS DATE)", value),
            fixed(f"TIMESTAMP_NTZ '{time_text(noon)}'", noon, of_column=lambda own, _: own * DAY),
            fixed(
                f"TIMESTAMP '{time_text(noon)}Z'",
                noon,
                of_column=lambda own, utc_offset: own * DAY - utc_offset,
                exact=False,
            ),
        ]

    return ColumnType(
        "date", "date", DAYS, operands, lambda value, _: [date_text(value)], lambda day: [day - 1, day + 1], "date"
    )


def timestamps() -> ColumnType:
    def operands(value: int) -> list[Operand]:
        utc = f"{time_text(value)}Z"
        indian = f"{time_text(value + 19_800_000_000, between=' ')}+05:30"
        day = value // DAY
        naive = time_text(value, between=" ")
        local_day = lambda own, utc_offset: (own + utc_offset) // DAY  # noqa: E731
        return [
            fixed(quoted(utc), value, json=("timestamp", utc)),
            fixed(f"TIMESTAMP '{indian}'", value, json=("timestamp", indian.replace(" ", "T"))),
            Operand(quoted(naive), lambda utc_offset: value - utc_offset, exact=False),
            Operand(f"TIMESTAMP '{naive}'", lambda utc_offset: value - utc_offset, exact=False),
            Operand(f"DATE '{date_text(day)}'", lambda utc_offset: day * DAY - utc_offset, exact=False),
            Operand(f"DATE '{date_text(day)}'", lambda _: day, local_day, cast="DATE", exact=False),
        ]

    def partition_texts(value: int, utc_offset: int) -> list[str]:
        return [f"{time_text(value)}Z", time_text(value + utc_offset, between=" ")]

    return ColumnType("timestamp", "timestamp", TIMES, operands, partition_texts, times_near, "timestamp")


def timestamps_ntz() -> ColumnType:
    def operands(value: int) -> list[Operand]:
        day = value // DAY
        return [
            fixed(quoted(time_text(value, between=" ")), value),
            fixed(f"TIMESTAMP_NTZ '{time_text(value)}'", value),
            fixed(f"DATE '{date_text(day)}'", day * DAY),
            fixed(f"DATE '{date_text(day)}'", day, of_column=lambda own, _: own // DAY, cast="DATE", exact=False),
            fixed(
                f"TIMESTAMP '{time_text(value)}Z'",
                value,
                of_column=lambda own, utc_offset: own - utc_offset,
                exact=False,
            ),
        ]

    return ColumnType(
        "timestamp_ntz", "timestamp_ntz", TIMES, operands, lambda value, _: [time_text(value, between=" ")], times_near
    )


def binaries() -> ColumnType:
    """A type without an order and without literals in these tests."""
    return ColumnType(
        "binary", "binary", pool(b"a", b"b"), lambda _: [], lambda value, _: [value.decode()], lambda _: [b"c"]
    )


COLUMN_TYPES = (
    integers("byte", 8),
    integers("short", 16),
    integers("integer", 32),
    integers("long", 64),
    doubles(),
    floats(),
    decimals(10, 2),
    decimals(38, 10),
    strings(),
    booleans(),
    dates(),
    timestamps(),
    timestamps_ntz(),
    binaries(),
)
# Types whose statistics can be exact.
EXACT_TYPES = (
    *[column_type for column_type in COLUMN_TYPES if column_type.name not in ("string", "decimal38")],
    strings(long=False),
)
