"""Snapshots in both formats, over plain HTTP and with the published Python client."""

import contextlib
import io
import json

import delta_sharing
import pytest
import requests

from tests.integration.wire.conftest import BOTH, DELTA, Wire, error, lines

pytestmark = pytest.mark.filterwarnings("ignore")  # raised by the client

SPARK = (
    "responseformat=parquet,delta;readerfeatures=deletionVectors,columnMapping,timestampNtz,typeWidening-preview,"
    "typeWidening,variantType-preview,geospatial,variantType,variantShredding-preview,variantShredding"
)


def ids(wire: Wire, table: str, version: int | None = None, *, delta: bool | None = None) -> list[int]:
    with contextlib.redirect_stdout(io.StringIO()):
        frame = delta_sharing.load_as_pandas(wire.url(table), version=version, use_delta_format=delta)
    return sorted(frame["id"])


def format_of(response: requests.Response) -> str:
    assert response.status_code == 200, response.text
    return response.headers["delta-sharing-capabilities"].removeprefix("responseformat=")


class TestThePythonClient:
    @pytest.mark.parametrize("delta", [None, True])
    @pytest.mark.parametrize(
        ("version", "expected"),
        [
            (0, [*range(10)]),
            (1, [*range(1, 9)]),
            (2, [1, 2, 3, 4, 6, 7, 8]),
            (None, [1, 2, 3, 4, 6, 7, 8, *range(10, 15)]),
        ],
    )
    def test_reads_the_rows_that_are_not_deleted(
        self, wire: Wire, version: int | None, expected: list[int], delta: bool | None
    ) -> None:
        assert ids(wire, "vectors", version, delta=delta) == expected

    @pytest.mark.parametrize("delta", [None, True])
    def test_reads_renamed_columns(self, wire: Wire, delta: bool | None) -> None:
        assert ids(wire, "mapped", delta=delta) == [0, 1, 2, 3, 4]
        assert ids(wire, "upgraded", delta=delta) == [*range(6)]

    @pytest.mark.parametrize("delta", [None, True, False])
    def test_reads_plain_tables_in_both_formats(self, wire: Wire, delta: bool | None) -> None:
        assert ids(wire, "feed", delta=delta) == [1, 2, 4]
        assert ids(wire, "upgraded", 1, delta=delta or False) == [0, 1, 2, 3]
        assert ids(wire, "leftover_vectors", delta=delta) == [*range(5)]

    def test_a_limit_counts_rows_that_are_not_deleted(self, wire: Wire) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            frame = delta_sharing.load_as_pandas(wire.url("vectors"), limit=9)
        assert len(frame) == 9

    @pytest.mark.usefixtures("golden_tables")
    @pytest.mark.parametrize(
        ("table", "delta", "rows"),
        [
            ("type-widening", None, 2),
            ("type-widening", True, 2),
            ("type-widening-nested", None, 2),
            ("type-widening-nested", False, 2),
            ("spark-variant-checkpoint", None, 102),
            ("spark-variant-checkpoint", True, 102),
            ("data-reader-timestamp_ntz", None, 9),
            ("dv-with-columnmapping", None, 35),
        ],
    )
    def test_reads_features_that_it_does_not_announce(
        self, wire: Wire, table: str, delta: bool | None, rows: int
    ) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            frame = delta_sharing.load_as_pandas(wire.url(table), use_delta_format=delta)
        assert len(frame) == rows


class TestNegotiation:
    @pytest.mark.parametrize(
        ("table", "version", "chosen"),
        [
            ("feed", None, "parquet"),
            ("vectors", None, "delta"),
            ("vectors", 0, "delta"),
            ("leftover_vectors", 0, "delta"),
            ("leftover_vectors", 1, "parquet"),
            ("mapped", None, "delta"),
            ("upgraded", 0, "parquet"),
            ("upgraded", 2, "delta"),
        ],
    )
    def test_a_client_chosen_formats_gets_the_one_that_suits_the_table(
        self, wire: Wire, table: str, version: int | None, chosen: str
    ) -> None:
        at_version = {} if version is None else {"version": version}
        for capabilities in (BOTH, SPARK):
            assert format_of(wire.metadata(table, capabilities, **at_version)) == chosen
            assert format_of(wire.query(table, capabilities, **at_version)) == chosen
        assert format_of(wire.metadata(table, DELTA, **at_version)) == "delta"
        if chosen == "parquet" or (table, version) == ("vectors", 0):
            assert format_of(wire.query(table, **at_version)) == "parquet"

    @pytest.mark.parametrize("table", ["vectors", "mapped", "upgraded"])
    @pytest.mark.parametrize(
        "capabilities", [None, "responseformat=parquet;readerfeatures=deletionvectors,columnmapping"]
    )
    def test_parquet_format_is_rejected_if_it_would_return_wrong_rows(
        self, wire: Wire, table: str, capabilities: str | None
    ) -> None:
        for response in (wire.metadata(table, capabilities), wire.query(table, capabilities)):
            status, code, message = error(response)
            assert (status, code) == (400, "UNSUPPORTED_OPERATION")
            assert message.startswith("Unsupported Delta Table Properties")

    def test_leftover_deletion_vectors_have_a_specific_error_text(self, wire: Wire) -> None:
        for capabilities in (None, "responseformat=delta;readerfeatures=columnmapping", "responseformat=delta"):
            status, code, message = error(wire.query("leftover_vectors", capabilities, version=0))
            assert (status, code) == (400, "UNSUPPORTED_OPERATION")
            assert message.startswith("Deletion Vector property disabled")

    def test_the_error_for_an_unknown_feature_names_it(self, wire: Wire) -> None:
        for response in (wire.metadata("unknown_feature", SPARK), wire.query("unknown_feature", BOTH)):
            assert error(response) == (
                400,
                "UNSUPPORTED_OPERATION",
                "The table needs the Delta reader feature geospatial, which this server does not support.",
            )

    def test_a_shallow_clone_without_auxiliary_locations_is_rejected(self, wire: Wire) -> None:
        for capabilities in (None, DELTA):
            status, code, message = error(wire.query("cloned", capabilities))
            assert (status, code) == (400, "UNSUPPORTED_OPERATION")
            assert message.startswith("Table contains absolute paths and cannot be shared through delta sharing")


class TestDeltaFormat:
    def test_every_url_opens_the_file_of_its_line(self, wire: Wire) -> None:
        head, metadata, *files = lines(wire.query("vectors", DELTA))
        assert head["protocol"]["deltaProtocol"]["readerFeatures"] == ["deletionVectors"]
        actions = [line["file"]["deltaSingleAction"]["add"] for line in files]
        assert metadata["metaData"]["size"] == sum(action["size"] for action in actions)
        assert metadata["metaData"]["numFiles"] == len(actions) == 2
        for action in actions:
            assert len(requests.get(action["path"], timeout=60).content) == action["size"]
        (vector,) = (action["deletionVector"] for action in actions if "deletionVector" in action)
        content = requests.get(vector["pathOrInlineDv"], timeout=60).content
        assert content[0] == 1
        assert len(content) == 1 + 4 + vector["sizeInBytes"] + 4

    def test_lines_equal_the_actions_of_the_log_except_for_the_path(self, wire: Wire) -> None:
        log = wire.folder / "feed" / "_delta_log" / f"{0:020d}.json"
        logged = [json.loads(line) for line in log.read_text().splitlines()]
        (added,) = (action["add"] for action in logged if "add" in action)
        (described,) = (action["metaData"] for action in logged if "metaData" in action)
        _, metadata, file = lines(wire.query("feed", DELTA, version=0))
        relayed = file["file"]["deltaSingleAction"]["add"]
        assert {**relayed, "path": added["path"]} == {name: text for name, text in added.items() if text is not None}
        relayed = metadata["metaData"]["deltaMetadata"]
        assert relayed == {name: text for name, text in described.items() if text is not None}

    def test_lines_of_an_older_version_have_its_version_and_timestamp(self, wire: Wire) -> None:
        response = wire.query("vectors", DELTA, version=1)
        file = lines(response)[2]["file"]
        assert file["version"] == 1
        assert file["timestamp"] > 1_600_000_000_000
        assert response.headers["Delta-Table-Version"] == "1"
        assert "version" not in lines(wire.query("vectors", DELTA))[2]["file"]
