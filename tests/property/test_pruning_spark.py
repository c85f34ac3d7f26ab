"""Compares with Spark: the truth that the property tests assume, and pruning by SQL that they do not cover."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from core.pruning.files import ALL_MATCH, MAY_MATCH
from pipeline.spark.session import local_session
from tests.property.pruning.column_types import COLUMN_TYPES, ColumnType, date_text, floating_text, time_text
from tests.property.pruning.disk_tables import SeededDrawing
from tests.property.pruning.predicates import Column
from tests.property.pruning.samples import VALUES, predicates_of
from tests.property.pruning.sql_texts import SqlTexts
from tests.property.pruning.writers import write_exactly
from tests.unit.pruning.support import File, Table, columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow(reason="Spark evaluates thousands of predicates")

COLUMNS = [Column(column_type, "data") for column_type in COLUMN_TYPES if column_type.name in VALUES]
ROWS = max(map(len, VALUES.values())) + 1
TEXTS = 1_500


def value_in(row: int, column: Column) -> Any:
    values = VALUES[column.type.name]
    return values[row] if row < len(values) else None


def text_of(column_type: ColumnType, value: Any) -> str | None:
    match column_type.name:
        case _ if value is None:
            return None
        case "double" | "float":
            return floating_text(value)
        case "decimal10" | "decimal38":
            return f"{value:f}"
        case "date":
            return date_text(value)
        case "timestamp":
            return f"{time_text(value)}Z"
        case "timestamp_ntz":
            return time_text(value)
    return str(value)


@pytest.fixture(scope="module")
def spark() -> Iterator["SparkSession"]:
    session = local_session("sluice-pruning")
    # Code generation for thousands of expressions on a few rows would take most of the time.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()


def rows_in(spark: "SparkSession", time_zone: str, ansi: str) -> "DataFrame":
    spark.conf.set("spark.sql.session.timeZone", time_zone)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    texts = [(row, *(text_of(column.type, value_in(row, column)) for column in COLUMNS)) for row in range(ROWS)]
    return spark.createDataFrame(texts, ["row", *(column.name for column in COLUMNS)]).selectExpr(
        "row", *(f"CAST({column.name} AS {column.type.delta_type}) AS {column.name}" for column in COLUMNS)
    )


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("time_zone", "utc_offset", "ansi"), [("+05:30", 19_800_000_000, "true"), ("-08:00", -28_800_000_000, "false")]
)
def test_spark_agrees_with_the_truth_that_the_property_tests_assume(
    spark: "SparkSession", time_zone: str, utc_offset: int, ansi: str
):
    rows = rows_in(spark, time_zone, ansi)
    differences = []
    for column in COLUMNS:
        predicates = predicates_of(column)
        for row, *truths in rows.selectExpr("row", *(predicate.sql for predicate in predicates)).collect():
            value = value_in(row, column)
            differences += [
                (predicate.sql, value, truth)
                for predicate, truth in zip(predicates, truths, strict=True)
                if predicate.truth({column: value}, utc_offset, None) != truth
            ]
    assert not differences


AS_DATA = Table({column.name: column.type.delta_type for column in COLUMNS})
AS_PARTITIONS = Table(AS_DATA.types, tuple(AS_DATA.types))


def file_of(row: int, utc_offset: int) -> File:
    """Returns a file of one row with complete partition values and statistics."""
    values = {column: value_in(row, column) for column in COLUMNS}
    partition_values = {
        column.name: None if value is None else column.type.partition_texts(value, utc_offset)[0]
        for column, value in values.items()
    }
    stats: dict[str, Any] = {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for column, value in values.items():
        bounds = write_exactly(column.type, [] if value is None else [value], SeededDrawing("exact", {}))
        for part, text in zip(("minValues", "maxValues"), bounds, strict=True):
            if text is not None:
                stats[part][column.name] = json.loads(text)
        stats["nullCount"][column.name] = int(value is None)
    return File(partition_values, json.dumps(stats))


def truths_of(rows: "DataFrame", texts: list[str]) -> Iterator[tuple[str, list[Any]]]:
    """Yields each text that Spark accepts as a predicate, with its truth for each row."""
    from pyspark.errors import PySparkException

    accepted = []
    for text in texts:
        try:
            accepted += [text] * (rows.selectExpr(text).schema[0].dataType.typeName() == "boolean")
        except PySparkException:
            continue
    found = sorted(rows.selectExpr("row", *(f"({text})" for text in accepted)).collect())
    return zip(accepted, map(list, list(zip(*found, strict=True))[1:]), strict=True)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_no_row_that_spark_finds_is_skipped(spark: "SparkSession"):
    sql_texts = SqlTexts(6, [column.name for column in COLUMNS])
    texts = (sql_texts.text() for _ in range(TEXTS))
    used = [text for text in texts if any(note.used_by == "statistics" for note in AS_DATA.compile(text).notes)]
    files = columns_of([file_of(row, 19_800_000_000) for row in range(ROWS)])
    wrong = []
    for text, truths in truths_of(rows_in(spark, "+05:30", "false"), used):
        for table in (AS_DATA, AS_PARTITIONS):
            truth_values = table.compile(text).evaluate(files)
            wrong += [
                (text, row, truth, value)
                for row, (truth, value) in enumerate(zip(truths, truth_values, strict=True))
                if (truth and not value & MAY_MATCH) or (value & ALL_MATCH and not truth)
            ]
    assert not wrong
