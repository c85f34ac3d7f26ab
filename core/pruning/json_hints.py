"""Reads `jsonPredicateHints`: a tree of `{"op", "children"}` with columns and literals as its leaves.

Hints are best effort. What is not understood becomes `Unknown` where it stands, so that the rest still
counts; what is too large or no JSON at all is no hint.
"""

from typing import Any

import orjson

from core.pruning.expressions import (
    And,
    Column,
    Comparison,
    ComparisonOperator,
    Expression,
    IsNull,
    Literal,
    Not,
    Or,
    Unknown,
)
from core.pruning.values import PARSERS, comparable, exact_value

MAX_CHARACTERS = 1024 * 1024
MAX_DEPTH = 100

ALIASES = {"boolean": "bool", "integer": "int"}
COMPARISONS: dict[str, ComparisonOperator] = {
    "equal": "=",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
}


class _TooDeepError(Exception):
    pass


def parse_json_hints(text: str) -> Expression | None:
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        document = orjson.loads(text)
        # A list is not in the protocol's grammar, but clients send one: all of its members hold.
        return _conjunction(document) if isinstance(document, list) else _expression(document, 1)
    except (ValueError, _TooDeepError):
        return None


def _conjunction(documents: list[Any]) -> Expression | None:
    return And(tuple(_expression(document, 1) for document in documents)) if documents else None


def _expression(node: Any, depth: int) -> Expression:
    if depth > MAX_DEPTH:
        raise _TooDeepError
    if not isinstance(node, dict):
        return Unknown()
    children = node.get("children")
    operands = [_expression(child, depth + 1) for child in children] if isinstance(children, list) else []
    match node.get("op"), operands:
        case "column", []:
            return _column(node)
        case "literal", []:
            return _literal(node)
        case "isNull", [Column() as column]:
            return IsNull(column)
        case "not", [operand]:
            return Not(operand)
        case "and", [_, _, *_]:
            return And(tuple(operands))
        case "or", [_, _, *_]:
            return Or(tuple(operands))
        case str(op), [Column() | Literal() as left, Column() | Literal() as right]:
            return _comparison(op, left, right)
    return Unknown()


def _comparison(op: str, left: Column | Literal, right: Column | Literal) -> Expression:
    if op in COMPARISONS and comparable(left.value_type, right.value_type):
        return Comparison(COMPARISONS[op], left, right)
    return Unknown()


def _column(node: dict[str, Any]) -> Expression:
    name, value_type = node.get("name"), _value_type(node)
    return Column(name, value_type) if isinstance(name, str) and value_type else Unknown()


def _literal(node: dict[str, Any]) -> Expression:
    text, value_type = node.get("value"), _value_type(node)
    value = exact_value(text, value_type) if isinstance(text, str) and value_type else None
    return Literal(value, value_type) if value is not None and value_type else Unknown()


def _value_type(node: dict[str, Any]) -> str | None:
    value_type = node.get("valueType")
    if not isinstance(value_type, str):
        return None
    value_type = ALIASES.get(value_type, value_type)
    return value_type if value_type in PARSERS else None
