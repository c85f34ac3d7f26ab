"""Commits that change the schema, replayed over an index with the schema before."""

import json
from typing import Any

import pytest

from tests.unit.delta.builder import Action, add, metadata
from tests.unit.index.indexed_table import IndexedTable, check_same, mapped, schema_of

PROTOCOL = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["typeWidening", "columnMapping", "timestampNtz"],
        "writerFeatures": ["typeWidening", "columnMapping", "timestampNtz"],
    }
}
WIDENED: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "integer to long": ("integer", "long", [1, 2, 3], ["2", "1 + 1", "2147483648"]),
    "float to double": ("float", "double", [0.1, 0.25, 3.4e38], ["0.1D", "CAST('0.1' AS FLOAT)", "0.25"]),
    "wider decimal": ("decimal(10,2)", "decimal(20,4)", [1.25, 2.5, 99.99], ["2.5", "1.2500", "99.9901"]),
    "date to time": ("date", "timestamp_ntz", ["2024-01-01", "2024-06-01"], ["'2024-06-01 00:00:00'", "'2024-01-01'"]),
    "integer to double": ("integer", "double", [1, 2, 3], ["2.0D", "2.5D"]),
    "integer to decimal": ("integer", "decimal(12,2)", [1, 2, 3], ["2.00", "2.5"]),
    "string to long": ("string", "long", ["1", "20", "3"], ["20", "3"]),
}


def with_value(number: int, value: Any, partitioned: bool) -> Action:
    if partitioned:
        return add(f"{number}", partitionValues={"c": str(value)})
    bounds = {"numRecords": 2, "minValues": {"c": value}, "maxValues": {"c": value}, "nullCount": {"c": 0}}
    return add(f"{number}", partitionValues={}, stats=json.dumps(bounds))


@pytest.mark.parametrize("partitioned", [False, True], ids=["data", "partition"])
@pytest.mark.parametrize("change", WIDENED)
def test_a_widened_column_is_pruned_as_without_an_index(change: str, partitioned: bool) -> None:
    before, after, values, literals = WIDENED[change]
    columns = ["c"] if partitioned else []
    files = [with_value(number, value, partitioned) for number, value in enumerate(values)]
    env = IndexedTable()
    env.lake.commit(0, PROTOCOL, metadata(schemaString=schema_of(c=before), partitionColumns=columns), *files)
    env.build()
    widened = [{"toType": after, "fromType": before, "tableVersion": 1}]
    schema = schema_of(c=after).replace('"metadata": {}', f'"metadata": {{"delta.typeChanges": {json.dumps(widened)}}}')
    later = with_value(99, values[-1], partitioned)
    env.lake.commit(1, metadata(schemaString=schema, partitionColumns=columns), later)
    operators = ("=", "<", ">", "<=", ">=", "<>")
    check_same(env, [f"c {operator} {literal}" for operator in operators for literal in literals] + ["c IS NULL"])


def test_renamed_swapped_and_recreated_columns_are_pruned_as_without_an_index() -> None:
    settings = {"partitionColumns": [], "configuration": {"delta.columnMapping.mode": "name"}}
    bounds = [
        {"numRecords": 2, "minValues": {"x": n, "y": 10 - n}, "maxValues": {"x": n, "y": 10 - n}} for n in range(5)
    ]
    files = [add(f"{n}", partitionValues={}, stats=json.dumps(stats)) for n, stats in enumerate(bounds)]
    hints = [f"{name} {operator} {n}" for name in "abc" for operator in ("=", ">", "IS NULL OR a =") for n in (0, 3, 8)]
    env = IndexedTable()
    env.lake.commit(0, PROTOCOL, metadata(schemaString=mapped(a="x", b="y"), **settings), *files)
    env.build()
    for version, names in enumerate(({"b": "x", "a": "y"}, {"c": "x", "a": "y"}, {"a": "z", "c": "y"}), start=1):
        env.lake.commit(version, metadata(schemaString=mapped(**names), **settings))
        check_same(env, hints)


def test_partition_columns_may_change_after_the_index() -> None:
    env = IndexedTable()
    files = [add(f"{number}", partitionValues={"p": f"{number}"}) for number in range(4)]
    schema = schema_of(p="long", q="long")
    env.lake.commit(0, PROTOCOL, metadata(schemaString=schema, partitionColumns=["p"]), *files)
    env.build()
    later = [add(f"q{number}", partitionValues={"q": f"{number}"}) for number in range(4)]
    env.lake.commit(1, metadata(schemaString=schema, partitionColumns=["q"]), *later)
    check_same(env, ["p = 2", "q = 2", "p = 2 AND q = 2", "p IS NULL", "q > 1 OR p > 1"])
