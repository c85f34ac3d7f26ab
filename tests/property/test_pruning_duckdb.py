"""Every form of literal that DuckDB's client sends, for every type, on files of one row with exact statistics."""

from decimal import Decimal
from typing import Any

import pytest

from core.pruning.files import ALL_MATCH, MAY_MATCH
from tests.property.pruning.column_types import COLUMN_TYPES, ColumnType
from tests.property.pruning.disk_tables import SeededDrawing
from tests.property.pruning.duckdb import OPERANDS, duckdb_comparison
from tests.property.pruning.predicates import JSON_OPERATORS, Column, negation
from tests.property.pruning.samples import VALUES
from tests.property.pruning.tables import HOUR, File, Table
from tests.property.pruning.writers import write_exactly
from tests.unit.pruning.support import columns_of

SAMPLED = [column_type for column_type in COLUMN_TYPES if column_type.name in VALUES]
# Of the files without a matching row, at least this share is skipped. It is far from all: some forms are ambiguous,
# and NaN may be in any file of floats.
SKIPPED = 0.2
# DuckDB's division by a power of ten does not result in the nearest double of these values.
ROUNDED = {"double": [763.7746189766141], "decimal38": [Decimal("4342277327932806486283235645.2790420104")]}


def values_of(column_type: ColumnType) -> list[Any]:
    values = VALUES[column_type.name] + ROUNDED.get(column_type.name, [])
    found = {repr(value): value for one in values for value in (one, *column_type.near(one))}
    return [*found.values(), None]


def file_of(table: Table, column: Column, value: Any) -> File:
    text = None if value is None else column.type.partition_texts(value, table.utc_offset)[0]
    low, high = write_exactly(column.type, [] if value is None else [value], SeededDrawing("exact", {}))
    bounds = [
        f'"{part}":{{"{column.name}":{bound}}}' for part, bound in (("minValues", low), ("maxValues", high)) if bound
    ]
    counts = [f'"nullCount":{{"{column.name}":{int(value is None)}}}', '"numRecords":1']
    return File({column.name: text}, "{" + ",".join([*bounds, *counts]) + "}", None, [{column: value}])


@pytest.mark.parametrize("place", ["data", "partition"])
@pytest.mark.parametrize("column_type", SAMPLED, ids=repr)
@pytest.mark.parametrize("utc_offset", [-8 * HOUR, 14 * HOUR])
def test_no_row_that_duckdb_finds_is_skipped(column_type: ColumnType, place: str, utc_offset: int) -> None:
    column = Column(column_type, place)
    table = Table([column], mapped=False, utc_offset=utc_offset)
    files = [file_of(table, column, value) for value in values_of(column_type)]
    columns = columns_of(files)
    operands = [operand for value in values_of(column_type)[:-1] for operand in OPERANDS[column_type.name](value)]
    wrong, without_a_match, skipped = [], 0, 0
    for operand in operands:
        for operator in JSON_OPERATORS:
            positive = duckdb_comparison(column, operator, operand, declared="string", mirrored=False)
            for predicate in (positive, negation(positive)):
                for file, value in zip(files, table.compile(predicate, "duckdb").evaluate(columns), strict=True):
                    truth = predicate.truth(file.rows[0], utc_offset, None)
                    if (truth and not value & MAY_MATCH) or (value & ALL_MATCH and not truth):
                        wrong.append((predicate.json, file))
                    without_a_match += not truth
                    skipped += not value & MAY_MATCH
    assert not wrong, wrong[:5]
    assert skipped > SKIPPED * without_a_match
