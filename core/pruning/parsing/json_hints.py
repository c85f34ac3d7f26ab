"""Parses `jsonPredicateHints`: a tree of `{"op", "children"}` whose leaves are columns and literals.

A part that is not understood becomes `Unknown`. The other parts still prune. DuckDB's client declares types as `string`
or `int` that are neither, so literals of these types are read by the type of their column (`core.pruning.texts`).
"""

from collections.abc import Callable
from typing import Any

import orjson

from core.pruning.expressions import (
    And,
    Column,
    Comparison,
    Expression,
    IsNull,
    Literal,
    LiteralKind,
    Not,
    Operator,
    Or,
    Unknown,
    named_columns,
)
from core.pruning.values import (
    parse_boolean,
    parse_date,
    parse_double,
    parse_moment,
    parse_whole_number,
)

MAX_CHARACTERS = 1024 * 1024
MAX_DEPTH = 100
# A node takes about 3 µs. A JSON hint of 1 MiB that consists of comparisons has about this many.
MAX_NODES = 30_000

LITERALS: dict[str, tuple[LiteralKind, Callable[[str], Any]]] = {
    "bool": ("boolean", parse_boolean),
    "int": ("integer", lambda text: parse_whole_number(text, 32)),
    "long": ("integer", lambda text: parse_whole_number(text, 64)),
    "string": ("string", str),
    "date": ("date", parse_date),
    "float": ("float", parse_double),
    "double": ("double", parse_double),
    "timestamp": ("timestamp", parse_moment),
}
# The names in the protocol, and other names that clients send.
VALUE_TYPES = {**{name: name for name in LITERALS}, "boolean": "bool", "integer": "int"}
# DuckDB's client declares columns and literals of any type as one of these.
MISDECLARED = frozenset({"string", "int"})
MISDECLARED_KINDS = frozenset({"string", "integer", "text"})
OPERATORS: dict[str, Operator] = {
    "equal": "=",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
}


# The kinds of literals that a column may be compared with. `int` and `long` have the same kind.
COLUMN_KINDS = {
    value_type: MISDECLARED_KINDS if value_type in MISDECLARED else frozenset({kind})
    for value_type, (kind, _) in LITERALS.items()
}


class _RefusedError(Exception):
    """The hint is rejected as a whole. The message is the reason."""


def parse_json_hints(text: str) -> Expression:
    if len(text) > MAX_CHARACTERS:
        return _unknown_hint(text, f"it has more than {MAX_CHARACTERS} characters")
    try:
        return _Parser().parse(orjson.loads(text))
    except ValueError:
        return _unknown_hint(text, "it is not valid JSON")
    except _RefusedError as reason:
        return _unknown_hint(text, str(reason))


def _unknown_hint(text: str, reason: str) -> Unknown:
    return Unknown(text[:80], reason)


class _Parser:
    def __init__(self) -> None:
        self._nodes = 0
        self._columns: dict[tuple[str, str], Column] = {}

    def parse(self, document: Any) -> Expression:
        if not isinstance(document, list):
            return self._expression(document, 1)
        # The protocol does not define lists, but clients send them. Their members are joined by AND.
        members = self._expressions(document, 1)
        return And(members) if members else Unknown("[]", "it is empty")

    def _expressions(self, nodes: list[Any], depth: int) -> tuple[Expression, ...]:
        self._nodes += len(nodes)
        if depth > MAX_DEPTH:
            raise _RefusedError(f"it has more than {MAX_DEPTH} levels")
        if self._nodes > MAX_NODES:
            raise _RefusedError(f"it has more than {MAX_NODES} parts")
        return tuple([self._expression(node, depth) for node in nodes])

    def _expression(self, node: Any, depth: int) -> Expression:
        if not isinstance(node, dict):
            return Unknown(f"a {type(node).__name__}", "it is not a predicate")
        op, children = node.get("op"), node.get("children")
        operands = self._expressions(children, depth + 1) if isinstance(children, list) else ()
        match op, operands:
            case "column", ():
                return self._column(node)
            case "literal", ():
                return _literal(node)
            case "isNull", (Column() as column,):
                return IsNull(column)
            case "not", (operand,):
                return Not(operand)
            case "and", (_, _, *_):
                return And(operands)
            case "or", (_, _, *_):
                return Or(operands)
            case str(), (left, right) if op in OPERATORS:
                return _comparison(op, left, right)
        return _unknown(op, operands, "the protocol has no such predicate")

    def _column(self, node: dict[str, Any]) -> Expression:
        name, value_type = node.get("name"), _value_type(node)
        if not (isinstance(name, str) and value_type):
            columns = ((name,),) if isinstance(name, str) else ()
            return Unknown(f"column {_shown(name)}", "the protocol has no such column type", columns)
        column = self._columns.get((name, value_type))
        if column is None:
            column = Column((name,), value_type, is_misdeclared=value_type in MISDECLARED)
            self._columns[name, value_type] = column
        return column


def _comparison(op: str, left: Expression, right: Expression) -> Expression:
    match left, right:
        case ((Column() | Literal()), (Column() | Literal())):
            if _kinds(left) & _kinds(right):
                return Comparison(OPERATORS[op], left, right)
            reason = "it compares values of different types"
        case (Unknown(reason=reason), _) | (_, Unknown(reason=reason)):
            pass
        case _:
            reason = "it does not compare columns or literals"
    return _unknown(op, (left, right), reason)


def _kinds(operand: Column | Literal) -> frozenset[str]:
    return frozenset({operand.kind}) if isinstance(operand, Literal) else COLUMN_KINDS[operand.declared or ""]


def _literal(node: dict[str, Any]) -> Expression:
    text, value_type = node.get("value"), _value_type(node)
    if isinstance(text, str) and value_type:
        kind, parse = LITERALS[value_type]
        value = parse(text)
        if value is not None:
            return Literal(kind, value, text)
        if value_type == "int":
            return Literal("text", text, text)
    return Unknown(f"literal {_shown(text)}", "it is not a valid value of a type in the protocol")


def _value_type(node: dict[str, Any]) -> str | None:
    value_type = node.get("valueType")
    return VALUE_TYPES.get(value_type) if isinstance(value_type, str) else None


def _unknown(op: Any, operands: tuple[Expression, ...], reason: str) -> Unknown:
    texts = [str(operand) if isinstance(operand, Column | Literal | Unknown) else "…" for operand in operands]
    return Unknown(f"{_shown(op)}({', '.join(texts):.160})", reason, named_columns(*operands))


def _shown(value: Any) -> str:
    return f"{value:.80}" if isinstance(value, str) else f"a {type(value).__name__}"
