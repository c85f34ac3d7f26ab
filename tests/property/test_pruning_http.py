"""Random predicates over HTTP: no matching row is lost, in any response format and with any limit."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.conftest import GOLDEN_TABLES
from tests.examples import examples
from tests.golden.expectation import DELTA, PARQUET
from tests.golden.folder import GoldenTable, table_parameters, tables_in
from tests.golden.served import ServedTables, serving
from tests.property.pruning.disk_tables import (
    SAMPLED_TYPES,
    DiskTable,
    SeededDrawing,
    deltalake_table,
    handwritten_table,
    partitioned_table,
)
from tests.property.pruning.duckdb import duckdb_leaf
from tests.property.pruning.golden import golden_disk_table
from tests.property.pruning.predicates import Drawing, Predicate, joined, json_leaf, sql_leaf

EXAMPLES = examples(300)
PREDICATES_PER_GOLDEN_TABLE = max(5, settings().max_examples // 1000)
TRUTHS = (True, False, None)


class TableDrawing(Drawing):
    """Draws from the values of a table."""

    def __init__(self, data: st.DataObject, table: DiskTable) -> None:
        super().__init__(data, list(table.values))
        self._values = table.values

    def value(self, column: Any) -> Any:
        return self.pick(self._values[column])


class LossCheck:
    """Compares the files that a server lists with the files that contain matching rows."""

    def __init__(self, served: ServedTables) -> None:
        self._served = served
        self.without_a_match: Counter[bool] = Counter()
        """The number of files without a matching row, by whether they were listed."""

    def check(self, table: DiskTable, hints: dict[str, Predicate], answer_format: str, limit: int | None) -> None:
        listed = self._listed(table, hints, answer_format, limit)
        predicate = joined("and", list(hints.values())) if len(hints) > 1 else next(iter(hints.values()))
        for unknown in TRUTHS:
            matching = {
                name: sum(predicate.truth(row, table.utc_offset, unknown) is True for row in rows)
                for name, rows in table.files.items()
            }
            found = sum(matching[name] for name in listed)
            expected = sum(matching.values())
            lost = {name: table.files[name] for name, count in matching.items() if count and name not in listed}
            assert found >= (expected if limit is None else min(expected, limit)), lost
        if limit is None:
            self.without_a_match.update(name in listed for name, count in matching.items() if not count)

    def _listed(self, table: DiskTable, hints: dict[str, Predicate], answer_format: str, limit: int | None) -> set[str]:
        body: dict[str, Any] = {} if limit is None else {"limitHint": limit}
        if "sql" in hints:
            body["predicateHints"] = [hints["sql"].sql]
        if "json" in hints:
            body["jsonPredicateHints"] = json.dumps(hints["json"].json)
        answer = self._served.query(table.folder, answer_format, **body)
        assert answer.status == 200, answer.message
        return {file_name(line) for line in answer.lines[2:]}

    def report(self) -> str:
        skipped, total = self.without_a_match[False], self.without_a_match.total()
        return f"{skipped / total:.1%} of {total} files without a matching row were skipped. "


def file_name(line: dict[str, Any]) -> str:
    file = line["file"]
    url = file["url"] if "url" in file else file["deltaSingleAction"]["add"]["path"]
    return unquote(urlsplit(url).path.rpartition("/")[2])


@pytest.fixture(scope="module")
def own_tables(tmp_path_factory: pytest.TempPathFactory) -> list[DiskTable]:
    folder = tmp_path_factory.mktemp("own")
    by_type = [partitioned_table(folder / f"by_{column_type.name}", column_type) for column_type in SAMPLED_TYPES]
    return [
        handwritten_table(folder / "plain", allows_parquet=True),
        handwritten_table(folder / "modern", allows_parquet=False),
        deltalake_table(folder / "written"),
        *by_type,
    ]


@pytest.fixture(scope="module")
def served(own_tables: list[DiskTable], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTables]:
    tables = [table.folder for table in own_tables] + golden_tables()
    with serving(tables, tmp_path_factory.mktemp("served")) as running:
        yield running


def golden_tables() -> list[GoldenTable]:
    return tables_in(GOLDEN_TABLES) if GOLDEN_TABLES.is_dir() else []


def drawn_hints(drawing: Drawing) -> dict[str, Predicate]:
    languages = drawing.pick([("sql",), ("sql",), ("json",), ("sql", "json")])
    leaves = {"sql": sql_leaf, "json": drawing.pick([json_leaf, duckdb_leaf])}
    return {language: drawing.tree(leaves[language], depth=2) for language in languages}


@pytest.mark.hypothesis
def test_no_matching_row_is_lost_over_http(
    served: ServedTables, own_tables: list[DiskTable], record_property: Any
) -> None:
    losses = LossCheck(served)

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(
        table=st.sampled_from(own_tables[:3]) | st.sampled_from(own_tables),
        answer_format=st.sampled_from([PARQUET, DELTA]),
        limit=st.sampled_from([None, None, 0, 1, 3, 20]),
        data=st.data(),
    )
    def check(table: DiskTable, answer_format: str, limit: int | None, data: st.DataObject) -> None:
        hints = drawn_hints(TableDrawing(data, table))
        note(str([(hint.sql, hint.json) for hint in hints.values()]))
        losses.check(table, hints, answer_format if table.allows_parquet else DELTA, limit)

    check()
    record_property("tightness", losses.report())
    sys.stdout.write(losses.report())


@pytest.mark.parametrize("table", table_parameters(GOLDEN_TABLES))
def test_no_matching_row_of_a_golden_table_is_lost_over_http(table: GoldenTable, served: ServedTables) -> None:
    disk_table = golden_disk_table(table)
    if disk_table is None:
        pytest.skip("the table is not served, or its rows are missing, too many, or of types that are not compared")
    losses, drawing = LossCheck(served), SeededDrawing(table.name, disk_table.values)
    for _ in range(PREDICATES_PER_GOLDEN_TABLE):
        formats = [PARQUET, DELTA] if disk_table.allows_parquet else [DELTA]
        losses.check(disk_table, drawn_hints(drawing), drawing.pick(formats), drawing.pick([None, None, 1, 5]))
