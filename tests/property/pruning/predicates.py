"""Random predicates in SQL and JSON, and their truth for a row by Spark's rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.property.pruning.column_types import COLUMN_TYPES, EXACT_TYPES, ColumnType, Operand, order, quoted

Truth: TypeAlias = bool | None
Row: TypeAlias = dict["Column", Any]

JSON_OPERATORS = {
    "=": "equal",
    "<": "lessThan",
    "<=": "lessThanOrEqual",
    ">": "greaterThan",
    ">=": "greaterThanOrEqual",
}


@dataclass(frozen=True)
class Column:
    type: ColumnType
    place: str
    """`data`, `partition` or `nested`."""

    @property
    def name(self) -> str:
        return f"{self.place}_{self.type.name}"

    @property
    def sql(self) -> str:
        return f"box.`{self.name}`" if self.place == "nested" else self.name.upper()

    @property
    def json(self) -> dict:
        path = f"box.{self.name}" if self.place == "nested" else self.name
        return {"op": "column", "name": path, "valueType": self.type.json_type}


@dataclass(frozen=True)
class Predicate:
    """`truth` takes a row, the client's UTC offset, and the truth to assume for unknown parts."""

    sql: str
    json: dict | None
    truth: Callable[[Row, int, Truth], Truth]
    outcomes: Callable[[Callable[["Leaf"], set[Truth]]], set[Truth]] | None = None
    """Returns the possible outcomes, given the possible outcomes of the leaves."""


@dataclass(frozen=True)
class Leaf:
    column: Column
    operator: str
    operands: tuple[Operand, ...] = ()


def compare(operator: str, left: Any, right: Any) -> bool:
    left, right = order(left), order(right)
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def invert(truth: Truth) -> Truth:
    return None if truth is None else not truth


def all_of(truths: list[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def any_of(truths: list[Truth]) -> Truth:
    return invert(all_of([invert(truth) for truth in truths]))


def comparison(column: Column, operator: str, operand: Operand, *, mirrored: bool) -> Predicate:
    name = f"CAST({column.sql} AS {operand.cast})" if operand.cast else column.sql
    sides = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    sql = f"{operand.text} {sides.get(operator, operator)} {name}" if mirrored else f"{name} {operator} {operand.text}"
    json = None
    if operand.json and operator in JSON_OPERATORS:
        literal = {"op": "literal", "valueType": operand.json[0], "value": operand.json[1]}
        children = [literal, column.json] if mirrored else [column.json, literal]
        json = {"op": JSON_OPERATORS[sides.get(operator, operator) if mirrored else operator], "children": children}

    def truth(row: Row, utc_offset: int, _: Truth) -> Truth:
        value = row[column]
        return (
            None if value is None else compare(operator, operand.of_column(value, utc_offset), operand.key(utc_offset))
        )

    return Predicate(sql, json, truth, lambda outcomes_of: outcomes_of(Leaf(column, operator, (operand,))))


def null_safe(column: Column, operand: Operand) -> Predicate:
    equal = comparison(column, "=", operand, mirrored=False)
    return Predicate(
        f"{equal.sql.replace(' = ', ' <=> ', 1)}",
        None,
        lambda row, utc_offset, unknown: equal.truth(row, utc_offset, unknown) is True,
    )


def is_null(column: Column, *, negated: bool) -> Predicate:
    json: dict = {"op": "isNull", "children": [column.json]}
    return Predicate(
        f"{column.sql} IS {'NOT ' if negated else ''}NULL",
        ({"op": "not", "children": [json]} if negated else json) if column.type.json_type else None,
        lambda row, _utc_offset, _unknown: (row[column] is None) != negated,
        lambda outcomes_of: outcomes_of(Leaf(column, "IS NOT NULL" if negated else "IS NULL")),
    )


def in_list(column: Column, operands: list[Operand], *, with_null: bool, negated: bool) -> Predicate:
    equals = [comparison(column, "=", operand, mirrored=False) for operand in operands]
    texts = [operand.text for operand in operands] + ["NULL"] * with_null

    def truth(row: Row, utc_offset: int, unknown: Truth) -> Truth:
        found = any_of([*(equal.truth(row, utc_offset, unknown) for equal in equals), *[None] * with_null])
        return invert(found) if negated else found

    return Predicate(f"{column.sql} {'NOT ' if negated else ''}IN ({', '.join(texts)})", None, truth)


def between(column: Column, low: Operand, high: Operand) -> Predicate:
    bounds = [comparison(column, ">=", low, mirrored=False), comparison(column, "<=", high, mirrored=False)]
    return Predicate(
        f"{column.sql} BETWEEN {low.text} AND {high.text}",
        None,
        lambda row, utc_offset, unknown: all_of([bound.truth(row, utc_offset, unknown) for bound in bounds]),
    )


def like(column: Column, prefix: str, rest: str, *, negated: bool) -> Predicate:
    """`rest` is `%`, `%x` or empty."""

    def truth(row: Row, _utc_offset: int, _unknown: Truth) -> Truth:
        value = row[column]
        if value is None:
            return None
        matches = value.startswith(prefix) and value[len(prefix) :].endswith(rest[1:]) if rest else value == prefix
        return matches != negated

    return Predicate(f"{column.sql} {'NOT ' if negated else ''}LIKE {quoted(prefix + rest)}", None, truth)


def boolean_column(column: Column) -> Predicate:
    return Predicate(
        column.sql,
        column.json,
        lambda row, _utc_offset, _unknown: row[column],
        lambda outcomes_of: outcomes_of(Leaf(column, "IS TRUE")),
    )


def unknown_predicate(column: Column) -> Predicate:
    """Returns a predicate that no server can evaluate."""
    json = {"op": "startsWith", "children": [column.json, column.json]}
    return Predicate(f"unknown_function({column.sql}) = 1", json, lambda _row, _utc_offset, truth: truth)


def joined(operator: str, parts: list[Predicate]) -> Predicate:
    jsons = [part.json for part in parts]
    all_or_any = all_of if operator == "and" else any_of

    def outcomes(outcomes_of: Callable[[Leaf], set[Truth]]) -> set[Truth]:
        found = parts[0].outcomes(outcomes_of)
        for part in parts[1:]:
            found = {all_or_any([one, other]) for one in found for other in part.outcomes(outcomes_of)}
        return found

    return Predicate(
        f" {operator} ".join(f"({part.sql})" for part in parts),
        {"op": operator, "children": jsons} if all(jsons) else None,
        lambda row, utc_offset, unknown: all_or_any([part.truth(row, utc_offset, unknown) for part in parts]),
        outcomes,
    )


def negation(part: Predicate) -> Predicate:
    return Predicate(
        f"NOT ({part.sql})",
        {"op": "not", "children": [part.json]} if part.json else None,
        lambda row, utc_offset, unknown: invert(part.truth(row, utc_offset, unknown)),
        lambda outcomes_of: {invert(truth) for truth in part.outcomes(outcomes_of)},
    )


class Drawing:
    """Draws from three values per column, so that values and literals are often equal."""

    def __init__(self, data: st.DataObject, columns: Sequence[Column]) -> None:
        self.data = data
        self.columns = columns
        self._samples: dict[Column, list[Any]] = {}

    def pick(self, options: Sequence[Any], label: str | None = None) -> Any:
        return options[self.data.draw(INDEXES[len(options)], label)]

    def chance(self, of: int, label: str | None = None) -> bool:
        return self.pick(range(of), label) == 0

    def value(self, column: Column) -> Any:
        if column not in self._samples:
            one, other = self.data.draw(PAIRS[column.type], column.name)
            near = column.type.near(one)
            self._samples[column] = [one, self.pick(near), self.pick([other, *near])]
        return self.pick(self._samples[column])

    def operand(self, column: Column, wanted: Callable[[Operand], bool]) -> Operand | None:
        forms = [form for form in column.type.operands(self.value(column)) if wanted(form)]
        return self.pick(forms) if forms else None

    def tree(self, leaf: Callable[["Drawing", Column], Predicate], depth: int = 3) -> Predicate:
        shape = self.pick(["leaf", "leaf", "leaf", "leaf", "not", "and", "or"]) if depth else "leaf"
        if shape == "leaf":
            return leaf(self, self.pick(self.columns))
        if shape == "not":
            return negation(self.tree(leaf, depth - 1))
        return joined(shape, [self.tree(leaf, depth - 1) for _ in range(2)])


# By the number of options to pick from.
INDEXES = [st.nothing(), *(st.integers(0, last) for last in range(50))]
PAIRS = {each: st.tuples(each.values, each.values) for each in (*COLUMN_TYPES, *EXACT_TYPES)}


def exact_leaf(drawing: Drawing, column: Column) -> Predicate:
    """A comparison, null check or boolean column, with literals that have exactly one meaning."""
    return _plain_leaf(drawing, column, lambda operand: operand.exact)


def json_leaf(drawing: Drawing, column: Column) -> Predicate:
    if not column.type.json_type or drawing.chance(8):
        return unknown_predicate(column)
    return _plain_leaf(drawing, column, lambda operand: operand.json is not None)


def _plain_leaf(drawing: Drawing, column: Column, wanted: Callable[[Operand], bool]) -> Predicate:
    if column.type.name == "boolean" and drawing.chance(3):
        return boolean_column(column)
    operand = None if drawing.chance(6) else drawing.operand(column, wanted)
    if operand is None:
        return is_null(column, negated=drawing.chance(2))
    return comparison(column, drawing.pick([*JSON_OPERATORS]), operand, mirrored=drawing.chance(2))


def sql_leaf(drawing: Drawing, column: Column) -> Predicate:
    form = drawing.pick(["plain", "plain", "plain", "<>", "<=>", "in", "between", "like", "unknown"])
    if form == "plain" or column.type.name == "binary" or (form == "like" and column.type.name != "string"):
        return _plain_leaf(drawing, column, lambda _: True)
    operands = [one for _ in range(3) if (one := drawing.operand(column, lambda operand: operand.cast is None))]
    negated = drawing.chance(2)
    match form:
        case "<>":
            return comparison(column, "<>", operands[0], mirrored=negated)
        case "<=>":
            return null_safe(column, operands[0])
        case "in":
            return in_list(column, operands, with_null=drawing.chance(4), negated=negated)
        case "between":
            return between(column, operands[0], operands[1])
        case "like":
            prefix = drawing.value(column)[: drawing.pick([1, 2, 33])]
            rest = drawing.pick(["", "%", "%a"])
            return like(column, prefix.translate(dict.fromkeys(map(ord, "%_'\\"))), rest, negated=negated)
    return unknown_predicate(column)
