"""Random predicates, their texts in both languages, and their truth for a row by Spark's rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.property.pruning.kinds import Kind, Operand, order, quoted

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
    kind: Kind
    place: str
    """`data`, `partition` or `nested`."""

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def name(self) -> str:
        return f"{self.place}_{self.kind.name}"

    @property
    def sql(self) -> str:
        return f"box.`{self.name}`" if self.place == "nested" else self.name.upper()

    @property
    def json(self) -> dict:
        path = f"box.{self.name}" if self.place == "nested" else self.name
        return {"op": "column", "name": path, "valueType": self.kind.json_type}


@dataclass(frozen=True)
class Predicate:
    """`truth` gets a row, the client's zone, and the truth of what nobody knows."""

    sql: str
    json: dict | None
    truth: Callable[[Row, int, Truth], Truth]
    outcomes: Callable[[Callable[["Leaf"], set[Truth]]], set[Truth]] | None = None
    """Which truths it may have, from those that its leaves may have."""


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

    def truth(row: Row, zone: int, _: Truth) -> Truth:
        value = row[column]
        return None if value is None else compare(operator, operand.of_column(value, zone), operand.key(zone))

    return Predicate(sql, json, truth, lambda of: of(Leaf(column, operator, (operand,))))


def null_safe(column: Column, operand: Operand) -> Predicate:
    equal = comparison(column, "=", operand, mirrored=False)
    return Predicate(
        f"{equal.sql.replace(' = ', ' <=> ', 1)}",
        None,
        lambda row, zone, mystery: equal.truth(row, zone, mystery) is True,
    )


def is_null(column: Column, *, negated: bool) -> Predicate:
    json: dict = {"op": "isNull", "children": [column.json]}
    return Predicate(
        f"{column.sql} IS {'NOT ' if negated else ''}NULL",
        ({"op": "not", "children": [json]} if negated else json) if column.kind.json_type else None,
        lambda row, _zone, _mystery: (row[column] is None) != negated,
        lambda of: of(Leaf(column, "IS NOT NULL" if negated else "IS NULL")),
    )


def in_list(column: Column, operands: list[Operand], *, with_null: bool, negated: bool) -> Predicate:
    equals = [comparison(column, "=", operand, mirrored=False) for operand in operands]
    texts = [operand.text for operand in operands] + ["NULL"] * with_null

    def truth(row: Row, zone: int, mystery: Truth) -> Truth:
        found = any_of([*(equal.truth(row, zone, mystery) for equal in equals), *[None] * with_null])
        return invert(found) if negated else found

    return Predicate(f"{column.sql} {'NOT ' if negated else ''}IN ({', '.join(texts)})", None, truth)


def between(column: Column, low: Operand, high: Operand) -> Predicate:
    bounds = [comparison(column, ">=", low, mirrored=False), comparison(column, "<=", high, mirrored=False)]
    return Predicate(
        f"{column.sql} BETWEEN {low.text} AND {high.text}",
        None,
        lambda row, zone, mystery: all_of([bound.truth(row, zone, mystery) for bound in bounds]),
    )


def like(column: Column, prefix: str, rest: str, *, negated: bool) -> Predicate:
    """`rest` is `%`, `%x` or nothing."""

    def truth(row: Row, _zone: int, _mystery: Truth) -> Truth:
        value = row[column]
        if value is None:
            return None
        matches = value.startswith(prefix) and value[len(prefix) :].endswith(rest[1:]) if rest else value == prefix
        return matches != negated

    return Predicate(f"{column.sql} {'NOT ' if negated else ''}LIKE {quoted(prefix + rest)}", None, truth)


def itself(column: Column) -> Predicate:
    return Predicate(
        column.sql, column.json, lambda row, _zone, _mystery: row[column], lambda of: of(Leaf(column, "itself"))
    )


def mystery(column: Column) -> Predicate:
    """What no server could know."""
    json = {"op": "startsWith", "children": [column.json, column.json]}
    return Predicate(f"riddle({column.sql}) = 1", json, lambda _row, _zone, truth: truth)


def joined(operator: str, parts: list[Predicate]) -> Predicate:
    jsons = [part.json for part in parts]
    all_or_any = all_of if operator == "and" else any_of

    def outcomes(of: Callable[[Leaf], set[Truth]]) -> set[Truth]:
        found = parts[0].outcomes(of)
        for part in parts[1:]:
            found = {all_or_any([one, other]) for one in found for other in part.outcomes(of)}
        return found

    return Predicate(
        f" {operator} ".join(f"({part.sql})" for part in parts),
        {"op": operator, "children": jsons} if all(jsons) else None,
        lambda row, zone, mystery: all_or_any([part.truth(row, zone, mystery) for part in parts]),
        outcomes,
    )


def denied(part: Predicate) -> Predicate:
    return Predicate(
        f"NOT ({part.sql})",
        {"op": "not", "children": [part.json]} if part.json else None,
        lambda row, zone, mystery: invert(part.truth(row, zone, mystery)),
        lambda of: {invert(truth) for truth in part.outcomes(of)},
    )


@cache
def operands_of(kind: Kind, wanted: Callable[[Operand], bool] = lambda _: True) -> st.SearchStrategy[Operand]:
    def pick(value: Any, number: int) -> Operand:
        forms = [operand for operand in kind.operands(value) if wanted(operand)] or kind.operands(value)
        return forms[number % len(forms)]

    return st.builds(pick, kind.values, st.integers(0, 11))


def is_json(operand: Operand) -> bool:
    return operand.json is not None


def is_exact(operand: Operand) -> bool:
    return operand.exact


def has_no_cast(operand: Operand) -> bool:
    return operand.cast is None


@cache
def plain_leaves(column: Column, wanted: Callable[[Operand], bool]) -> st.SearchStrategy[Predicate]:
    """Comparisons, nulls and truths: what both languages have."""
    nulls = st.builds(is_null, st.just(column), negated=st.booleans())
    if column.kind.name == "binary":
        return nulls
    operators, operands = st.sampled_from([*JSON_OPERATORS]), operands_of(column.kind, wanted)
    leaves = st.builds(comparison, st.just(column), operators, operands, mirrored=st.booleans()) | nulls
    return leaves | st.just(itself(column)) if column.kind.name == "boolean" else leaves


@cache
def exact_leaves(column: Column) -> st.SearchStrategy[Predicate]:
    return plain_leaves(column, is_exact)


@cache
def json_leaves(column: Column) -> st.SearchStrategy[Predicate]:
    return (
        plain_leaves(column, is_json) | st.just(mystery(column)) if column.kind.json_type else st.just(mystery(column))
    )


@cache
def sql_leaves(column: Column) -> st.SearchStrategy[Predicate]:
    just, plain = st.just(column), plain_leaves(column, bool)
    if column.kind.name == "binary":
        return plain | st.just(mystery(column))
    operands, uncast = operands_of(column.kind), operands_of(column.kind, has_no_cast)
    lists = st.lists(uncast, min_size=1, max_size=4)
    leaves = (
        plain
        | st.builds(comparison, just, st.just("<>"), operands, mirrored=st.booleans())
        | st.builds(null_safe, just, operands)
        | st.builds(in_list, just, lists, with_null=st.booleans(), negated=st.booleans())
        | st.builds(between, just, uncast, uncast)
        | st.just(mystery(column))
    )
    if column.kind.name == "string":
        prefixes = column.kind.values.map(lambda text: text[:33].translate({37: None, 95: None, 92: None, 39: None}))
        return leaves | st.builds(like, just, prefixes, st.sampled_from(["", "%", "%a"]), negated=st.booleans())
    return leaves


def draw_tree(
    draw: Callable[[st.SearchStrategy[Any]], Any],
    columns: Sequence[Column],
    leaves: Callable[[Column], st.SearchStrategy[Predicate]],
    depth: int = 3,
) -> Predicate:
    shape = draw(SHAPES) if depth else "leaf"
    if shape == "leaf":
        return draw(leaves(columns[draw(PICKS) % len(columns)]))
    if shape == "not":
        return denied(draw_tree(draw, columns, leaves, depth - 1))
    return joined(shape, [draw_tree(draw, columns, leaves, depth - 1) for _ in range(2)])


SHAPES = st.sampled_from(["leaf", "leaf", "not", "and", "or"])
PICKS = st.integers(0, 5)
