"""The change data feed, read with the published Python client in both formats and over plain HTTP."""

import contextlib
import io
from datetime import UTC, datetime
from typing import Any

import delta_sharing
import pytest

from tests.integration.wire.conftest import DELTA, Wire, error, lines

pytestmark = pytest.mark.filterwarnings("ignore")  # raised by the client

UPDATE = [(2, "b", "update_preimage", 1), (2, "B", "update_postimage", 1)]
FEED = [
    *((id_, name, "insert", 0) for id_, name in ((1, "a"), (2, "b"), (3, "c"))),
    *UPDATE,
    (3, "c", "delete", 2),
    (4, "d", "insert", 3),
]


def read(wire: Wire, table: str, start: int, end: int | None = None, *, delta: bool) -> list[tuple[Any, ...]]:
    """Returns the changes with all columns except the time, sorted."""
    with contextlib.redirect_stdout(io.StringIO()):
        frame = delta_sharing.load_table_changes_as_pandas(
            wire.url(table), starting_version=start, ending_version=end, use_delta_format=delta
        )
    frame = frame.drop(columns="_commit_timestamp")
    return sorted(frame.itertuples(index=False, name=None), key=str)


@pytest.mark.parametrize("delta", [False, True])
class TestThePythonClient:
    def test_reads_inserts_updates_and_deletes_but_no_moved_rows(self, wire: Wire, delta: bool) -> None:
        assert read(wire, "feed", 0, delta=delta) == sorted(FEED, key=str)

    def test_reads_a_part_of_the_history(self, wire: Wire, delta: bool) -> None:
        assert read(wire, "feed", 1, 1, delta=delta) == sorted(UPDATE, key=str)
        assert read(wire, "feed", 3, delta=delta) == [(4, "d", "insert", 3)]

    def test_a_range_without_changes_is_empty(self, wire: Wire, delta: bool) -> None:
        assert read(wire, "feed", 4, delta=delta) == []

    def test_reads_a_cleaned_up_log_from_its_start(self, wire: Wire, delta: bool) -> None:
        assert read(wire, "cleaned_up", 3, delta=delta) == [(4, "d", "insert", 3)]


class TestDeletionVectors:
    def test_the_python_client_reads_the_rows_that_each_commit_deleted(self, wire: Wire) -> None:
        deleted = [(0, "delete", 1), (9, "delete", 1), (5, "delete", 2)]
        inserted = [(number, "insert", 0) for number in range(10)] + [(number, "insert", 3) for number in range(10, 15)]
        assert read(wire, "vectors", 0, delta=True) == sorted(deleted + inserted, key=str)
        assert read(wire, "vectors", 2, 2, delta=True) == [(5, "delete", 2)]

    def test_both_actions_on_a_path_share_its_id_and_have_their_own_vector(self, wire: Wire) -> None:
        files = [line["file"] for line in lines(wire.changes("vectors", DELTA, startingVersion=2, endingVersion=2))[2:]]
        removed, added = files
        assert removed["id"] == added["id"]
        assert removed["deletionVectorFileId"] != added["deletionVectorFileId"]
        cardinalities = [
            next(iter(file["deltaSingleAction"].values()))["deletionVector"]["cardinality"] for file in files
        ]
        assert cardinalities == [2, 3]

    def test_plain_files_of_the_table_can_be_read_in_parquet_format(self, wire: Wire) -> None:
        inserted = [(number, "insert", 3) for number in range(10, 15)]
        assert read(wire, "vectors", 3, delta=False) == sorted(inserted, key=str)
        status, code, message = error(wire.changes("vectors", startingVersion=1))
        assert (status, code) == (400, "UNSUPPORTED_OPERATION")
        assert message.startswith("Unsupported Delta Table Properties")


def test_the_python_client_reads_a_range_in_which_features_were_enabled(wire: Wire) -> None:
    inserted = [(number, "insert", 0) for number in range(5)]
    assert read(wire, "modernised", 0, delta=True) == sorted([*inserted, (2, "delete", 2)], key=str)
    assert lines(wire.changes("modernised", DELTA, startingVersion=2))[2]["file"]["timestamp"] == 1_900_000_001_234


def test_the_python_client_reads_renamed_columns(wire: Wire) -> None:
    assert read(wire, "mapped", 0, delta=True) == sorted(
        [(number, "insert", 0) for number in range(3)] + [(number, "insert", 1) for number in (3, 4)], key=str
    )
    assert error(wire.changes("mapped", startingVersion=0))[:2] == (400, "UNSUPPORTED_OPERATION")


class TestHead:
    def test_the_metadata_is_of_the_latest_version_or_of_the_first_with_historical_metadata(self, wire: Wire) -> None:
        for capabilities in (None, DELTA):
            latest = wire.changes("feed", capabilities, startingVersion=1, readChangeFeed="true")
            assert lines(latest)[1]["metaData"]["version"] == 4
            assert latest.headers["Delta-Table-Version"] == "1"
            first = wire.changes("feed", capabilities, startingVersion=1, includeHistoricalMetadata="True")
            assert lines(first)[1]["metaData"]["version"] == 1

    def test_every_file_has_the_version_and_time_of_its_commit(self, wire: Wire) -> None:
        _, _, *files = lines(wire.changes("feed", startingVersion=0))
        assert [next(iter(line)) for line in files] == ["add", "cdf", "cdf", "add"]
        contents = [next(iter(line.values())) for line in files]
        assert [content["version"] for content in contents] == [0, 1, 2, 3]
        times = [content["timestamp"] for content in contents]
        assert times == sorted(set(times))

    def test_the_headers_contain_the_format_and_the_hash(self, wire: Wire) -> None:
        response = wire.changes("feed", DELTA + ";includeendstreamaction=true", startingVersion=0)
        assert response.headers["delta-sharing-capabilities"] == "responseformat=delta;includeendstreamaction=true"
        assert "endStreamAction" in lines(response)[-1]
        hashed = wire.call("GET", "feed", "changes", headers={"fileidhash": "delta"}, params={"startingVersion": 0})
        assert hashed.headers["fileidhash"] == "delta"
        ids = {next(iter(line.values()))["id"] for line in lines(hashed)[2:]}
        assert {len(file_id) for file_id in ids} == {64}

    def test_max_files_adds_an_end_stream_action(self, wire: Wire) -> None:
        assert "endStreamAction" in lines(wire.changes("feed", startingVersion=0, maxFiles=1))[-1]
        assert "endStreamAction" not in lines(wire.changes("feed", startingVersion=0))[-1]


def test_timestamps_resolve_to_the_versions_that_the_files_show(wire: Wire) -> None:
    contents = [next(iter(line.values())) for line in lines(wire.changes("feed", startingVersion=0))[2:]]
    moments = {content["version"]: content["timestamp"] for content in contents}

    def versions(**edges: int) -> list[int]:
        texts = {name: datetime.fromtimestamp(edge / 1000, UTC).isoformat() for name, edge in edges.items()}
        return [next(iter(line.values()))["version"] for line in lines(wire.changes("feed", **texts))[2:]]

    assert versions(startingTimestamp=moments[1], endingTimestamp=moments[2]) == [1, 2]
    assert versions(startingTimestamp=moments[1] + 1, endingTimestamp=moments[3] + 1) == [2, 3]
