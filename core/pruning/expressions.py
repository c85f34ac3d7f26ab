"""The expression tree that every kind of hint becomes.

Anything that is not understood is `Unknown`: it may be true of any row, so on its own it drops no file.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias
from typing import Literal as OneOf

ComparisonOperator: TypeAlias = OneOf["=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Unknown:
    pass


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    value_type: str


@dataclass(frozen=True, slots=True)
class Literal:
    """`value` compares like the value it stands for (`core.pruning.values`)."""

    value: Any
    value_type: str


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: ComparisonOperator
    left: Column | Literal
    right: Column | Literal


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple["Expression", ...]


Expression: TypeAlias = Unknown | Column | Literal | Comparison | IsNull | Not | And | Or
