import json

import pytest

from core.pruning.predicate import compile_predicate
from tests.unit.pruning.support import File, Table, columns_of, compare, in_partition, with_stats


def test_names_are_case_insensitive():
    assert not Table({"Year": "integer"}, ("Year",)).keeps("yEAR = 2020", in_partition(Year="2021"))


def test_an_ambiguous_name_matches_no_column():
    table = Table({"year": "integer", "YEAR": "integer"}, ("year", "YEAR"))
    assert table.keeps("year = 2020", in_partition(year="2021", YEAR="2021"))


def mapped(name: str, data_type, physical: str) -> dict:
    return {"name": name, "type": data_type, "metadata": {"delta.columnMapping.physicalName": physical}}


def test_hints_use_logical_names_and_the_log_physical_names():
    inner = {"type": "struct", "fields": [mapped("x", "long", "col-3")]}
    schema = {"fields": [mapped("day", "date", "col-1"), mapped("s", inner, "col-2"), mapped("n", "long", "col-4")]}
    stats = {"minValues": {"col-2": {"col-3": 5}, "col-4": 1}, "maxValues": {"col-2": {"col-3": 9}, "col-4": 2}}
    file = File({"col-1": "2024-01-01"}, json.dumps(stats))

    def keeps(hint: str, *, column_mapping: bool = True) -> bool:
        predicate = compile_predicate(
            [hint],
            None,
            schema_string=json.dumps(schema),
            partition_columns=["day"],
            column_mapping=column_mapping,
        )
        return bool(predicate.evaluate(columns_of([file]))[0] & 1)

    assert keeps("day = '2024-01-01' AND s.x = 9 AND n = 2")
    assert not keeps("day = '2024-01-02'")
    assert not keeps("s.x = 10")
    assert not keeps("n = 3")
    assert keeps("`col-4` = 3")
    assert keeps("n = 3", column_mapping=False)


def test_a_column_named_partition_values_takes_precedence():
    struct = {"type": "struct", "fields": [{"name": "d", "type": "long"}]}
    table = Table({"partitionValues": struct, "d": "date"}, ("d",))
    assert table.keeps("CAST(partitionValues.d AS DATE) = '2024-01-01'", in_partition(d="2024-01-02"))


def test_partition_values_notation_is_only_for_partition_columns():
    table = Table({"c": "long"})
    assert table.keeps("CAST(partitionValues.c AS BIGINT) = 7", with_stats(1, 2))


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"fields":7}',
        '{"fields":[7]}',
        '{"fields":[{"name":"year"}]}',
        '{"fields":[{"type":"integer"}]}',
        '{"fields":[{"name":7,"type":"integer"}]}',
        '{"fields":[{"name":"year","type":"string"}]}',
        '{"fields":[{"name":"year","type":"interval"}]}',
        '{"fields":[{"name":"year","type":{"type":"struct","fields":[]}}]}',
        '{"fields":[{"name":"year","type":["integer"]}]}',
    ],
)
def test_a_schema_without_the_column_skips_nothing(schema):
    hint = json.dumps(compare("year", "equal", "2020", "int"))
    predicate = compile_predicate(["year = 2020"], hint, schema_string=schema, partition_columns=["year"])
    assert not predicate.uses_partitions
    assert predicate.evaluate(columns_of([in_partition(year="2021")])) == bytes([1])


@pytest.mark.parametrize("metadata", [None, 7, [], {"delta.typeChanges": 7}, {"delta.typeChanges": [7]}])
def test_malformed_field_metadata_is_ignored(metadata):
    schema = json.dumps({"fields": [{"name": "year", "type": "integer", "metadata": metadata}]})
    for column_mapping in (True, False):
        predicate = compile_predicate(
            ["year = 2020"], None, schema_string=schema, partition_columns=["year"], column_mapping=column_mapping
        )
        assert predicate.evaluate(columns_of([in_partition(year="2020")])) == bytes([3])
