"""Streaming reads with `startingVersion` over HTTP: the lines that Spark's streaming source needs."""

import json
from io import BytesIO

import pyarrow.parquet as pq
import pytest
import requests

from tests.integration.wire.conftest import DELTA, Wire, error, lines


def kinds(response: requests.Response) -> list[tuple[str, int | None]]:
    """Returns the kind and the version of each line. In delta format, the kind of a file is that of its action."""
    found = []
    for line in lines(response):
        kind, content = next(iter(line.items()))
        if kind == "file":
            kind = next(iter(content["deltaSingleAction"]))
        found.append((kind, content.get("version")))
    return found


@pytest.mark.parametrize("capabilities", [None, DELTA])
class TestBothFormats:
    def test_a_stream_gets_the_data_of_each_commit_in_order(self, wire: Wire, capabilities: str | None) -> None:
        response = wire.query("switched_off", capabilities, predicateHints=[], startingVersion=1, endingVersion=5)
        assert response.headers["Delta-Table-Version"] == "1"
        assert kinds(response)[1:] == [
            ("metaData", 1), ("add", 1), ("add", 2), ("add", 3), ("metaData", 4), ("add", 5)
        ]  # fmt: skip

    def test_change_data_files_are_left_out(self, wire: Wire, capabilities: str | None) -> None:
        found = kinds(wire.query("feed", capabilities, startingVersion=1, endingVersion=1))[2:]
        assert sorted(found) == [("add", 1), ("remove", 1)]

    def test_commits_that_only_move_rows_are_left_out(self, wire: Wire, capabilities: str | None) -> None:
        assert kinds(wire.query("feed", capabilities, startingVersion=4))[2:] == []

    def test_without_an_ending_version_a_stream_reads_to_the_latest_version(
        self, wire: Wire, capabilities: str | None
    ) -> None:
        assert kinds(wire.query("switched_off", capabilities, startingVersion=5))[1:] == [("metaData", 5), ("add", 5)]

    def test_hints_and_limits_are_ignored(self, wire: Wire, capabilities: str | None) -> None:
        hints = {"predicateHints": ["id = 1"], "jsonPredicateHints": "{}", "limitHint": 1}
        plain = kinds(wire.query("switched_off", capabilities, startingVersion=0))
        assert kinds(wire.query("switched_off", capabilities, startingVersion=0, **hints)) == plain

    def test_an_end_stream_action_is_sent_on_request(self, wire: Wire, capabilities: str | None) -> None:
        asked = f"{capabilities or 'responseformat=parquet'};includeendstreamaction=true"
        response = wire.query("feed", asked, startingVersion=4)
        assert lines(response)[-1] == {"endStreamAction": {}}
        assert response.headers["delta-sharing-capabilities"].endswith(";includeendstreamaction=true")
        assert "endStreamAction" in lines(wire.query("feed", capabilities, startingVersion=0, maxFiles=10))[-1]
        assert "endStreamAction" not in lines(wire.query("feed", capabilities, startingVersion=0))[-1]


def test_the_files_of_a_stream_open_and_match_their_lines(wire: Wire) -> None:
    (line,) = lines(wire.query("vectors", startingVersion=3))[2:]
    added = line["add"]
    content = requests.get(added["url"], timeout=60).content
    assert len(content) == added["size"]
    assert pq.read_table(BytesIO(content))["id"].to_pylist() == [*range(10, 15)]
    assert json.loads(added["stats"]) == {"numRecords": 5}
    assert added.keys() == {
        "url", "id", "partitionValues", "size", "stats", "expirationTimestamp", "version", "timestamp",
    }  # fmt: skip


def test_a_removed_file_has_no_statistics_and_its_url_opens(wire: Wire) -> None:
    response = wire.query("feed", startingVersion=1, endingVersion=1)
    (removed,) = (line["remove"] for line in lines(response) if "remove" in line)
    assert removed.keys() == {"url", "id", "partitionValues", "size", "expirationTimestamp", "version", "timestamp"}
    assert len(requests.get(removed["url"], timeout=60).content) == removed["size"]


class TestDeletionVectorsAndMappedColumns:
    def test_a_delete_replaces_a_file_by_the_same_file_with_another_vector(self, wire: Wire) -> None:
        files = [line["file"] for line in lines(wire.query("vectors", DELTA, startingVersion=2, endingVersion=2))[2:]]
        vectors = [next(iter(file["deltaSingleAction"].values()))["deletionVector"] for file in files]
        assert [vector["cardinality"] for vector in vectors] == [2, 3]
        assert {vector["storageType"] for vector in vectors} == {"p"}
        assert len({file["id"] for file in files}) == 1
        assert len({file["deletionVectorFileId"] for file in files}) == 2

    def test_one_protocol_covers_the_range_unless_history_is_requested(self, wire: Wire) -> None:
        first = lines(wire.query("upgraded", DELTA, startingVersion=0))[0]["protocol"]
        assert first["deltaProtocol"]["readerFeatures"] == ["columnMapping"]
        asked = wire.query("upgraded", DELTA, startingVersion=0, includeHistoricalProtocol=True)
        assert [found for found in kinds(asked) if found[0] == "protocol"] == [("protocol", 0), ("protocol", 2)]
        assert lines(asked)[0]["protocol"]["deltaProtocol"] == {"minReaderVersion": 1, "minWriterVersion": 4}

    def test_a_stream_in_parquet_format_fails_at_the_first_file_that_is_not_plain(self, wire: Wire) -> None:
        plain = kinds(wire.query("upgraded", startingVersion=0, endingVersion=1))
        assert plain[2:] == [("add", 0), ("add", 1)]
        for body in ({"startingVersion": 0}, {"startingVersion": 3}):
            status, code, message = error(wire.query("upgraded", **body))
            assert (status, code) == (400, "UNSUPPORTED_OPERATION")
            assert message.startswith("Unsupported Delta Table Properties")
