"""The columns that are indexed. Answers do not depend on the choice."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.catalog.model import Table
from core.delta.model import Metadata
from core.index.layout.columns import INDEXED_COLUMNS, MAX_INDEXED_COLUMNS, STATISTICS_COLUMNS, column_names
from core.index.layout.items import table_of
from core.index.layout.root import Root
from core.index.write.packing import indexed_fields
from pipeline.indexing import Indexer
from pipeline.storage import TableStorage
from tests.unit.delta.builder import PROTOCOL, Action, add, commit, metadata, name
from tests.unit.index.indexed_table import IndexedTable, check_same, mapped, metadata_of, schema_of

COLUMNS = metadata_of("p", a="long", p="string", b="long", c="long")
POINT = {
    "type": "struct",
    "fields": [{"name": each, "type": "double", "nullable": True, "metadata": {}} for each in ("x", "y")],
}
NESTED = metadata_of("p", a="long", at=POINT, p="string", **{"d.e": "long", "f`g,h": "long"})
WIDE = {f"c{number}": "long" for number in range(2000)}


def with_statistics(columns: Metadata, names: str) -> Metadata:
    return replace(columns, configuration={**columns.configuration, STATISTICS_COLUMNS: names})


def indexed(columns: Metadata, *max_others: int) -> list[str]:
    return ["/".join(field.path) for field in indexed_fields(columns, *max_others)]


@pytest.mark.parametrize(
    ("number", "expected"), [(0, ["p"]), (2, ["p", "a", "b"]), (3, ["p", "a", "b", "c"]), (99, ["p", "a", "b", "c"])]
)
def test_all_partition_columns_and_the_given_number_of_others_are_indexed(number: int, expected: list[str]) -> None:
    assert indexed(COLUMNS, number) == expected


def test_the_first_32_columns_of_a_wide_table_are_indexed_by_default() -> None:
    wide = metadata_of("c1999", **WIDE)
    assert indexed(wide) == ["c1999", *list(WIDE)[:32]]
    assert len(indexed(wide, MAX_INDEXED_COLUMNS)) == 2000


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("c,a", ["c", "a"]),
        (" c , `a` ", ["c", "a"]),
        ("C, A", ["c", "a"]),
        ("c, gone, a, a.b", ["c", "a"]),
        ("c,c,`c`", ["c"]),
        ("p, c", ["c"]),
    ],
)
def test_only_the_columns_that_the_table_property_names_are_indexed(names: str, expected: list[str]) -> None:
    assert indexed(with_statistics(COLUMNS, names)) == ["p", *expected]


def test_the_number_of_columns_also_limits_the_named_ones() -> None:
    named = with_statistics(COLUMNS, "c, b, a")
    assert indexed(named, 2) == ["p", "c", "b"]
    assert indexed(named, 0) == ["p"]
    wide = with_statistics(metadata_of(**WIDE), ",".join(reversed(WIDE)))
    assert indexed(wide) == list(reversed(WIDE))[:INDEXED_COLUMNS]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("at.y", ["at/y"]),
        ("at", ["at/x", "at/y"]),
        ("at.y, at", ["at/y", "at/x"]),
        ("`at`.`x`, a", ["at/x", "a"]),
        ("`d.e`", ["d.e"]),
        ("`f``g,h`,a", ["f`g,h", "a"]),
    ],
)
def test_structs_and_quoted_names_are_supported(names: str, expected: list[str]) -> None:
    assert indexed(with_statistics(NESTED, names)) == ["p", *expected]


def test_the_table_property_uses_logical_names() -> None:
    """Even if the physical name of a column is the logical name of another."""
    columns = Metadata("m", mapped(a="x", b="a", c="y"), configuration={"delta.columnMapping.mode": "name"})
    assert indexed(with_statistics(columns, "b")) == ["a"]
    assert indexed(with_statistics(columns, "c, a")) == ["y", "x"]
    assert indexed(with_statistics(columns, "x")) == ["x", "a", "y"]


@pytest.mark.parametrize(
    "names",
    [
        "",
        " ",
        ",",
        "a,",
        ",a",
        "a..b",
        ".",
        "`",
        "`a",
        "a`",
        "`a`b",
        "``",
        "```",
        "gone",
        "p",
        "*",
        "a;b",
        '["a"]',
        "true",
    ],
)
def test_a_property_that_names_no_column_is_ignored(names: str) -> None:
    assert indexed(with_statistics(COLUMNS, names)) == indexed(COLUMNS)


@pytest.mark.parametrize(
    "text", [" " * 100_000, "`" * 99_999, "`a" * 50_000, "a." * 50_000, "a," * 50_000, "``," * 30_000]
)
def test_long_malformed_lists_are_rejected_quickly(text: str) -> None:
    assert column_names(text) in ([], [("",)])


def test_a_table_with_an_invalid_schema_has_no_indexed_columns() -> None:
    assert indexed(Metadata("m", "no JSON", configuration={STATISTICS_COLUMNS: "a"})) == []


def wide_file(number: int) -> Action:
    """A file with statistics of the first 40 columns and of two much later ones."""
    columns = [*list(WIDE)[:40], "c1500", "c1999"]
    values = {column: (number * 7919 + position) % 300 for position, column in enumerate(columns)}
    bounds = {"numRecords": 2, "minValues": values, "maxValues": values, "nullCount": dict.fromkeys(values, 0)}
    return add(f"{number}", partitionValues={}, stats=json.dumps(bounds))


@pytest.mark.parametrize(("columns", "number"), [((), 32), ((0,), 0), ((1,), 1), ((MAX_INDEXED_COLUMNS,), 2000)])
def test_an_index_of_a_wide_table_gives_the_answers_of_the_log(columns: tuple[int, ...], number: int) -> None:
    env = IndexedTable()
    options: dict[str, Any] = {"columns": columns[0]} if columns else {}
    schema = metadata(schemaString=schema_of(**WIDE), partitionColumns=[])
    env.lake.commit(0, PROTOCOL, schema, *map(wide_file, range(60)))
    env.build(**options)
    hints = [f"{name} < 40" for name in ("c0", "c31", "c32", "c39", "c1500", "c1999", "c1000", "gone")]
    hints += ["c0 < 200 AND c1500 > 100", "c32 < 40 OR c3 > 290", "c1000 IS NULL", "c0 IS NULL"]

    assert len(env.root().zones) == number
    check_same(env, hints)
    env.lake.commit(1, *map(wide_file, range(60, 70)))
    check_same(env, hints)
    env.build(**options)
    assert len(env.root().zones) == number
    check_same(env, hints)


class LocalTable:
    """A table on disk, indexed by an `Indexer` like a table in S3."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._indexes = IndexedTable().indexes
        self._table = Table("t", "s", "share", "1", "2", folder.as_uri())
        (folder / "_delta_log").mkdir()

    def commit(self, version: int, *actions: Action) -> None:
        (self._folder / name(version)).write_bytes(commit(*actions))

    def index(self, **options: Any) -> tuple[str, list[str]]:
        """Returns the outcome, and the columns of the live index."""
        outcome = Indexer(self._indexes, spark=no_spark, **options).index(self._table)
        table = table_of(TableStorage(self._table.location).open().location.uri)
        root = Root.unpack(self._indexes.store.root(table, outcome.head.build))
        return outcome.what, ["/".join(field.path) for field in root.zones]


def no_spark() -> Any:
    raise AssertionError("a small table does not need Spark")


def file(number: int) -> Action:
    values = {"a": number, "b": number, "c": number}
    return add(f"{number}", stats=json.dumps({"numRecords": 2, "minValues": values, "maxValues": values}))


@pytest.fixture
def table(tmp_path: Path) -> LocalTable:
    table = LocalTable(tmp_path)
    table.commit(0, PROTOCOL, metadata(schemaString=COLUMNS.schema_string), *map(file, range(9)))
    return table


@pytest.mark.parametrize("number", [0, 2, 3, INDEXED_COLUMNS])
def test_the_same_number_of_columns_does_not_cause_a_full_build(table: LocalTable, number: int) -> None:
    built, columns = table.index(columns=number)
    assert built == "built"
    assert table.index(columns=number) == ("up to date", columns)
    table.commit(1, file(10))
    assert table.index(columns=number) == ("later", columns)
    assert table.index(columns=number) == ("up to date", columns)


def test_another_number_of_columns_causes_a_full_build_without_new_commits(table: LocalTable) -> None:
    assert table.index() == ("built", ["p", "a", "b", "c"])
    assert table.index(columns=1) == ("built", ["p", "a"])
    assert table.index(columns=0) == ("built", ["p"])
    assert table.index() == ("built", ["p", "a", "b", "c"])


def test_another_number_of_columns_causes_a_full_build_after_a_commit(table: LocalTable) -> None:
    table.index()
    table.commit(1, file(10))
    assert table.index(columns=2) == ("built", ["p", "a", "b"])


def test_another_number_that_selects_the_same_columns_does_not_cause_a_full_build(table: LocalTable) -> None:
    columns = ["p", "a", "b", "c"]
    assert table.index(columns=3) == ("built", columns)
    assert table.index(columns=MAX_INDEXED_COLUMNS) == ("up to date", columns)


def test_a_table_that_starts_to_name_its_columns_gets_a_full_build(table: LocalTable) -> None:
    table.index()
    named = {STATISTICS_COLUMNS: "c"}
    table.commit(1, metadata(schemaString=COLUMNS.schema_string, configuration=named))
    assert table.index() == ("built", ["p", "c"])
    assert table.index() == ("up to date", ["p", "c"])
