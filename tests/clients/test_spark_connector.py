"""Spark's Delta Sharing connector reads the same rows that Spark reads from the provider's files."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from tests.clients.cases import CHANGES, TABLES, TIME, refusal
from tests.clients.conftest import Shared
from tests.clients.rows import Rows, spark_rows

pytestmark = [
    pytest.mark.usefixtures("with_connector"),
    # PySpark leaves a socket open for every table that it converts to Arrow.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

FORMATS = pytest.mark.parametrize("response_format", ["parquet", "delta"])
# Only ends a stream that hangs: on a busy machine everything takes several times as long.
STREAM_SECONDS = 600
STREAMS: list[tuple[str, dict[str, object]]] = [
    ("plain", {}),
    ("plain", {"startingVersion": 0, "ignoreChanges": "true"}),
    ("optimized", {"startingVersion": 1}),
    ("deletion_vectors", {"startingVersion": 0, "skipChangeCommits": "true"}),
    ("change_feed_partitioned", {"startingVersion": 0, "readChangeFeed": "true"}),
    ("change_feed_deletion_vectors", {"startingVersion": 0, "readChangeFeed": "true"}),
]


def load(shared: Shared, name: str, **options: object) -> DataFrame:
    return shared.spark.read.format("deltaSharing").options(**options).load(shared.url(name))


def skip_what_parquet_cannot_express(shared: Shared, name: str, versions: range, response_format: str) -> None:
    if response_format == "parquet" and any(refusal(shared.log(name).at(number)) for number in versions):
        pytest.skip("only in delta format")


def streamed(shared: Shared, source: str, path: str, options: dict[str, object], folder: Path) -> Rows:
    """Returns all rows that a stream reads until it has caught up."""
    stream = shared.spark.readStream.format(source).options(**options).load(path)
    sink = stream.writeStream.format("parquet").option("checkpointLocation", str(folder / f"{source}-checkpoint"))
    query = sink.trigger(availableNow=True).start(str(folder / source))
    try:
        assert query.awaitTermination(STREAM_SECONDS)
    finally:
        query.stop()
    return spark_rows(shared.spark.read.schema(stream.schema).parquet(str(folder / source)), TIME)


@FORMATS
@pytest.mark.parametrize("name", TABLES)
def test_versions_are_read_as_spark_reads_them(shared: Shared, name: str, response_format: str) -> None:
    versions = sorted(shared.contents[name])
    for number in {versions[len(versions) // 2], versions[-1]}:
        if response_format == "delta" or not refusal(shared.log(name).at(number)):
            content = shared.contents[name][number]
            found = load(shared, name, responseFormat=response_format, versionAsOf=number)
            assert found.columns == content.columns
            assert spark_rows(found) == content.rows, f"version {number}"


@pytest.mark.parametrize("name", TABLES)
def test_the_latest_version_is_read_if_no_format_is_named(shared: Shared, name: str) -> None:
    assert spark_rows(load(shared, name)) == shared.contents[name][shared.log(name).latest].rows


@FORMATS
@pytest.mark.parametrize("condition", ["part = 3", "part IS NULL", "id > 15 AND part <> 4", "id = 7"])
def test_a_filter_returns_all_matching_rows(shared: Shared, condition: str, response_format: str) -> None:
    name = "checkpoint_classic"
    provided = shared.spark.read.format("delta").load(str(shared.folder / name))
    found = load(shared, name, responseFormat=response_format).where(condition)
    assert spark_rows(found) == spark_rows(provided.where(condition))


@FORMATS
@pytest.mark.parametrize(("name", "start", "end"), CHANGES)
def test_changes_are_read_as_spark_reads_them(
    shared: Shared, name: str, start: int, end: int, response_format: str
) -> None:
    skip_what_parquet_cannot_express(shared, name, range(start, end + 1), response_format)
    options = {"readChangeFeed": "true", "startingVersion": start, "endingVersion": end}
    found = load(shared, name, responseFormat=response_format, **options)
    expected = shared.changes(name, start, end).select(found.columns)
    assert spark_rows(found, TIME) == spark_rows(expected, TIME)


@FORMATS
@pytest.mark.parametrize(("name", "options"), STREAMS)
def test_a_stream_reads_what_a_stream_of_the_table_itself_reads(
    shared: Shared, name: str, options: dict[str, object], response_format: str, tmp_path: Path
) -> None:
    skip_what_parquet_cannot_express(shared, name, range(shared.log(name).latest + 1), response_format)
    expected = streamed(shared, "delta", str(shared.folder / name), options, tmp_path)
    options = {**options, "responseFormat": response_format}
    assert streamed(shared, "deltaSharing", shared.url(name), options, tmp_path) == expected
