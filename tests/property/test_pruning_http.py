"""Random predicates over HTTP on tables with known rows: no matching row is lost in any format or with any limit."""

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
from tests.property.pruning.golden import known_golden
from tests.property.pruning.known import SAMPLED, KnownTable, SeededDrawing, handmade, partitioned, written
from tests.property.pruning.predicates import Drawing, Predicate, joined, json_leaf, sql_leaf

EXAMPLES = examples(300)
PREDICATES_OF_A_GOLDEN_TABLE = max(5, settings().max_examples // 1000)
TRUTHS = (True, False, None)


class KnownDrawing(Drawing):
    """Draws from the values of a table."""

    def __init__(self, data: st.DataObject, known: KnownTable) -> None:
        super().__init__(data, list(known.values))
        self._values = known.values

    def value(self, column: Any) -> Any:
        return self.pick(self._values[column])


class LossCheck:
    """Compares the files that a server lists with the files that hold matching rows."""

    def __init__(self, served: ServedTables) -> None:
        self._served = served
        self.without_a_match: Counter[bool] = Counter()
        """How many files without a matching row were listed (True) and skipped (False)."""

    def check(self, known: KnownTable, hints: dict[str, Predicate], answer_format: str, limit: int | None) -> None:
        listed = self._listed(known, hints, answer_format, limit)
        predicate = joined("and", list(hints.values())) if len(hints) > 1 else next(iter(hints.values()))
        for mystery in TRUTHS:
            matching = {
                name: sum(predicate.truth(row, known.utc_offset, mystery) is True for row in rows)
                for name, rows in known.files.items()
            }
            found = sum(matching[name] for name in listed)
            wanted = sum(matching.values())
            lost = {name: known.files[name] for name, count in matching.items() if count and name not in listed}
            assert found >= (wanted if limit is None else min(wanted, limit)), lost
        if limit is None:
            self.without_a_match.update(name in listed for name, count in matching.items() if not count)

    def _listed(
        self, known: KnownTable, hints: dict[str, Predicate], answer_format: str, limit: int | None
    ) -> set[str]:
        body: dict[str, Any] = {} if limit is None else {"limitHint": limit}
        if "sql" in hints:
            body["predicateHints"] = [hints["sql"].sql]
        if "json" in hints:
            body["jsonPredicateHints"] = json.dumps(hints["json"].json)
        answer = self._served.query(known.table, answer_format, **body)
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
def own_tables(tmp_path_factory: pytest.TempPathFactory) -> list[KnownTable]:
    folder = tmp_path_factory.mktemp("known")
    by_type = [partitioned(folder / f"by_{kind.name}", kind) for kind in SAMPLED]
    return [
        handmade(folder / "plain", is_plain=True),
        handmade(folder / "modern", is_plain=False),
        written(folder / "written"),
        *by_type,
    ]


@pytest.fixture(scope="module")
def served(own_tables: list[KnownTable], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTables]:
    tables = [known.table for known in own_tables] + golden_tables()
    with serving(tables, tmp_path_factory.mktemp("served")) as running:
        yield running


def golden_tables() -> list[GoldenTable]:
    return tables_in(GOLDEN_TABLES) if GOLDEN_TABLES.is_dir() else []


def drawn_hints(drawing: Drawing) -> dict[str, Predicate]:
    languages = drawing.pick([("sql",), ("sql",), ("json",), ("sql", "json")])
    leaves = {"sql": sql_leaf, "json": json_leaf}
    return {language: drawing.tree(leaves[language], depth=2) for language in languages}


@pytest.mark.hypothesis
def test_no_matching_row_is_lost_over_http(
    served: ServedTables, own_tables: list[KnownTable], record_property: Any
) -> None:
    losses = LossCheck(served)

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(
        known=st.sampled_from(own_tables[:3]) | st.sampled_from(own_tables),
        answer_format=st.sampled_from([PARQUET, DELTA]),
        limit=st.sampled_from([None, None, 0, 1, 3, 20]),
        data=st.data(),
    )
    def check(known: KnownTable, answer_format: str, limit: int | None, data: st.DataObject) -> None:
        hints = drawn_hints(KnownDrawing(data, known))
        note(str([(hint.sql, hint.json) for hint in hints.values()]))
        losses.check(known, hints, answer_format if known.is_plain else DELTA, limit)

    check()
    record_property("tightness", losses.report())
    sys.stdout.write(losses.report())


@pytest.mark.parametrize("table", table_parameters(GOLDEN_TABLES))
def test_no_matching_row_of_a_golden_table_is_lost_over_http(table: GoldenTable, served: ServedTables) -> None:
    known = known_golden(table)
    if known is None:
        pytest.skip("the table is not served, or its rows are missing, too many, or of types that are not compared")
    losses, drawing = LossCheck(served), SeededDrawing(table.name, known.values)
    for _ in range(PREDICATES_OF_A_GOLDEN_TABLE):
        formats = [PARQUET, DELTA] if known.is_plain else [DELTA]
        losses.check(known, drawn_hints(drawing), drawing.pick(formats), drawing.pick([None, None, 1, 5]))
