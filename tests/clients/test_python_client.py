"""The published Python client reads the same rows that Spark reads from the provider's files."""

import delta_sharing
import pandas as pd
import pytest
import requests

from tests.clients.cases import CHANGES, TABLES, TIME, refusal
from tests.clients.conftest import Shared
from tests.clients.rows import pandas_rows, spark_rows

# PySpark, pandas and aiohttp raise warnings, in the client's code and in ours.
pytestmark = pytest.mark.filterwarnings("ignore")

# The client does not support variant shredding, and does not list it in its capabilities.
SHREDDED = "types_variant_shredded"
READABLE = [name for name in TABLES if name != SHREDDED]


def read_changes(shared: Shared, name: str, start: int, end: int, *, use_delta_format: bool) -> pd.DataFrame:
    frame = delta_sharing.load_table_changes_as_pandas(
        shared.url(name), starting_version=start, ending_version=end, use_delta_format=use_delta_format
    )
    return frame.drop(columns=TIME)


@pytest.mark.parametrize("name", READABLE)
def test_every_version_is_read_in_delta_format_as_spark_reads_it(shared: Shared, name: str) -> None:
    for number, content in shared.contents[name].items():
        found = delta_sharing.load_as_pandas(shared.url(name), version=number, use_delta_format=True)
        assert pandas_rows(found, content.columns) == content.rows, f"version {number}"


def test_a_table_with_a_feature_the_client_does_not_support_is_refused(shared: Shared) -> None:
    with pytest.raises(requests.HTTPError, match="variantshredding"):
        delta_sharing.load_as_pandas(shared.url(SHREDDED), use_delta_format=True)


@pytest.mark.parametrize("name", TABLES)
def test_every_version_is_read_in_parquet_format_as_spark_reads_it_or_refused(shared: Shared, name: str) -> None:
    for number, content in shared.contents[name].items():
        version = shared.log(name).at(number)
        # The client rejects timestamps without time zone in this format.
        if reason := refusal(version) or ("timestamp_ntz" if version.has_type("timestamp_ntz") else None):
            with pytest.raises((requests.HTTPError, ValueError), match=reason):
                delta_sharing.load_as_pandas(shared.url(name), version=number, use_delta_format=False)
        else:
            found = delta_sharing.load_as_pandas(shared.url(name), version=number, use_delta_format=False)
            assert pandas_rows(found, content.columns) == content.rows, f"version {number}"


@pytest.mark.parametrize("name", READABLE)
def test_the_latest_version_is_read_if_no_format_is_named(shared: Shared, name: str) -> None:
    content = shared.contents[name][shared.log(name).latest]
    assert pandas_rows(delta_sharing.load_as_pandas(shared.url(name)), content.columns) == content.rows


@pytest.mark.parametrize(("name", "start", "end"), CHANGES)
def test_changes_are_read_in_delta_format_as_spark_reads_them(shared: Shared, name: str, start: int, end: int) -> None:
    log = shared.log(name)
    if log.at(start).metadata["schemaString"] != log.at(end).metadata["schemaString"]:
        # The client cannot read a range in which the schema changes.
        with pytest.raises(ValueError, match="Start and end version schemas are different"):
            read_changes(shared, name, start, end, use_delta_format=True)
    else:
        found = read_changes(shared, name, start, end, use_delta_format=True)
        expected = shared.changes(name, start, end).select(*found.columns)
        assert pandas_rows(found, expected.columns) == spark_rows(expected)


@pytest.mark.parametrize(("name", "start", "end"), CHANGES)
def test_changes_are_read_in_parquet_format_as_spark_reads_them_or_refused(
    shared: Shared, name: str, start: int, end: int
) -> None:
    reasons = [refusal(shared.log(name).at(number)) for number in range(start, end + 1)]
    if any(reasons):
        with pytest.raises(requests.HTTPError, match="Unsupported Delta Table Properties"):
            read_changes(shared, name, start, end, use_delta_format=False)
    else:
        found = read_changes(shared, name, start, end, use_delta_format=False)
        expected = shared.changes(name, start, end).drop(TIME)
        assert pandas_rows(found, expected.columns) == spark_rows(expected)


def test_changes_across_versions_without_a_change_feed_are_refused(shared: Shared) -> None:
    with pytest.raises(requests.HTTPError, match=r"not recorded for version \[5\]"):
        read_changes(shared, "change_feed_late", 3, 7, use_delta_format=True)
