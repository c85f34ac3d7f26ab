"""Statistics of a column as Spark, deltalake and a careless writer write them.

Each writer takes the values of a column in a file, without nulls, and returns the minimum and the maximum as JSON
fragments. None means that the writer leaves out the bound.
"""

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

from tests.property.pruning.column_types import ColumnType, date_text, float_text, offset_text, order, time_text
from tests.property.pruning.predicates import Drawing

Bounds: TypeAlias = tuple[str | None, str | None]
Writer: TypeAlias = Callable[[ColumnType, list[Any], Drawing], Bounds]


def extremes(values: list[Any]) -> tuple[Any, Any]:
    return min(values, key=order), max(values, key=order)


def without_nan(values: list[Any]) -> list[Any]:
    return [value for value in values if not (isinstance(value, float) and math.isnan(value))]


def number_text(value: float) -> str:
    return repr(value) if math.isfinite(value) else json.dumps(f"{'-' if value < 0 else ''}Infinity")


def write_as_spark(column_type: ColumnType, values: list[Any], drawing: Drawing) -> Bounds:
    """Truncates strings to 32 characters, and times to milliseconds in the writer's time zone. Includes NaN."""
    if column_type.name in ("boolean", "binary") or not values:
        return None, None
    least, greatest = extremes(values)
    match column_type.name:
        case "string":
            return json.dumps(least[:32]), json.dumps(truncate_maximum_as_spark(greatest))
        case "float" | "double":
            texts = ['"NaN"' if math.isnan(value) else spark_number(column_type, value) for value in (least, greatest)]
        case "date":
            texts = [json.dumps(date_text(value)) for value in (least, greatest)]
        case "timestamp":
            utc_offset = drawing.pick([0, -28_800_000_000, 19_800_000_000], "time zone of the writer")
            suffix = "Z" if utc_offset == 0 else offset_text(utc_offset)
            texts = [json.dumps(time_text(value + utc_offset, digits=3) + suffix) for value in (least, greatest)]
        case "timestamp_ntz":
            texts = [json.dumps(time_text(value, digits=3)) for value in (least, greatest)]
        case _:
            texts = [f"{value:f}" if isinstance(value, Decimal) else str(value) for value in (least, greatest)]
    return texts[0], texts[1]


def spark_number(column_type: ColumnType, value: float) -> str:
    return float_text(value) if column_type.name == "float" and math.isfinite(value) else number_text(value)


def truncate_maximum_as_spark(text: str) -> str:
    if len(text) <= 32:
        return text
    return text[:32] + ("\x7f" if ord(text[32]) < 0x7F else "\U0010ffff")


def write_as_deltalake(column_type: ColumnType, values: list[Any], drawing: Drawing) -> Bounds:
    """Truncates strings to 64 bytes, writes decimals as doubles, and leaves out NaN and infinity."""
    values = without_nan(values)
    if column_type.name == "binary" or not values:
        return None, None
    least, greatest = extremes(values)
    match column_type.name:
        case "string":
            return json.dumps(truncate_to_bytes(least, 64)), json.dumps(truncate_maximum_as_deltalake(greatest))
        case "float" | "double":
            texts = [repr(value) if math.isfinite(value) else None for value in (least, greatest)]
        case "boolean":
            texts = [json.dumps(value) for value in (least, greatest)]
        case "date":
            texts = [json.dumps(date_text(value)) for value in (least, greatest)]
        case "timestamp" | "timestamp_ntz":
            between, suffix = ("T", "Z") if column_type.name == "timestamp" else (" ", "")
            texts = [
                json.dumps(time_text(value, digits=3 if value // 1000 % 1000 else 0, between=between) + suffix)
                for value in (least, greatest)
            ]
        case _:
            texts = [
                repr(decimal_as_double(value)) if isinstance(value, Decimal) else str(value)
                for value in (least, greatest)
            ]
    return texts[0], texts[1]


def decimal_as_double(value: Decimal) -> float:
    _, _, exponent = value.as_tuple()
    return float(int(value.scaleb(-exponent))) / math.pow(10, -exponent)


def truncate_to_bytes(text: str, size: int) -> str:
    return text.encode()[:size].decode(errors="ignore")


def truncate_maximum_as_deltalake(text: str) -> str:
    prefix = truncate_to_bytes(text, 64)
    if prefix == text:
        return text
    while prefix and prefix[-1] == "\U0010ffff":
        prefix = prefix[:-1]
    following = 0xE000 if prefix and prefix[-1] == "\ud7ff" else ord(prefix[-1]) + 1 if prefix else 0
    return prefix[:-1] + chr(following) if prefix else text


def write_carelessly(column_type: ColumnType, values: list[Any], drawing: Drawing) -> Bounds:
    """Writes like Spark or deltalake, but truncates a maximum without rounding it up, and leaves out some bounds."""
    low, high = drawing.pick([write_as_spark, write_as_deltalake])(column_type, values, drawing)
    if column_type.name == "string" and values:
        least, greatest = extremes(values)
        truncate = drawing.pick([lambda text: text[:32], lambda text: truncate_to_bytes(text, 64)])
        low, high = json.dumps(truncate(least)), json.dumps(truncate(greatest))
    return None if drawing.chance(4) else low, None if drawing.chance(4) else high


def write_exactly(column_type: ColumnType, values: list[Any], drawing: Drawing) -> Bounds:
    """Writes exact bounds for all types, which no real writer does."""
    values = without_nan(values)
    if column_type.name == "binary" or not values:
        return None, None
    least, greatest = extremes(values)
    match column_type.name:
        case "string" | "boolean":
            return json.dumps(least), json.dumps(greatest)
        case "timestamp" | "timestamp_ntz":
            suffix = "Z" if column_type.name == "timestamp" else ""
            return json.dumps(time_text(least) + suffix), json.dumps(time_text(greatest) + suffix)
    return write_as_spark(column_type, values, drawing)


WRITERS: list[Writer] = [write_as_spark, write_as_deltalake, write_carelessly]
