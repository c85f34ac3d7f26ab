"""The truth that the property tests use is Spark's own: it is asked of every form of literal beside every type."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.session import local_session
from tests.property.pruning.kinds import KINDS, Kind, date_text, floating_text, time_text
from tests.property.pruning.predicates import (
    Column,
)
from tests.property.pruning.samples import VALUES, predicates_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = [Column(kind, "data") for kind in KINDS if kind.name in VALUES]
ROWS = max(map(len, VALUES.values())) + 1


def value_in(row: int, column: Column) -> Any:
    values = VALUES[column.kind.name]
    return values[row] if row < len(values) else None


def text_of(kind: Kind, value: Any) -> str | None:
    match kind.name:
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
    # A few rows under thousands of expressions: compiling them would take longest.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("zone", "offset", "ansi"), [("+05:30", 19_800_000_000, "true"), ("-08:00", -28_800_000_000, "false")]
)
def test_spark_holds_true_what_the_property_tests_hold_true(spark: "SparkSession", zone: str, offset: int, ansi: str):
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    texts = [(row, *(text_of(column.kind, value_in(row, column)) for column in COLUMNS)) for row in range(ROWS)]
    rows = spark.createDataFrame(texts, ["row", *(column.name for column in COLUMNS)]).selectExpr(
        "row", *(f"CAST({column.name} AS {column.kind.delta_type}) AS {column.name}" for column in COLUMNS)
    )
    differing = []
    for column in COLUMNS:
        predicates = predicates_of(column)
        for row, *truths in rows.selectExpr("row", *(predicate.sql for predicate in predicates)).collect():
            value = value_in(row, column)
            differing += [
                (predicate.sql, value, theirs)
                for predicate, theirs in zip(predicates, truths, strict=True)
                if predicate.truth({column: value}, offset, None) != theirs
            ]
    assert not differing
