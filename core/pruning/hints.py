"""From a request's hints to the question that is asked of each file: may it have a matching row?

In a file, a partition column has one value, which the log knows exactly; every other column is unknown. So a
file is dropped only if no row with its partition values can match.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from core.pruning.evaluate import TRUE, Missing, evaluate
from core.pruning.expressions import And, Column, Comparison, Expression, IsNull, Not, Or
from core.pruning.json_hints import parse_json_hints
from core.pruning.values import comparable, exact_value

MayMatch: TypeAlias = Callable[[Mapping[str, str | None]], bool]

VALUE_TYPES = {
    "boolean": "bool",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "string": "string",
    "date": "date",
    "float": "float",
    "double": "double",
    "timestamp": "timestamp",
}
# Each distinct partition visits each node of the expression, about 2.5 µs a visit. What is over this is kept unseen: a
# hint may cost a second, not a function's whole time.
MAX_VISITS = 400_000
# Strings that do not compare by their bytes: under a collation, or padded to a length.
SPECIAL_STRINGS = frozenset({"__COLLATIONS", "__CHAR_VARCHAR_TYPE_STRING"})


def compile_hints(
    json_predicate_hints: str | None, *, schema_string: str, partition_columns: Sequence[str]
) -> MayMatch | None:
    """None if the hints can drop no file: there are none, or they say nothing about a partition column."""
    expression = parse_json_hints(json_predicate_hints) if json_predicate_hints else None
    if expression is None:
        return None
    partitions = {name.lower(): (name, value_type) for name, value_type in _types(schema_string, partition_columns)}
    used = {
        column: partitions[column.name.lower()]
        for column in _columns(expression)
        if column.name.lower() in partitions and comparable(column.value_type, partitions[column.name.lower()][1])
    }
    if not used:
        return None
    affordable = MAX_VISITS // _size(expression)
    if not affordable:
        return None
    names = tuple({name: None for name, _ in used.values()})
    verdicts: dict[tuple[str | Missing | None, ...], bool] = {}

    def may_match(partition_values: Mapping[str, str | None]) -> bool:
        partition = tuple([partition_values.get(name, Missing.UNKNOWN) for name in names])
        verdict = verdicts.get(partition)
        if verdict is None:
            if len(verdicts) >= affordable:
                return True
            texts = dict(zip(names, partition, strict=True))
            values = {column: _value(texts[name], value_type) for column, (name, value_type) in used.items()}
            verdict = verdicts[partition] = bool(evaluate(expression, values) & TRUE)
        return verdict

    return may_match


def _value(text: str | Missing | None, value_type: str) -> Any:
    if isinstance(text, Missing):
        return text
    if not text:  # Delta: an empty text is null, whatever the type
        return Missing.NULL
    value = exact_value(text, value_type)
    return Missing.UNKNOWN if value is None else value


def _types(schema_string: str, partition_columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The partition columns whose values we can compare, with the type of these."""
    try:
        fields = orjson.loads(schema_string)["fields"]
        for field in fields:
            value_type = VALUE_TYPES.get(field["type"]) if isinstance(field["type"], str) else None
            special = SPECIAL_STRINGS & (field.get("metadata") or {}).keys()
            # A name with a dot could as well mean a field inside a struct.
            if value_type and not special and field["name"] in partition_columns and "." not in field["name"]:
                yield field["name"], value_type
    except (ValueError, KeyError, TypeError, AttributeError):
        return


def _size(expression: Expression) -> int:
    match expression:
        case Not(operand):
            return 1 + _size(operand)
        case And(operands) | Or(operands):
            return 1 + sum(map(_size, operands))
    return 1


def _columns(expression: Expression) -> Iterator[Column]:
    match expression:
        case Column():
            yield expression
        case IsNull(column):
            yield column
        case Comparison(_, left, right):
            yield from _columns(left)
            yield from _columns(right)
        case Not(operand):
            yield from _columns(operand)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _columns(operand)
