"""Summarizes a column per file from the log: the range of its values, and whether it may contain values and nulls.

Partition values are exact. Writers truncate or round statistics, so each bound is widened to the values that it may
have been written for:

    type                     written as                           low             high
    integer, boolean, date   exact value                          min             max
    double                   exact value, NaN left out            min             max
    float                    0.1 or 0.10000000149011612           nearest float   nearest float
    decimal                  double, with a rounding error        min - error     max + error
    string of < 32 bytes     exact value                          min             max
    longer string            may be truncated                     its prefix      after all strings with the prefix
    timestamp                truncated after its last digit       min             max + 1 unit of that digit - 1 µs
    timestamp before 1973    rounded up or down, offset without   min - unit      max + unit
                             its seconds                          - 1 minute      + 1 minute

Six digits may end in three zeros because the time was truncated to milliseconds. A timestamp without a time zone is
widened by 18 hours on both sides. A bound that is missing, of the wrong type, NaN or contradictory (min > max) becomes
the full range of the type.
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
"""The lows of all files and the highs of all files."""
Mask: TypeAlias = int
"""One byte per file, 0 or 1, in one large integer, so that & and | apply to all files at once."""
Presence: TypeAlias = tuple[Mask, Mask]
"""Whether some row of each file may have a value, and whether some row may be null."""

# The least and the greatest value of each type, or a bound beyond them.
FULL_RANGES: dict[str, Range] = {
    **dict.fromkeys([*INTEGER_BITS, "decimal", "date", "timestamp", "timestamp_ntz"], (-math.inf, math.inf)),
    **dict.fromkeys(["float", "double"], (-math.inf, ABOVE_ALL)),
    "boolean": (False, True),
    "string": ("", ABOVE_ALL),
}
FLOATS = frozenset({"float", "double"})
UNBOUNDED: Range = (-math.inf, ABOVE_ALL)
# Spark truncates strings to 32 characters, deltalake to 64 bytes. Both round a truncated maximum up; others do not.
TRUNCATED_BYTES = 32
# Null in Delta and in Hive. But deltalake writes an empty string as "" and reads it back as a string.
NULL_STRINGS = frozenset({"", "__HIVE_DEFAULT_PARTITION__"})
# Writers compute the bounds of a decimal in a few double operations, each with a relative error of up to 2 ** -53.
DOUBLE_ERROR = 2**-49
# 1973, to be safe. Before 1970, writers may round up or down, and UTC offsets had seconds that writers do not write.
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
    """A partition column. Many files share a value, so bounds and presence have one entry per distinct value."""

    may_be_nan = False

    def __init__(self, field: Field, columns: Columns) -> None:
        self.texts = columns.partition(field.path[0])
        self.by_text = {text: _partition_range(text, field.type) for text in set(self.texts)}
        lows, highs, values, nulls = zip(*self.by_text.values(), strict=True)
        self.bounds: Bounds = lows, highs
        self.presence: Presence = mask(values), mask(nulls)


class StatsColumn:
    """A data column, summarized by the statistics of each file."""

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
            full_range = FULL_RANGES[field.type.name]
            ranges = [(low, high) if low <= high else full_range for low, high in zip(lows, highs, strict=True)]
            return [low for low, _ in ranges], [high for _, high in ranges]
        return lows, highs

    @cached_property
    def presence(self) -> Presence:
        """Uses a null count only if it is zero or equals the number of rows.

            nullCount           may have a value    may be null
            0                   yes                 no
            numRecords (> 0)    no                  yes
            any other           yes                 yes

        Both counts may include deleted rows (`tightBounds` is false). They are therefore compared with each other, and
        never with the number of remaining rows.
        """
        null_counts = self._columns.null_count(self.field.path)
        are_integers = set(map(type, null_counts)) == {int}  # false and 0.0 equal 0, but are not counts
        if are_integers and null_counts.count(0) == len(null_counts):
            return mask([True] * len(null_counts)), 0
        values = [
            type(nulls) is not int or nulls <= 0 or nulls != rows
            for nulls, rows in zip(null_counts, self._columns.num_records(), strict=True)
        ]
        return mask(values), mask([type(nulls) is not int or nulls != 0 for nulls in null_counts])


def extremes_of(field: Field, columns: Columns) -> Range | None:
    """Returns the least low and the greatest high of all files, without computing the bounds of each file.

    Returns None unless all bounds are strings in the usual format.
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
    # A long maximum may be truncated, so its high is after all strings with that prefix. The high of a prefix of the
    # greatest maximum may therefore exceed the high of the greatest maximum itself.
    last = max(maximum)
    prefixes = {last[:length] for length in set(map(len, maximum))}.intersection(maximum)
    return min(minimum), max(after_all_with_prefix(text) if len(text) >= TRUNCATED_BYTES else text for text in prefixes)


def _time_extremes(minimum: Sequence[str], maximum: Sequence[str], name: str) -> Range | None:
    """Requires that all texts have the same length, and therefore the same precision."""
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
    except (ValueError, TypeError):  # TypeError if only some have a time zone
        return None
    return (first, last + (TRUNCATED_MICROSECONDS[length] or MAX_TRUNCATED)) if first >= MODERN_TIMES else None


def lows_of(field: Field, columns: Columns) -> Sequence[Any]:
    """Returns the low of each file, for sorting files. Does not check for contradictory bounds."""
    if field.in_partitions:
        column = PartitionColumn(field, columns)
        return [column.by_text[text][0] for text in column.texts]
    if field.type.name not in FULL_RANGES:
        return [UNBOUNDED[0]] * len(columns)
    return _side(0, columns.minimum(field.path), field)


def _partition_range(text: str | Absent | None, data_type: DataType) -> tuple[Any, Any, bool, bool]:
    """Returns the low, the high, whether rows may have a value, and whether they may be null.

    partition value            range       value   null
    missing from the log       full        yes     yes
    null                       full        no      yes
    "", not of type string     full        no      yes    Delta: an empty string is null
    "" or Hive's null, string  the text    yes     yes    some readers read it as a string
    of a type without order    full        yes     no
    valid                      its value   yes     no
    invalid                    full        yes     yes    some readers treat it as null
    """
    low, high = FULL_RANGES.get(data_type.name, UNBOUNDED)
    if isinstance(text, Absent):
        return low, high, True, True
    if data_type.name == "string" and text in NULL_STRINGS:
        return text, text, True, True
    if not text:
        return low, high, False, True
    if data_type.name not in EXACT:
        return low, high, True, False
    exact = EXACT[data_type.name](text, data_type)
    return (*exact, True, False) if exact else (low, high, True, True)


def _single(value: Any) -> Range | None:
    return None if value is None else (value, value)


def _exact_float(text: str, _: DataType) -> Range | None:
    number = parse_double(text)
    return nearest_floats(number) if isinstance(number, float) else _single(number)


def _exact_decimal(text: str, data_type: DataType) -> Range | None:
    """Returns the value in units of the last digit."""
    number = parse_decimal(text)
    units = Fraction(number or 0) * 10**data_type.scale
    return _single(units.numerator) if number is not None and units.denominator == 1 else None


def _exact_time(text: str, data_type: DataType) -> Range | None:
    moment = parse_moment(text)
    return moment and _times(moment, data_type)


def _times(moment: Moment, data_type: DataType) -> tuple[int, int]:
    if data_type.name == "timestamp":
        return instants(moment)
    # timestamp_ntz has no time zone. If the text has one, some readers apply it and others ignore it.
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
    """Returns the lows for minima (side 0), or the highs for maxima (side 1)."""
    if (bounds := _fast_bounds(side, raws, field)) is not None:
        return bounds
    bound, full_range = BOUNDS[field.type.name], FULL_RANGES[field.type.name]
    by_text = {text: bound(text, field) or full_range for text in {raw for raw in raws if type(raw) is str}}
    return [(by_text[raw] if type(raw) is str else bound(raw, field) or full_range)[side] for raw in raws]


def _fast_bounds(side: int, raws: Sequence[JsonValue], field: Field) -> Sequence[Any] | None:
    """Computes the same bounds as `BOUNDS`, several times faster. Returns None if a value has an unusual format."""
    json_types = set(map(type, raws))
    name = field.type.name
    if json_types == {EXACT_JSON_TYPES.get(name)} and not field.was_float:
        return raws
    if name == "string" and json_types == {str}:
        return _fast_string_bounds(side, raws) if "".join(raws).isascii() else None
    if name == "decimal" and json_types <= {int, float}:
        unit = 10**field.type.scale
        return [round(raw * unit) for raw in raws] if max(map(abs, raws)) * unit < 1 / DOUBLE_ERROR / 2 else None
    if name in EPOCHS and json_types == {str}:
        return _fast_time_bounds(side, raws, name)
    return None


def _fast_string_bounds(side: int, raws: Sequence[str]) -> Sequence[Any]:
    """Requires ASCII, so that a character is a byte."""
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
    widths = TRUNCATED_MICROSECONDS
    return [time + (widths[length] or _truncated_width(time)) for time, length in zip(times, lengths, strict=True)]


def _truncated_width(time: int) -> int:
    """Returns how much later the actual time may be. Some writers truncate to milliseconds and append three zeros."""
    return 0 if time % 1000 else MAX_TRUNCATED


# Types whose bounds in JSON are exact, with the Python type that they parse to.
EXACT_JSON_TYPES = {**dict.fromkeys(INTEGER_BITS, int), "boolean": bool, "double": float}
MICROSECOND = timedelta(microseconds=1)
EPOCHS = {"timestamp": datetime(1970, 1, 1, tzinfo=UTC), "timestamp_ntz": datetime(1970, 1, 1)}  # noqa: DTZ001
# The microseconds that may be truncated, by the length of a text without its time zone. The 23 characters of
# 2024-01-01T00:00:00.000 leave out up to 999 of them.
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
    """Returns the range in units of the last digit. Usually it contains one whole number, the actual bound."""
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
    # Older versions of Spark append a replacement character to a maximum. Truncation inside a character leaves a
    # replacement character or a question mark.
    prefix = raw.rstrip("?\ufffd")
    return prefix, after_all_with_prefix(prefix)


def _date_bound(raw: JsonValue, _: Field) -> Range | None:
    return _single(parse_date(raw)) if type(raw) is str else None


def _time_bound(raw: JsonValue, field: Field) -> Range | None:
    moment = parse_moment(raw) if type(raw) is str else None
    if moment is None:
        return None
    low, high = _times(moment, field.type)
    width = moment.unit - 1 or _truncated_width(moment.wall)
    if low >= MODERN_TIMES:
        return low, high + width
    width += MINUTE if moment.offset else 0
    return low - width, high + width


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
