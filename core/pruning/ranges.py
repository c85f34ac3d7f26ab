"""What the log says of a column in each of many files: the range of its values, and whether some may be null.

Partition values are exact. Statistics are bounds, and writers cut them: a string's to a prefix, a time's to
milliseconds, a decimal's to a double; and NaN is left out of them. Each bound is moved so far that whatever was cut off
is inside again. What is missing, of the wrong kind or contradictory is no bound.
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
    DAY,
    MINUTE,
    TOP,
    ZONES,
    Moment,
    Top,
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
"""The lows and the highs of all files."""
Plane: TypeAlias = int
"""A truth for each file: one byte each, 0 or 1, in one large number; so & and | go over all files at once."""
Presence: TypeAlias = tuple[Plane, Plane]
"""Whether some row may have a value, and whether some may be null."""

# The least and the greatest value of each type, or what stands beyond them.
EVERYTHING: dict[str, Range] = {
    **dict.fromkeys([*INTEGER_BITS, "decimal", "date", "timestamp", "timestamp_ntz"], (-math.inf, math.inf)),
    **dict.fromkeys(["float", "double"], (-math.inf, TOP)),
    "boolean": (False, True),
    "string": ("", TOP),
}
FLOATS = frozenset({"float", "double"})
NOTHING_KNOWN: Range = (-math.inf, TOP)
# Spark cuts strings to 32 characters, deltalake to 64 bytes, and both see to it that a maximum stays one. Others cut.
CUT_BYTES = 32
# To Delta the one is null, and to Hive the other; but deltalake writes an empty string so, and reads it back as one.
NULL_STRINGS = frozenset({"", "__HIVE_DEFAULT_PARTITION__"})
# Writers compute a decimal's bounds in a few steps of doubles, each of which is off by 2 ** -53 of the value.
DOUBLE_ERROR = 2**-49
# Since 1973: before 1970, a cut may be towards either side; and zones were seconds off, which no writer writes.
MODERN_TIMES = 3 * 365 * DAY + DAY


def plane(truths: Iterable[bool]) -> Plane:
    return int.from_bytes(bytes(truths))


class KnownColumn(Protocol):
    @property
    def bounds(self) -> Bounds: ...

    @property
    def presence(self) -> Presence: ...

    @property
    def may_be_nan(self) -> bool:
        """Besides what the bounds say."""


class PartitionColumn:
    """A partition column of some files, of which many share a value: the ranges are of the distinct values."""

    may_be_nan = False

    def __init__(self, field: Field, columns: Columns) -> None:
        self.texts = columns.partition(field.path[0])
        self.of_text = {text: _partition_range(text, field.type) for text in set(self.texts)}
        lows, highs, values, nulls = zip(*self.of_text.values(), strict=True)
        self.bounds: Bounds = lows, highs
        self.presence: Presence = plane(values), plane(nulls)


class StatsColumn:
    """A data column of some files, as their statistics describe it."""

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
            everything = EVERYTHING[field.type.name]
            sound = [(low, high) if low <= high else everything for low, high in zip(lows, highs, strict=True)]
            return [low for low, _ in sound], [high for _, high in sound]
        return lows, highs

    @cached_property
    def presence(self) -> Presence:
        """A null count says something only if it is zero, or all rows of the file.

        Between the two it may count deleted rows too (`tightBounds` false), and tells no more than no count at all.
        """
        null_counts = self._columns.null_count(self.field.path)
        if null_counts.count(0) == len(null_counts):
            return plane([True] * len(null_counts)), 0
        values = [
            type(nulls) is not int or nulls <= 0 or nulls != rows
            for nulls, rows in zip(null_counts, self._columns.num_records(), strict=True)
        ]
        return plane(values), plane([nulls != 0 for nulls in null_counts])


def extremes_of(field: Field, columns: Columns) -> Range | None:
    """The least low and the greatest high of all files, in less time than it takes to find each of them.

    Only for texts, and only where all of them are as most are; None else.
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
    # The bound of a text that was cut is beyond all that begin with it, so it may be beyond that of a longer one.
    last = max(maximum)
    begin_it = {last[:length] for length in set(map(len, maximum))}.intersection(maximum)
    return min(minimum), max(after_all_with_prefix(text) if len(text) >= CUT_BYTES else text for text in begin_it)


def _time_extremes(minimum: Sequence[str], maximum: Sequence[str], name: str) -> Range | None:
    """Where all texts are of one length, and so were cut alike."""
    epoch = EPOCHS[name]
    lengths = {*map(len, minimum), *map(len, maximum)}
    length = lengths.pop() - (epoch.tzinfo is not None)
    if lengths or length not in CUTS:
        return None
    if epoch.tzinfo is not None and {*map(itemgetter(-1), minimum), *map(itemgetter(-1), maximum)} != {"Z"}:
        return None
    try:
        lows, highs = list(map(datetime.fromisoformat, minimum)), list(map(datetime.fromisoformat, maximum))
        if any(map(gt, lows, highs)):
            return None
        first, last = ((time - epoch) // MICROSECOND for time in (min(lows), max(highs)))
    except (ValueError, TypeError):  # also where some have a zone and others have none
        return None
    return (first, last + (CUTS[length] or LONGEST_CUT)) if first >= MODERN_TIMES else None


def lows_of(field: Field, columns: Columns) -> Sequence[Any]:
    """For whoever puts files in order: of bounds that contradict each other too."""
    if field.in_partitions:
        column = PartitionColumn(field, columns)
        return [column.of_text[text][0] for text in column.texts]
    if field.type.name not in EVERYTHING:
        return [NOTHING_KNOWN[0]] * len(columns)
    return _side(0, columns.minimum(field.path), field)


def _partition_range(text: str | Absent | None, data_type: DataType) -> tuple[Any, Any, bool, bool]:
    low, high = EVERYTHING.get(data_type.name, NOTHING_KNOWN)
    if isinstance(text, Absent):
        return low, high, True, True
    if data_type.name == "string" and text in NULL_STRINGS:
        return text, text, True, True
    if not text:  # Delta: an empty text is null, whatever the type
        return low, high, False, True
    if data_type.name not in EXACT:
        return low, high, True, False
    exact = EXACT[data_type.name](text, data_type)
    return (*exact, True, False) if exact else (low, high, True, True)  # some read a text of another type as null


def _just(value: Any) -> Range | None:
    return None if value is None else (value, value)


def _exact_float(text: str, _: DataType) -> Range | None:
    number = parse_double(text)
    return nearest_floats(number) if isinstance(number, float) else _just(number)


def _exact_decimal(text: str, data_type: DataType) -> Range | None:
    """In units of the last digit."""
    number = parse_decimal(text)
    units = Fraction(number or 0) * 10**data_type.scale
    return _just(units.numerator) if number is not None and units.denominator == 1 else None


def _exact_time(text: str, data_type: DataType) -> Range | None:
    moment = parse_moment(text)
    return moment and _times(moment, data_type)


def _times(moment: Moment, data_type: DataType) -> tuple[int, int]:
    if data_type.name == "timestamp":
        return instants(moment)
    zones = 0 if moment.offset is None else ZONES  # a zone has no place here: it may or may not count
    return moment.wall - zones, moment.wall + zones


EXACT: dict[str, Callable[[str, DataType], Range | None]] = {
    "boolean": lambda text, _: _just(parse_boolean(text)),
    **dict.fromkeys(INTEGER_BITS, lambda text, of: _just(parse_whole_number(text, INTEGER_BITS[of.name]))),
    "float": _exact_float,
    "double": lambda text, _: _just(parse_double(text)),
    "decimal": _exact_decimal,
    "string": lambda text, _: _just(text),
    "date": lambda text, _: _just(parse_date(text)),
    "timestamp": _exact_time,
    "timestamp_ntz": _exact_time,
}


def _side(side: int, raws: Sequence[JsonValue], field: Field) -> Sequence[Any]:
    """The low (0) of what each minimum may stand for, or the high (1) of each maximum."""
    if (bounds := _at_once(side, raws, field)) is not None:
        return bounds
    bound, everything = BOUNDS[field.type.name], EVERYTHING[field.type.name]
    texts = {text: bound(text, field) or everything for text in {raw for raw in raws if type(raw) is str}}
    return [(texts[raw] if type(raw) is str else bound(raw, field) or everything)[side] for raw in raws]


def _at_once(side: int, raws: Sequence[JsonValue], field: Field) -> Sequence[Any] | None:
    """What `BOUNDS` says of each, where the whole column is of the usual form: several times as fast."""
    kinds = set(map(type, raws))
    name = field.type.name
    if kinds == {PLAIN.get(name)} and not field.was_float:
        return raws
    if name == "string" and kinds == {str}:
        return _texts_at_once(side, raws) if "".join(raws).isascii() else None
    if name == "decimal" and kinds <= {int, float}:
        unit = 10**field.type.scale
        return [round(raw * unit) for raw in raws] if max(map(abs, raws)) * unit < 1 / DOUBLE_ERROR / 2 else None
    if name in EPOCHS and kinds == {str}:
        return _times_at_once(side, raws, name)
    return None


def _texts_at_once(side: int, raws: Sequence[str]) -> Sequence[Any]:
    """Of ASCII, where a character is a byte."""
    if max(map(len, raws)) < CUT_BYTES:
        return raws
    if side == 0:
        return [raw if len(raw) < CUT_BYTES else raw.rstrip("?") for raw in raws]
    return [raw if len(raw) < CUT_BYTES else after_all_with_prefix(raw.rstrip("?")) for raw in raws]


def _times_at_once(side: int, raws: Sequence[str], name: str) -> Sequence[int] | None:
    epoch = EPOCHS[name]
    lengths = [len(raw) - (1 if raw[-1:] == "Z" else 6) for raw in raws] if epoch.tzinfo else list(map(len, raws))
    if not CUTS.keys() >= set(lengths):
        return None
    try:
        times = [(time - epoch) // MICROSECOND for time in map(datetime.fromisoformat, raws)]
    except (ValueError, TypeError):
        return None
    if min(times) < MODERN_TIMES:
        return None
    return [time + (CUTS[length] or _cut(time)) for time, length in zip(times, lengths, strict=True)] if side else times


def _cut(time: int) -> int:
    """What a text of microseconds may lack: some writers cut to milliseconds, and write three zeros after them."""
    return 0 if time % 1000 else LONGEST_CUT


PLAIN = {**dict.fromkeys(INTEGER_BITS, int), "boolean": bool, "double": float}
MICROSECOND = timedelta(microseconds=1)
EPOCHS = {"timestamp": datetime(1970, 1, 1, tzinfo=UTC), "timestamp_ntz": datetime(1970, 1, 1)}  # noqa: DTZ001
# By the length of a text without its zone, what its last digit may have cut off: of 2024-01-01T00:00:00.000 less than
# a millisecond.
CUTS = {19: 999_999, 23: 999, 26: 0}
LONGEST_CUT = 999
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
    if number is None or isinstance(number, Top):  # as a bound, NaN may mean anything
        return None
    if field.type.name == "float":
        return nearest_floats(number)
    meanings = (number, *nearest_floats(number)) if field.was_float else (number,)
    return min(meanings), max(meanings)


def _decimal_bound(raw: JsonValue, field: Field) -> Range | None:
    """In units of the last digit, of which the true bound is a whole number: mostly there is but one near enough."""
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
    if len(raw.encode(errors="surrogatepass")) < CUT_BYTES and not raw.endswith("\ufffd"):
        return raw, raw
    # Older Sparks put a replacement character at the end of a maximum. A cut through a character left another, or a
    # question mark.
    prefix = raw.rstrip("?\ufffd")
    return prefix, after_all_with_prefix(prefix)


def _date_bound(raw: JsonValue, _: Field) -> Range | None:
    return _just(parse_date(raw)) if type(raw) is str else None


def _time_bound(raw: JsonValue, field: Field) -> Range | None:
    moment = parse_moment(raw) if type(raw) is str else None
    if moment is None:
        return None
    low, high = _times(moment, field.type)
    cut = moment.unit - 1 or _cut(moment.wall)
    if low >= MODERN_TIMES:
        return low, high + cut
    cut += MINUTE if moment.offset else 0
    return low - cut, high + cut


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
