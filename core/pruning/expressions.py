"""The expression tree that all hints are parsed into.

Equivalent notations share one form:

    c <> 5               NOT c = 5
    c IN (5, 9)          c = 5 OR c = 9
    c BETWEEN 5 AND 9    c >= 5 AND c <= 9
    c LIKE 'ab%'         c >= 'ab' AND c < 'ac'
    c LIKE 'ab%x'        c >= 'ab' AND c < 'ac' AND <unknown>
    c <=> NULL           c IS NULL

Anything that is not understood becomes `Unknown`, which may be true for any row and so skips no file by itself.
"""

from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeAlias
from typing import Literal as OneOf

from core.pruning.schema import DataType

Operator: TypeAlias = OneOf["=", "<", "<=", ">", ">="]
LiteralKind: TypeAlias = OneOf[
    "null", "boolean", "integer", "decimal", "float", "double", "string", "date", "timestamp", "timestamp_ntz", "text"
]

ColumnPath: TypeAlias = tuple[str, ...]

MAX_NAMED_COLUMNS = 5


@dataclass(frozen=True, slots=True)
class Unknown:
    text: str
    """May contain literals, so it must not be logged."""
    reason: str
    """Contains no text of the client."""
    columns: tuple[ColumnPath, ...] = ()
    """The columns that the text names, at most `MAX_NAMED_COLUMNS`."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Column:
    path: tuple[str, ...]
    declared: str | None = None
    """The type that the hint assumes, as named in JSON hints. If the column has another type, the hint is ignored."""
    cast: DataType | None = None
    is_misdeclared: bool = False
    """Whether the column may have another type than `declared`. If so, its literals are read by that type (`texts`)."""

    def __str__(self) -> str:
        name = ".".join(self.path)
        return f"CAST({name} AS {self.cast})" if self.cast else name


@dataclass(frozen=True, slots=True)
class Literal:
    """`value` has the type that the parser for this kind in `core.pruning.values` returns.

    The kind `text` is a JSON literal declared as `int` that is no whole number. It only has a value for a given column.
    """

    kind: LiteralKind
    value: Any
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"'{self.text}'" if self.kind == "string" else self.text


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: Operator
    left: Column | Literal
    right: Column | Literal

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, slots=True)
class NullSafeEqual:
    """`<=>` with a literal that is not null. False for rows in which `=` is null."""

    column: Column
    literal: Literal

    def __str__(self) -> str:
        return f"{self.column} <=> {self.literal}"


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple["Expression", ...]


Expression: TypeAlias = Unknown | Column | Literal | Comparison | NullSafeEqual | IsNull | Not | And | Or


def named_columns(*expressions: Expression) -> tuple[ColumnPath, ...]:
    """Returns the first columns that expressions without AND, OR and NOT name, as written in the hint."""
    return tuple(islice(chain.from_iterable(map(_columns_of, expressions)), MAX_NAMED_COLUMNS))


def _columns_of(expression: Expression) -> tuple[ColumnPath, ...]:
    match expression:
        case Unknown(columns=columns):
            return columns
        case Column(path):
            return (path,)
        case Comparison(_, left, right):
            return (*_columns_of(left), *_columns_of(right))
        case NullSafeEqual(column) | IsNull(column):
            return (column.path,)
    return ()
