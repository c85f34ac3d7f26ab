"""A few values of each type and every form of predicate on them, for checks too slow for random predicates."""

import math
from decimal import Decimal
from itertools import pairwise
from typing import Any

from tests.property.pruning.predicates import (
    JSON_OPERATORS,
    Column,
    Predicate,
    between,
    comparison,
    in_list,
    is_null,
    like,
    null_safe,
)

# A few values of each type, close to each other or at the limits.
VALUES: dict[str, list[Any]] = {
    "byte": [-128, 0, 9, 10],
    "short": [-1, 10, 32767],
    "integer": [-(2**31), -10, 0, 9, 10],
    "long": [-(2**63), 9, 10, 2**53, 2**53 + 1, 2**63 - 1],
    "double": [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 1e300, 2.0**53],
    "float": [math.nan, math.inf, -0.0, 0.0, 0.10000000149011612, -1.5, 16777216.0],
    "decimal10": [Decimal("-1.25"), Decimal("0.00"), Decimal("1.10"), Decimal("1.25"), Decimal("99999999.99")],
    "decimal38": [Decimal("0E-10"), Decimal("1.1000000000"), Decimal("1111111111111111111111111111.1111111111")],
    "string": ["a", "B", "b", "ba", "é", "\uffff", "\U00010000", " a", "10", "9"],
    "boolean": [True, False],
    "date": [-800_000, -1, 0, 19_000, 19_001],
    "timestamp": [-1, 0, 1_600_000_000_123_456, 1_600_000_000_124_000, 1_600_041_600_000_000],
    "timestamp_ntz": [-1, 0, 1_600_000_000_123_456, 1_600_000_000_124_000, 1_600_041_600_000_000],
}


def predicates_of(column: Column) -> list[Predicate]:
    column_type = column.type
    forms = [operand for value in VALUES[column_type.name] for operand in column_type.operands(value)]
    uncast = [operand for operand in forms if not operand.cast]
    # How Spark compares another type with a list of strings depends on its settings.
    takes_strings = column_type.name in ("string", "date")
    listed = [operand for operand in uncast if takes_strings or not operand.text.startswith("'")]
    predicates = [
        comparison(column, operator, operand, mirrored=number % 2 == 0)
        for number, operand in enumerate(forms)
        for operator in [*JSON_OPERATORS, "<>"]
    ]
    predicates += [is_null(column, negated=True), is_null(column, negated=False)]
    predicates += [null_safe(column, operand) for operand in forms]
    predicates += [between(column, low, high) for low, high in pairwise(uncast)]
    predicates += [
        in_list(column, [operand], with_null=number % 2 == 0, negated=number % 3 == 0)
        for number, operand in enumerate(listed)
    ]
    if column_type.name == "string":
        predicates += [like(column, "b", rest, negated=flag) for rest in ("", "%", "%a") for flag in (True, False)]
    return predicates
