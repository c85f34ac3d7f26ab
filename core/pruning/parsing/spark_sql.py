"""Converts a boolean expression of Spark SQL, parsed by sqlglot, into our expression tree.

A part outside the supported subset becomes `Unknown`. The other parts still prune. A sqlglot node with an argument that
we do not handle also becomes `Unknown`, so that a newer version of sqlglot is not misread.
"""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from sqlglot import ErrorLevel, Token, TokenType, exp
from sqlglot.dialects.databricks import Databricks

from core.pruning.expressions import (
    And,
    Column,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Not,
    NullSafeEqual,
    Operator,
    Or,
    Unknown,
    named_columns,
)
from core.pruning.literals import MAX_PRECISION, cast_literal, fit_one_decimal
from core.pruning.schema import DataType
from core.pruning.values import ABOVE_ALL, WHOLE_NUMBER, after_all_with_prefix, parse_decimal, parse_double

# For all hints of a request together. Parsing takes about 30 µs per token.
MAX_TOKENS = 2_000
# sqlglot tries to parse `date(…)` as a type first and then as a function, so each level of nesting doubles the work.
MAX_NESTED_TYPES = 2
# sqlglot drops the length of these types.
FIXED_LENGTH_STRINGS = frozenset(
    {TokenType.CHAR, TokenType.NCHAR, TokenType.VARCHAR, TokenType.NVARCHAR, TokenType.BPCHAR}
)

DIALECT = Databricks()
# sqlglot logs parts of the SQL that it does not understand, with their literals.
logging.getLogger("sqlglot").disabled = True
ONE_OR_TWO_DIGITS = re.compile("[0-9]{1,2}")
NUMBERS = frozenset({"integer", "decimal", "float", "double"})
COMPARISONS: dict[type[exp.Expr], Operator] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
TYPES = {
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TINYINT: "byte",
    exp.DType.SMALLINT: "short",
    exp.DType.INT: "integer",
    exp.DType.BIGINT: "long",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.TEXT: "string",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
}


class _RefusedError(Exception):
    """The hint is rejected as a whole. The message is the reason."""


class SqlParser:
    """Parses the hints of one request, which share a budget of tokens."""

    def __init__(self) -> None:
        self._tokens_left = MAX_TOKENS

    def parse(self, hint: str) -> Expression:
        try:
            return _expression(self._sqlglot_tree(hint))
        except _RefusedError as reason:
            return Unknown(f"{hint:.80}", str(reason))
        except Exception as error:  # noqa: BLE001 - a hostile text must not fail the query
            return Unknown(f"{hint:.80}", f"it cannot be parsed ({type(error).__name__})")

    def _sqlglot_tree(self, hint: str) -> exp.Expr:
        tokens = DIALECT.tokenize(hint) if self._tokens_left > 0 else []
        self._tokens_left -= len(tokens)
        if self._tokens_left < 0:
            raise _RefusedError(f"the hints have more than {MAX_TOKENS} tokens")
        if not tokens:
            raise _RefusedError("it is empty, or the hints before it have too many tokens")
        if any(token.token_type in FIXED_LENGTH_STRINGS for token in tokens):
            raise _RefusedError("it uses CHAR or VARCHAR")
        if _is_costly(tokens):
            raise _RefusedError("it nests type names too deeply")
        (node,) = DIALECT.parser().parse_into(exp.Condition, tokens, hint)
        if node is None:
            raise _RefusedError("it is empty")
        return node


def _is_costly(tokens: Sequence[Token]) -> bool:
    """Whether type names are nested like function calls, which sqlglot parses in exponential time."""
    nested, parentheses = 0, []
    for previous, token in pairwise(tokens):
        if token.token_type == TokenType.L_PAREN:
            parentheses.append(previous.token_type in DIALECT.parser_class.TYPE_TOKENS)
            nested += parentheses[-1]
            if nested > MAX_NESTED_TYPES:
                return True
        elif token.token_type == TokenType.R_PAREN and parentheses:
            nested -= parentheses.pop()
    return False


def _expression(node: exp.Expr) -> Expression:
    convert = EXPRESSIONS.get(type(node))
    expression = convert(node) if convert else None
    return _unknown(node) if expression is None else expression


def _unknown(node: exp.Expr) -> Unknown:
    text = node.sql(DIALECT, unsupported_level=ErrorLevel.IGNORE)
    columns = [column for found in node.find_all(exp.Column) if (column := _column(found))]
    return Unknown(f"{text:.200}", "pruning does not support this SQL", named_columns(*columns))


def _has_only(node: exp.Expr, *names: str) -> bool:
    """Whether the node has no arguments other than these."""
    return {name for name, value in node.args.items() if value} <= set(names)


def _connector(node: exp.Expr) -> Expression | None:
    """Iterates over a chain of ANDs or ORs. Its tree is as deep as the chain is long, which is too deep to recurse."""
    connector = type(node)
    operands = []
    while type(node) is connector:
        if not _has_only(node, "this", "expression"):
            return None
        operands.append(_expression(node.args["expression"]))
        node = node.this
    operands.append(_expression(node))
    return (And if connector is exp.And else Or)(tuple(reversed(operands)))


def _not(node: exp.Expr) -> Expression | None:
    return Not(_expression(node.this)) if _has_only(node, "this") else None


def _parentheses(node: exp.Expr) -> Expression | None:
    return _expression(node.this) if _has_only(node, "this") else None


def _comparison(node: exp.Expr) -> Expression | None:
    operands = _operands(node)
    return operands and Comparison(COMPARISONS[type(node)], *operands)


def _not_equal(node: exp.Expr) -> Expression | None:
    operands = _operands(node)
    return operands and Not(Comparison("=", *operands))


def _operands(node: exp.Expr) -> tuple[Column | Literal, Column | Literal] | None:
    if not _has_only(node, "this", "expression"):
        return None
    left, right = _operand(node.this), _operand(node.args["expression"])
    return (left, right) if left and right else None


def _null_safe_equal(node: exp.Expr) -> Expression | None:
    match _operands(node):
        case (Column() as column, Literal() as literal) | (Literal() as literal, Column() as column):
            return IsNull(column) if literal.kind == "null" else NullSafeEqual(column, literal)
    return None


def _null_safe_not_equal(node: exp.Expr) -> Expression | None:
    equal = _null_safe_equal(node)
    return equal and Not(equal)


def _in(node: exp.Expr) -> Expression | None:
    """Supports only literals of one kind. Spark converts a mixed list to a common type, which may change a result."""
    left, rights = _operand(node.this), [_operand(right) for right in node.args.get("expressions") or ()]
    if not isinstance(left, Column) or not rights or not _has_only(node, "this", "expressions"):
        return None
    literals = [right for right in rights if isinstance(right, Literal)]
    kinds = {literal.kind for literal in literals} - {"null"}
    if len(literals) < len(rights) or not (len(kinds) <= 1 or kinds == {"integer", "decimal"}):
        return None
    if "decimal" in kinds and not fit_one_decimal(literal for literal in literals if literal.kind != "null"):
        return None
    if kinds == {"string"}:
        left = replace(left, declared="string or date")
    return Or(tuple(Comparison("=", left, literal) for literal in literals))


def _between(node: exp.Expr) -> Expression | None:
    value, low, high = _operand(node.this), _operand(node.args["low"]), _operand(node.args["high"])
    if value is None or low is None or high is None or not _has_only(node, "this", "low", "high"):
        return None
    return And((Comparison(">=", value, low), Comparison("<=", value, high)))


def _like(node: exp.Expr) -> Expression | None:
    column, pattern = _operand(node.this), _operand(node.args["expression"])
    if not isinstance(column, Column) or not isinstance(pattern, Literal) or pattern.kind != "string":
        return None
    text: str = pattern.value
    prefix = text.replace("_", "%").partition("%")[0]
    if not _has_only(node, "this", "expression", "negate") or (text and not prefix):
        return None
    if prefix == text:
        like: Expression = Comparison("=", replace(column, declared="string"), pattern)
    elif text == f"{prefix}%":
        like = _starts_with(column, prefix)
    else:
        like = And((_starts_with(column, prefix), _unknown(node)))
    return Not(like) if node.args.get("negate") else like


def _starts_with(column: Column, prefix: str) -> Expression:
    column = replace(column, declared="string")
    comparisons = [Comparison(">=", column, Literal("string", prefix, prefix))]
    if (after := after_all_with_prefix(prefix)) is not ABOVE_ALL:
        comparisons.append(Comparison("<", column, Literal("string", after, f"{prefix}…")))
    return And(tuple(comparisons))


def _starts_with_function(node: exp.Expr) -> Expression | None:
    match _operands(node):
        case Column() as column, Literal("string", str(prefix)) if prefix:
            return _starts_with(column, prefix)
    return None


def _is(node: exp.Expr) -> Expression | None:
    match _operands(node):
        case Column() as column, Literal("null"):
            return IsNull(column)
        case Column() as column, Literal("boolean") as truth:
            return NullSafeEqual(replace(column, declared="bool"), truth)
    return None


def _operand(node: exp.Expr) -> Column | Literal | None:
    convert = OPERANDS.get(type(node))
    return convert(node) if convert else None


def _operand_in_parentheses(node: exp.Expr) -> Column | Literal | None:
    return _operand(node.this) if _has_only(node, "this") else None


def _column(node: exp.Expr) -> Column | None:
    if not _has_only(node, "this", "table", "db", "catalog"):
        return None
    parts = [node.args.get(name) for name in ("catalog", "db", "table", "this")]
    path = tuple(part.this for part in parts if part)
    return Column(path) if all(isinstance(part, exp.Identifier) for part in parts if part) else None


def _field_of_column(node: exp.Expr) -> Column | None:
    """Converts `a.b.c.d.e`: sqlglot puts at most four parts into a column and the others into `Dot` nodes."""
    parent, name = _operand(node.this), node.args["expression"]
    if isinstance(parent, Column) and not parent.cast and isinstance(name, exp.Identifier):
        return Column((*parent.path, name.this))
    return None


def _cast(node: exp.Expr) -> Column | Literal | None:
    operand, to = _operand(node.this), _data_type(node.args["to"])
    if operand is None or to is None or not _has_only(node, "this", "to", "safe"):
        return None
    if isinstance(operand, Literal):
        return cast_literal(operand, to)
    return None if operand.cast else replace(operand, cast=to)


def _data_type(node: exp.Expr) -> DataType | None:
    parameters = [parameter.name for parameter in node.args.get("expressions") or ()]
    if not _has_only(node, "this", "expressions"):
        return None
    if node.this == exp.DType.DECIMAL:
        return _decimal_type(parameters)
    return DataType(TYPES[node.this]) if node.this in TYPES and not parameters else None


def _decimal_type(parameters: list[str]) -> DataType | None:
    if len(parameters) > 2 or not all(map(ONE_OR_TWO_DIGITS.fullmatch, parameters)):
        return None
    precision, scale = (*map(int, parameters), *(10, 0)[len(parameters) :])
    return DataType("decimal", precision, scale) if scale <= precision <= MAX_PRECISION else None


def _literal(node: exp.Expr) -> Literal | None:
    text: str = node.this
    if not _has_only(node, "this", "is_string"):
        return None
    if not node.args["is_string"]:
        return _number(text)
    # For two quotes in a string, older versions of Spark drop both, and newer versions keep one.
    return None if "'" in text or '"' in text else Literal("string", text, text)


def _number(text: str) -> Literal | None:
    if WHOLE_NUMBER.fullmatch(text):
        return Literal("integer", int(text), text)
    value = parse_double(text) if "e" in text.lower() else parse_decimal(text)
    return None if value is None else Literal("double" if "e" in text.lower() else "decimal", value, text)


def _negative(node: exp.Expr) -> Literal | None:
    number = _operand(node.this)
    if isinstance(number, Literal) and isinstance(number.value, int | float | Decimal) and number.kind in NUMBERS:
        return Literal(number.kind, -number.value, f"-{number.text}")
    return None


EXPRESSIONS: dict[type[exp.Expr], Callable[[exp.Expr], Expression | None]] = {
    exp.And: _connector,
    exp.Or: _connector,
    exp.Not: _not,
    exp.Paren: _parentheses,
    **dict.fromkeys(COMPARISONS, _comparison),
    exp.NEQ: _not_equal,
    exp.NullSafeEQ: _null_safe_equal,
    exp.NullSafeNEQ: _null_safe_not_equal,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.StartsWith: _starts_with_function,
    exp.Is: _is,
    **dict.fromkeys((exp.Column, exp.Dot, exp.Cast, exp.TryCast, exp.Boolean, exp.Null), _operand),
}
OPERANDS: dict[type[exp.Expr], Callable[[exp.Expr], Column | Literal | None]] = {
    exp.Paren: _operand_in_parentheses,
    exp.Column: _column,
    exp.Dot: _field_of_column,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Literal: _literal,
    exp.Neg: _negative,
    exp.Boolean: lambda node: Literal("boolean", bool(node.this), str(node.this).upper()),
    exp.Null: lambda _: Literal("null", None, "NULL"),
}
