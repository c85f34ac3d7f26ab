"""Summarizes a column per file from the log: the range of its values, and whether it may hold nulls.

Partition values are exact. Statistics are bounds that writers truncate: strings to a prefix, times to milliseconds,
decimals to a double. They also leave out NaN. Each bound is widened until it covers everything that may have been
truncated. A bound that is missing, of the wrong type or contradictory is ignored.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from operator import gt, itemgetter
from typing import Any, Protocol, TypeAlias

from core.pruning.columns import Absent, Columns, JsonValue
from core.pruning.literals import Range, instants
from core.pruning.schema import INTEGER_BITS, DataType, Field
from core.pruning.values import (
    ABOVE_ALL,
    DAY,
    MAX_UTC_OFFSET,
    MINUTE,
    AboveAll,
    Moment,
    after_all_with_prefix,
    nearest_floats,
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_double,
    parse_moment,
    parse_whole_number,
)

Bounds: TypeAlias = tuple[Sequence[Any], Sequence[Any]]
"""The low and the high of each file, in two sequences."""
Mask: TypeAlias = int
"""One byte per file, 0 or 1, packed into one large integer, so that & and | apply to all files at once."""
Presence: TypeAlias = tuple[Mask, Mask]
"""For each file, whether some row may have a value, and whether some row may be null."""

# The least and the greatest value of each type, or a bound beyond them.
FULL_RANGES: dict[str, Range] = {
    **dict.fromkeys([*INTEGER_BITS, "decimal", "date", "timestamp", "timestamp_ntz"], (-math.inf, math.inf)),
    **dict.fromkeys(["float", "double"], (-math.inf, ABOVE_ALL)),
    "boolean": (False, True),
    "string": ("", ABOVE_ALL),
}
FLOATS = frozenset({"float", "double"})
UNBOUNDED: Range = (-math.inf, ABOVE_ALL)
# Spark truncates strings to 32 characters and deltalake to 64 bytes; both keep a maximum an upper bound. Others do not.
TRUNCATED_BYTES = 32
# Null in Delta and in Hive respectively. But deltalake writes an empty string as "" and reads it back as a string.
NULL_STRINGS = frozenset({"", "__HIVE_DEFAULT_PARTITION__"})
# Writers compute the bounds of a decimal in a few double operations, each with a relative error of up to 2 ** -53.
DOUBLE_ERROR = 2**-49
# 1973. Before 1970, truncation may round either way, and UTC offsets had seconds that writers do not write.
MODERN_TIMES = 3 * 365 * DAY + DAY


def mask(flags: Iterable[bool]) -> Mask:
    return int.from_bytes(bytes(flags))


class ColumnSummary(Protocol):
    @property
    def bounds(self) -> Bounds: ...

    @property
    def presence(self) -> Presence: ...

    @property
    def may_be_nan(self) -> bool:
        """Whether a row may be NaN although the bounds do not include it."""


class PartitionColumn:
    """A partition column of some files. Many files share a value, so ranges are computed per distinct value."""

    may_be_nan = False

    def __init__(self, field: Field, columns: Columns) -> None:
        self.texts = columns.partition(field.path[0])
        self.of_text = {text: _partition_range(text, field.type) for text in set(self.texts)}
        lows, highs, values, nulls = zip(*self.of_text.values(), strict=True)
        self.bounds: Bounds = lows, highs
        self.presence: Presence = mask(values), mask(nulls)


class StatsColumn:
    """A data column of some files, summarized by their statistics."""

    def __init__(self, field: Field, columns: Columns) -> None:
        self.field = field
        self.may_be_nan = field.type.name in FLOATS
        self._columns = columns

    @cached_property
    def bounds(self) -> Bounds:
        field, columns = self.field, self._columns
        minimum, maximum = columns.minimum(field.path), columns.maximum(field.path)
        lows, highs = _side(0, minimum, field), _side(1, maximum, field)
        if any(map(gt, lows, highs)):
            everything = FULL_RANGES[field.type.name]
            sound = [(low, high) if low <= high else everything for low, high in zip(lows, highs, strict=True)]
            return [low for low, _ in sound], [high for _, high in sound]
        return lows, highs

    @cached_property
    def presence(self) -> Presence:
        """A null count is used only if it is zero or equals the number of rows.

        Any count in between may include deleted rows (`tightBounds` is false) and proves nothing.
        """
        null_counts = self._columns.null_count(self.field.path)
        if null_counts.count(0) == len(null_counts):
            return mask([True] * len(null_counts)), 0
        values = [
            type(nulls) is not int or nulls <= 0 or nulls != rows
            for nulls, rows in zip(null_counts, self._columns.num_records(), strict=True)
        ]
        return mask(values), mask([nulls != 0 for nulls in null_counts])


def extremes_of(field: Field, columns: Columns) -> Range | None:
    """The least low and the greatest high of all files, without computing the bounds of each file.

    Returns None unless all bounds are strings of the usual form.
    """
    minimum, maximum = columns.minimum(field.path), columns.maximum(field.path)
    if field.type.name not in EXTREMES or {*map(type, minimum), *map(type, maximum)} != {str}:
        return None
    return EXTREMES[field.type.name](minimum, maximum, field.type.name)


def _text_extremes(minimum: Sequence[str], maximum: Sequence[str], _: str) -> Range | None:
    if not all(joined.isascii() and "?" not in joined for joined in ("".join(minimum), "".join(maximum))):
        return None
    if any(map(gt, minimum, maximum)):
        return None
    # The high of a truncated maximum lies beyond all strings with that prefix. It may exceed the high of a longer one.
    last = max(maximum)
    prefixes = {last[:length] for length in set(map(len, maximum))}.intersection(maximum)
    return min(minimum), max(after_all_with_prefix(text) if len(text) >= TRUNCATED_BYTES else text for text in prefixes)


def _time_extremes(minimum: Sequence[str], maximum: Sequence[str], name: str) -> Range | None:
    """Requires that all texts have the same length, and so the same precision."""
    epoch = EPOCHS[name]
    lengths = {*map(len, minimum), *map(len, maximum)}
    length = lengths.pop() - (epoch.tzinfo is not None)
    if lengths or length not in TRUNCATED_MICROSECONDS:
        return None
    if epoch.tzinfo is not None and {*map(itemgetter(-1), minimum), *map(itemgetter(-1), maximum)} != {"Z"}:
        return None
    try:
        lows, highs = list(map(datetime.fromisoformat, minimum)), list(map(datetime.fromisoformat, maximum))
        if any(map(gt, lows, highs)):
            return None
        first, last = ((time - epoch) // MICROSECOND for time in (min(lows), max(highs)))
    except (ValueError, TypeError):  # also raised if only some have a time zone
        return None
    return (first, last + (TRUNCATED_MICROSECONDS[length] or MAX_TRUNCATED)) if first >= MODERN_TIMES else None


def lows_of(field: Field, columns: Columns) -> Sequence[Any]:
    """The low of each file, for sorting files. Does not check for contradictory bounds."""
    if field.in_partitions:
        column = PartitionColumn(field, columns)
        return [column.of_text[text][0] for text in column.texts]
    if field.type.name not in FULL_RANGES:
        return [UNBOUNDED[0]] * len(columns)
    return _side(0, columns.minimum(field.path), field)


def _partition_range(text: str | Absent | None, data_type: DataType) -> tuple[Any, Any, bool, bool]:
    low, high = FULL_RANGES.get(data_type.name, UNBOUNDED)
    if isinstance(text, Absent):
        return low, high, True, True
    if data_type.name == "string" and text in NULL_STRINGS:
        return text, text, True, True
    if not text:  # Delta: an empty string is null for every type
        return low, high, False, True
    if data_type.name not in EXACT:
        return low, high, True, False
    exact = EXACT[data_type.name](text, data_type)
    return (*exact, True, False) if exact else (low, high, True, True)  # some readers treat invalid text as null


def _single(value: Any) -> Range | None:
    return None if value is None else (value, value)


def _exact_float(text: str, _: DataType) -> Range | None:
    number = parse_double(text)
    return nearest_floats(number) if isinstance(number, float) else _single(number)


def _exact_decimal(text: str, data_type: DataType) -> Range | None:
    """The value in units of the last digit."""
    number = parse_decimal(text)
    units = Fraction(number or 0) * 10**data_type.scale
    return _single(units.numerator) if number is not None and units.denominator == 1 else None


def _exact_time(text: str, data_type: DataType) -> Range | None:
    moment = parse_moment(text)
    return moment and _times(moment, data_type)


def _times(moment: Moment, data_type: DataType) -> tuple[int, int]:
    if data_type.name == "timestamp":
        return instants(moment)
    # The type has no time zone. If the text has one, readers may apply or ignore it.
    offset = 0 if moment.offset is None else MAX_UTC_OFFSET
    return moment.wall - offset, moment.wall + offset


EXACT: dict[str, Callable[[str, DataType], Range | None]] = {
    "boolean": lambda text, _: _single(parse_boolean(text)),
    **dict.fromkeys(INTEGER_BITS, lambda text, of: _single(parse_whole_number(text, INTEGER_BITS[of.name]))),
    "float": _exact_float,
    "double": lambda text, _: _single(parse_double(text)),
    "decimal": _exact_decimal,
    "string": lambda text, _: _single(text),
    "date": lambda text, _: _single(parse_date(text)),
    "timestamp": _exact_time,
    "timestamp_ntz": _exact_time,
}


def _side(side: int, raws: Sequence[JsonValue], field: Field) -> Sequence[Any]:
    """The lows (side 0) for minima, or the highs (side 1) for maxima."""
    if (bounds := _fast_bounds(side, raws, field)) is not None:
        return bounds
    bound, everything = BOUNDS[field.type.name], FULL_RANGES[field.type.name]
    texts = {text: bound(text, field) or everything for text in {raw for raw in raws if type(raw) is str}}
    return [(texts[raw] if type(raw) is str else bound(raw, field) or everything)[side] for raw in raws]


def _fast_bounds(side: int, raws: Sequence[JsonValue], field: Field) -> Sequence[Any] | None:
    """The same result as `BOUNDS`, several times as fast; None unless the whole column has the usual form."""
    kinds = set(map(type, raws))
    name = field.type.name
    if kinds == {PLAIN.get(name)} and not field.was_float:
        return raws
    if name == "string" and kinds == {str}:
        return _fast_string_bounds(side, raws) if "".join(raws).isascii() else None
    if name == "decimal" and kinds <= {int, float}:
        unit = 10**field.type.scale
        return [round(raw * unit) for raw in raws] if max(map(abs, raws)) * unit < 1 / DOUBLE_ERROR / 2 else None
    if name in EPOCHS and kinds == {str}:
        return _fast_time_bounds(side, raws, name)
    return None


def _fast_string_bounds(side: int, raws: Sequence[str]) -> Sequence[Any]:
    """`raws` must be ASCII, so that a character is a byte."""
    if max(map(len, raws)) < TRUNCATED_BYTES:
        return raws
    if side == 0:
        return [raw if len(raw) < TRUNCATED_BYTES else raw.rstrip("?") for raw in raws]
    return [raw if len(raw) < TRUNCATED_BYTES else after_all_with_prefix(raw.rstrip("?")) for raw in raws]


def _fast_time_bounds(side: int, raws: Sequence[str], name: str) -> Sequence[int] | None:
    epoch = EPOCHS[name]
    lengths = [len(raw) - (1 if raw[-1:] == "Z" else 6) for raw in raws] if epoch.tzinfo else list(map(len, raws))
    if not TRUNCATED_MICROSECONDS.keys() >= set(lengths):
        return None
    try:
        times = [(time - epoch) // MICROSECOND for time in map(datetime.fromisoformat, raws)]
    except (ValueError, TypeError):
        return None
    if min(times) < MODERN_TIMES:
        return None
    if side == 0:
        return times
    truncated = TRUNCATED_MICROSECONDS
    return [time + (truncated[length] or _truncated(time)) for time, length in zip(times, lengths, strict=True)]


def _truncated(time: int) -> int:
    """How much later the true time may be. Some writers truncate to milliseconds and append three zeros."""
    return 0 if time % 1000 else MAX_TRUNCATED


PLAIN = {**dict.fromkeys(INTEGER_BITS, int), "boolean": bool, "double": float}
MICROSECOND = timedelta(microseconds=1)
EPOCHS = {"timestamp": datetime(1970, 1, 1, tzinfo=UTC), "timestamp_ntz": datetime(1970, 1, 1)}  # noqa: DTZ001
# How many microseconds may be truncated, by the length of a text without its time zone: up to 999 for
# 2024-01-01T00:00:00.000.
TRUNCATED_MICROSECONDS = {19: 999_999, 23: 999, 26: 0}
MAX_TRUNCATED = 999
EXTREMES: dict[str, Callable[[Sequence[Any], Sequence[Any], str], Range | None]] = {
    "string": _text_extremes,
    **dict.fromkeys(EPOCHS, _time_extremes),
}


def _integer_bound(raw: JsonValue, _: Field) -> Range | None:
    return (raw, raw) if type(raw) is int else None


def _boolean_bound(raw: JsonValue, _: Field) -> Range | None:
    return (raw, raw) if type(raw) is bool else None


def _floating_bound(raw: JsonValue, field: Field) -> Range | None:
    number = float(raw) if type(raw) in (int, float) else parse_double(raw) if type(raw) is str else None
    if number is None or isinstance(number, AboveAll):  # NaN is not a usable bound
        return None
    if field.type.name == "float":
        return nearest_floats(number)
    meanings = (number, *nearest_floats(number)) if field.was_float else (number,)
    return min(meanings), max(meanings)


def _decimal_bound(raw: JsonValue, field: Field) -> Range | None:
    """The range in units of the last digit. The true bound is a whole number; usually only one is close enough."""
    if type(raw) is str:
        return _exact_decimal(raw, field.type)
    if type(raw) not in (int, float):
        return None
    units = Fraction(raw) * 10**field.type.scale
    error = abs(units) * Fraction(DOUBLE_ERROR)
    return math.ceil(units - error), math.floor(units + error)


def _string_bound(raw: JsonValue, _: Field) -> Range | None:
    if type(raw) is not str:
        return None
    if len(raw.encode(errors="surrogatepass")) < TRUNCATED_BYTES and not raw.endswith("\ufffd"):
        return raw, raw
    # Older versions of Spark append a replacement character to a maximum. Truncation inside a character leaves another
    # one, or a question mark.
    prefix = raw.rstrip("?\ufffd")
    return prefix, after_all_with_prefix(prefix)


def _date_bound(raw: JsonValue, _: Field) -> Range | None:
    return _single(parse_date(raw)) if type(raw) is str else None


def _time_bound(raw: JsonValue, field: Field) -> Range | None:
    moment = parse_moment(raw) if type(raw) is str else None
    if moment is None:
        return None
    low, high = _times(moment, field.type)
    truncated = moment.unit - 1 or _truncated(moment.wall)
    if low >= MODERN_TIMES:
        return low, high + truncated
    truncated += MINUTE if moment.offset else 0
    return low - truncated, high + truncated


BOUNDS: dict[str, Callable[[JsonValue, Field], Range | None]] = {
    **dict.fromkeys(INTEGER_BITS, _integer_bound),
    "boolean": _boolean_bound,
    "float": _floating_bound,
    "double": _floating_bound,
    "decimal": _decimal_bound,
    "string": _string_bound,
    "date": _date_bound,
    "timestamp": _time_bound,
    "timestamp_ntz": _time_bound,
}
