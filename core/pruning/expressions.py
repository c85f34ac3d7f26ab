"""The expression tree that every kind of hint becomes.

What hints can say in several ways is said here in one: `<>` is NOT =, IN is = joined by OR, BETWEEN is two comparisons,
LIKE 'a%' is a range. Anything that is not understood is `Unknown`: it may be true of any row, so on its own it leaves
out no file.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias
from typing import Literal as OneOf

from core.pruning.schema import DataType

Operator: TypeAlias = OneOf["=", "<", "<=", ">", ">="]
LiteralKind: TypeAlias = OneOf[
    "null", "boolean", "integer", "decimal", "float", "double", "string", "date", "timestamp", "timestamp_ntz"
]


@dataclass(frozen=True, slots=True)
class Unknown:
    text: str
    reason: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Column:
    path: tuple[str, ...]
    declared: str | None = None
    """The type that the hint takes it for, in the words of JSON hints: it says nothing of a column of another type."""
    cast: DataType | None = None

    def __str__(self) -> str:
        name = ".".join(self.path)
        return f"CAST({name} AS {self.cast})" if self.cast else name


@dataclass(frozen=True, slots=True)
class Literal:
    """`value` is what `core.pruning.values` reads from a text of the kind."""

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
    """`<=>` with a literal that is not null: where `=` is null, it is false."""

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
