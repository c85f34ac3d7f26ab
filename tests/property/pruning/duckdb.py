"""Random JSON hints as DuckDB's client sends them, and their truth by the rules of DuckDB.

The client declares every column as `string` (older versions: some as `int`). A text may stand for constants of several
types, so one pair of declared type and text occurs with several meanings.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from tests.property.pruning.column_types import (
    DAY,
    Operand,
    date_text,
    float_text,
    floating_text,
    single,
    time_text,
)
from tests.property.pruning.predicates import (
    JSON_OPERATORS,
    Column,
    Drawing,
    Predicate,
    comparison,
    is_null,
    unknown_predicate,
)

INDIA = 19_800_000_000
PRECISE = Context(prec=50)


def constant(value_type: str, text: str, value: Any, of_column: Callable[[Any], Any] = lambda value: value) -> Operand:
    return Operand("", lambda _: value, lambda own, _utc_offset: of_column(own), json=(value_type, text))


def decimal_as_double(value: Decimal) -> float:
    """DuckDB divides the digits by a power of ten, which is not the nearest double if there are many digits."""
    sign, digits, exponent = value.as_tuple()
    number = float(int("".join(map(str, digits)))) / float(10 ** max(-int(exponent), 0))
    return -number if sign else number


def integers(value: int) -> list[Operand]:
    return [
        constant("int", str(value), value),
        constant("string", str(value), value),
        constant("int", repr(float(value)), float(value), float),
        constant("string", f"{value}.5", Fraction(Decimal(f"{value}.5"))),
        constant("string", f"{value}.5", value + (1 if value >= 0 else -1)),  # a string, rounded to the column's type
        constant("string", str(value * 1000), value * 1000),
    ]


def doubles(value: float) -> list[Operand]:
    text = floating_text(value).lower().replace("infinity", "inf")
    forms = [constant("int", text, value), constant("string", text, value)]
    if math.isfinite(value) and abs(value) < 1e15:
        texts = [f"{Decimal(repr(value)):f}", f"{Decimal(value):.20f}", f"{value:.3f}"]
        forms += [constant("string", text, decimal_as_double(Decimal(text))) for text in texts if len(text) < 38]
        forms += [constant("int", float_text(single(value)), single(value))]
        forms += [constant("int", str(int(value)), float(int(value)))]
    return forms


def floats(value: float) -> list[Operand]:
    text = float_text(value).lower().replace("infinity", "inf")
    forms = [constant(value_type, text, key) for value_type in ("int", "string") for key in (value, float(text))]
    if math.isfinite(value) and abs(value) < 2**63:
        whole = int(value) + 1
        forms += [constant("int", str(whole), key) for key in (single(float(whole)), float(whole), whole)]
    return forms


def decimals(value: Decimal) -> list[Operand]:
    text, whole = f"{value:f}", int(value)
    digit_more = Decimal(f"{value:f}5")
    return [
        constant("string", text, Fraction(value)),
        constant("string", text, float(value), float),  # as Spark compares a decimal with a string
        constant("int", repr(float(value)), float(value), decimal_as_double),
        constant("int", repr(decimal_as_double(value)), decimal_as_double(value), decimal_as_double),
        constant("int", str(whole), Fraction(whole)),
        constant("string", str(whole), Fraction(whole)),
        constant("string", f"{digit_more:f}", Fraction(digit_more)),
        constant("string", f"{digit_more:f}", Fraction(digit_more.quantize(value, ROUND_HALF_UP, PRECISE))),
    ]


def strings(value: str) -> list[Operand]:
    """DuckDB compares a string column with a number as numbers."""
    as_number = lambda text: int(text) if text.isascii() and text.isdigit() else -1  # noqa: E731
    numbers = [constant("int", value, as_number(value), as_number)] if as_number(value) >= 0 else []
    return [constant("string", value, value), *numbers]


def booleans(value: bool) -> list[Operand]:
    return [constant(value_type, str(value).lower(), value) for value_type in ("int", "string")]


def dates(value: int) -> list[Operand]:
    noon = value * DAY + DAY // 2
    return [
        constant("string", date_text(value), value),
        constant("string", time_text(noon, between=" "), noon, lambda own: own * DAY),
    ]


def local_times(value: int) -> list[Operand]:
    naive, day = time_text(value, between=" "), value // DAY
    return [
        constant("string", naive, value),
        constant("string", date_text(day), day * DAY),
        constant("string", f"{naive}789", value),
        constant("string", f"{naive}789", value + 1),
        constant("string", f"{naive}Z", value),
    ]


def times(value: int) -> list[Operand]:
    """A time without a time zone is in UTC or in the time zone of the session."""
    forms = local_times(value)
    in_session = [
        replace(form, key=lambda utc_offset, key=form.key: key(utc_offset) - utc_offset) for form in forms[:4]
    ]
    indian = f"{time_text(value + INDIA, between=' ')}+05:30"
    return [*forms, *in_session, constant("string", indian, value)]


OPERANDS: dict[str, Callable[[Any], list[Operand]]] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), integers),
    "double": doubles,
    "float": floats,
    "decimal10": decimals,
    "decimal38": decimals,
    "string": strings,
    "boolean": booleans,
    "date": dates,
    "timestamp": times,
    "timestamp_ntz": local_times,
    "binary": lambda _: [],
}


def declared_column(column: Column, declared: str) -> dict:
    return column.json | {"valueType": declared}


def duckdb_comparison(column: Column, operator: str, operand: Operand, *, declared: str, mirrored: bool) -> Predicate:
    compared = comparison(column, operator, operand, mirrored=mirrored)
    children = compared.json["children"]
    nodes = [declared_column(column, declared) if child["op"] == "column" else child for child in children]
    return replace(compared, json=compared.json | {"children": nodes})


def duckdb_leaf(drawing: Drawing, column: Column) -> Predicate:
    declared = "string" if column.type.name == "string" else drawing.pick(["string", "string", "int"])
    node = declared_column(column, declared)
    if drawing.chance(8):
        missing = drawing.pick([None, {}])
        operator = drawing.pick(["not", "isNull", "equal", "and"])
        children = [missing] if operator in ("not", "isNull") else [node, missing]
        return replace(unknown_predicate(column), json={"op": operator, "children": children})
    name = "decimal38" if column.type.name.startswith("decimal") else column.type.name  # golden tables have others
    operands = OPERANDS[name](drawing.value(column))
    if not operands or drawing.chance(6):
        return replace(is_null(column, negated=False), json={"op": "isNull", "children": [node]})
    operator, operand = drawing.pick([*JSON_OPERATORS]), drawing.pick(operands)
    return duckdb_comparison(column, operator, operand, declared=declared, mirrored=drawing.chance(2))
