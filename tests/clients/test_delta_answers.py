"""Responses in delta format relay the actions of the log, and Spark reads the right rows from them.

These tests do not need Spark's connector. They send the requests that it sends, and build the tables that it builds.
"""

import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.clients import rebuilt
from tests.clients.cases import CHANGES, CLONE, TABLES, TIME, refusal
from tests.clients.conftest import Shared
from tests.clients.delta_log import Action
from tests.clients.rows import spark_rows

# PySpark leaves a socket open for every table that it converts to Arrow.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

FEATURES = (
    "readerfeatures=deletionVectors,columnMapping,timestampNtz,typeWidening-preview,typeWidening,"
    "variantType-preview,geospatial,variantType,variantShredding-preview,variantShredding"
)
DELTA, BOTH = f"responseformat=delta;{FEATURES}", f"responseformat=parquet,delta;{FEATURES}"
# Timestamps that a checkpoint stores only as INT96. Arrow may decode a wrong year, so they are not used as bounds.
WITHOUT_BOUNDS = {"checkpoint_struct_stats": "at"}


def file_id(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()


def relayed(action: Action) -> Action:
    """Returns the fields of an action that are relayed unchanged: all except the paths, which become signed URLs."""
    fields = {name: value for name, value in action.items() if name != "path" and value is not None}
    if vector := fields.get("deletionVector"):
        fields["deletionVector"] = {name: vector.get(name) for name in ("offset", "sizeInBytes", "cardinality")}
    return fields


def relayed_of_live_file(add: Action, name: str) -> Action:
    """Returns the relayed fields that a checkpoint keeps: not `dataChange`, and statistics as values, not as text."""
    fields = relayed(add)
    del fields["dataChange"]
    if "stats" in fields:
        fields["stats"] = stats = json.loads(fields["stats"])
        for bounds in ("minValues", "maxValues"):
            stats.get(bounds, {}).pop(WITHOUT_BOUNDS.get(name), None)
    return fields


def assert_signed_for(line: dict[str, Any], path: str) -> None:
    (action,) = line["file"]["deltaSingleAction"].values()
    assert line["file"]["id"] == file_id(path)
    assert unquote(urlsplit(action["path"]).path).endswith(f"/{unquote(path)}")
    vector = action.get("deletionVector")
    assert ("deletionVectorFileId" in line["file"]) == (vector is not None)
    assert vector is None or vector["storageType"] == "p"


@pytest.mark.parametrize("name", TABLES)
def test_every_version_relays_the_actions_of_the_log(shared: Shared, name: str) -> None:
    log = shared.log(name)
    for number in range(log.latest + 1):
        version = log.at(number)
        _, head, *files = shared.lines("POST", name, "query", DELTA, json={"version": number})
        metadata = head["metaData"]["deltaMetadata"]
        assert metadata["schemaString"] == version.metadata["schemaString"]
        assert metadata["partitionColumns"] == version.metadata["partitionColumns"]
        assert head["metaData"]["size"] == sum(add["size"] for add in version.adds)
        assert head["metaData"]["numFiles"] == len(files) == len(version.adds)
        lines = {line["file"]["id"]: line for line in files}
        for add in version.adds:
            line = lines[file_id(add["path"])]
            assert_signed_for(line, add["path"])
            action = line["file"]["deltaSingleAction"]["add"]
            assert relayed_of_live_file(action, name) == relayed_of_live_file(add, name)


@pytest.mark.parametrize("name", TABLES)
def test_a_stream_gets_what_each_commit_added_and_removed(shared: Shared, name: str) -> None:
    log = shared.log(name)
    body = {"predicateHints": [], "startingVersion": 0, "endingVersion": log.latest}
    _, _, *lines = shared.lines("POST", name, "query", DELTA, json=body)
    files = [line for line in lines if "file" in line]
    expected = [(number, *change) for number in range(log.latest + 1) for change in log.data_changes(number)]
    for line, (number, kind, action) in zip(files, expected, strict=True):
        assert line["file"]["version"] == number
        assert log.in_commit_timestamp(number) in (None, line["file"]["timestamp"])
        assert_signed_for(line, action["path"])
        assert relayed(line["file"]["deltaSingleAction"][kind]) == relayed(action)
    changed = [number for number in range(1, log.latest + 1) if log.changes_metadata(number)]
    assert [line["metaData"]["version"] for line in lines if "metaData" in line] == changed


@pytest.mark.parametrize("name", ["in_commit_timestamps", "in_commit_timestamps_late"])
def test_a_version_is_found_by_its_in_commit_timestamp(shared: Shared, name: str) -> None:
    log = shared.log(name)
    times = {number: time for number in range(log.latest + 1) if (time := log.in_commit_timestamp(number))}
    for number, time in times.items():
        moment = dt.datetime.fromtimestamp(time / 1000, dt.UTC).isoformat()
        at_or_after = shared.call("GET", name, "version", DELTA, params={"startingTimestamp": moment})
        at_or_before = shared.call("POST", name, "query", DELTA, json={"timestamp": moment})
        assert at_or_after.headers["Delta-Table-Version"] == at_or_before.headers["Delta-Table-Version"] == str(number)


@pytest.mark.parametrize("name", TABLES)
def test_a_client_that_accepts_both_formats_gets_one_that_it_can_read(shared: Shared, name: str) -> None:
    chosen = shared.call("GET", name, "metadata", BOTH).headers["delta-sharing-capabilities"]
    if refusal(shared.log(name).at(shared.log(name).latest)):
        assert chosen == "responseformat=delta"
    shared.lines(
        "POST", name, "query", f"{chosen};{FEATURES}", json={"predicateHints": [], "includeRefreshToken": True}
    )


@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_the_rows_of_a_table_from_the_response(shared: Shared, name: str, tmp_path: Path) -> None:
    body = {"predicateHints": [], "includeRefreshToken": True}
    rebuilt.snapshot(shared.lines("POST", name, "query", DELTA, json=body), tmp_path)
    found = shared.spark.read.format("delta").load(str(tmp_path))
    content = shared.contents[name][shared.log(name).latest]
    assert found.columns == content.columns
    assert spark_rows(found) == content.rows


@pytest.mark.parametrize(("name", "start", "end"), CHANGES)
def test_spark_reads_the_changes_of_a_table_from_the_response(
    shared: Shared, name: str, start: int, end: int, tmp_path: Path
) -> None:
    parameters = {"readChangeFeed": "true", "startingVersion": start, "endingVersion": end}
    lines = shared.lines("GET", name, "changes", DELTA, params={**parameters, "includeHistoricalMetadata": "true"})
    first, last = rebuilt.commits(lines, tmp_path)
    options = {"readChangeFeed": "true", "startingVersion": first, "endingVersion": last}
    found = shared.spark.read.format("delta").options(**options).load(str(tmp_path))
    # Spark reads the changes of its own table with the latest columns, and those of a response with its last columns.
    expected = shared.changes(name, start, end).select(found.columns)
    assert spark_rows(found, TIME) == spark_rows(expected, TIME)


def test_a_clone_is_refused_if_the_location_of_its_files_is_not_registered(shared: Shared) -> None:
    answer = shared.call("POST", CLONE, "query", DELTA, json={})
    assert answer.status_code == 400
    assert "Table contains absolute paths and cannot be shared through delta sharing" in answer.json()["message"]
