"""Streams and change feeds in both formats: the lines of each commit, and the ranges that are refused."""

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import DamagedLogError, InvalidParameterError, UnsupportedOperationError
from tests.examples import examples
from tests.unit.delta.builder import PROTOCOL, Action, add, metadata, name, remove, vector
from tests.unit.sharing.shared_table import DELTA, SharedTable
from tests.unit.sharing.test_answers import CODE, protocol

FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
MERGED_NOTHING = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0", "numTargetRowsDeleted": "0"}
HISTORY = {"includeHistoricalMetadata": "True"}

Lines = list[dict[str, Any]]


def table(**properties: str) -> Action:
    return metadata(configuration=properties)


def removed(path: str, **more: Any) -> Action:
    return remove(path, **{"size": 1, "partitionValues": {"p": "x"}} | more)


def cdc(path: str) -> Action:
    return {"cdc": {"path": path, "partitionValues": {"p": "x"}, "size": 1, "dataChange": False}}


def files(lines: Lines) -> list[tuple[int, str, str]]:
    """Returns version, kind and id of each line about a file. `cdf` in parquet format is returned as `cdc`."""
    found = []
    for line in lines:
        kind, content = next(iter(line.items()))
        if kind == "file":
            (kind,) = content["deltaSingleAction"]
        if kind in ("add", "remove", "cdc", "cdf"):
            found.append((content["version"], kind.replace("cdf", "cdc"), content["id"]))
    return found


def expected(*triples: tuple[int, str, str], hash_name: str = "md5") -> list[tuple[int, str, str]]:
    return [(version, kind, hashlib.new(hash_name, path.encode()).hexdigest()) for version, kind, path in triples]


def versions_of(lines: Lines, kind: str) -> list[int | None]:
    """Returns the versions of all lines of a kind."""
    return [line[kind].get("version") for line in lines if kind in line]


class TestStreams:
    def test_changes_of_data_are_in_commit_order_without_moved_rows(self) -> None:
        env = SharedTable(
            [PROTOCOL, metadata(), add("a"), add("b")],
            [removed("a", dataChange=False), removed("b", dataChange=False), add("ab", dataChange=False)],
            [removed("ab"), add("c"), cdc("_change_data/1")],
            [{"txn": {"appId": "x", "version": 1}}, {"commitInfo": {"operation": "WRITE"}}],
            [add("d")],
        )
        lines = env.query(startingVersion=0)
        assert files(lines) == expected(
            (0, "add", "a"), (0, "add", "b"), (2, "remove", "ab"), (2, "add", "c"), (4, "add", "d")
        )
        assert [line["add"]["timestamp"] for line in lines if "add" in line] == [0, 0, 2000, 4000]
        assert files(env.query(startingVersion=1, endingVersion=3)) == expected((2, "remove", "ab"), (2, "add", "c"))
        assert files(env.query(DELTA, startingVersion=4)) == expected((4, "add", "d"), hash_name="sha256")

    def test_the_head_is_of_the_first_version_and_later_metadata_is_sent_where_it_changes(self) -> None:
        env = SharedTable([PROTOCOL, metadata()], [add("a")], [metadata(name="new"), add("b")], [add("c")])
        for capabilities in ("", DELTA):
            lines = env.query(capabilities, startingVersion=1)
            assert env.headers["Delta-Table-Version"] == "1"
            assert versions_of(lines, "metaData") == [1, 2]
            assert lines[1]["metaData"]["numFiles"] == 1
            assert "metaData" in lines[3]
            assert [version for version, *_ in files(lines)] == [1, 2, 3]
        assert versions_of(env.query(startingVersion=2), "metaData") == [2]

    def test_delta_format_sends_protocol_changes_on_request(self) -> None:
        env = SharedTable([PROTOCOL, metadata()], [add("a")], [protocol("deletionVectors"), add("b")])
        lines = env.query(DELTA, startingVersion=1, includeHistoricalProtocol=True)
        assert versions_of(lines, "protocol") == [1, 2]
        assert lines[0]["protocol"]["deltaProtocol"] == PROTOCOL["protocol"]
        assert versions_of(env.query(startingVersion=1, includeHistoricalProtocol=True), "protocol") == [None]

    def test_a_single_protocol_covers_the_features_of_the_whole_range(self) -> None:
        later = table(**{"delta.enableDeletionVectors": "true"})
        env = SharedTable([PROTOCOL, metadata()], [protocol("deletionVectors"), later], [add("a")])
        lines = env.query(DELTA, startingVersion=0)
        assert versions_of(lines, "protocol") == [None]
        assert lines[0]["protocol"]["deltaProtocol"]["readerFeatures"] == ["deletionVectors"]

    def test_an_end_stream_action_is_sent_on_request(self) -> None:
        env = SharedTable([PROTOCOL, metadata()], [add("a")])
        assert env.query(startingVersion=0, maxFiles=1)[-1] == {
            "endStreamAction": {"minUrlExpirationTimestamp": 3_600_000}
        }
        ended = env.query("responseformat=delta;includeendstreamaction=true", startingVersion=0, endingVersion=0)
        assert ended[-1] == {"endStreamAction": {}}
        assert env.headers["delta-sharing-capabilities"] == "responseformat=delta;includeendstreamaction=true"

    @pytest.mark.parametrize("capabilities", ["", DELTA])
    def test_a_stream_that_continues_reads_only_the_new_commits(self, capabilities: str) -> None:
        env = SharedTable([PROTOCOL, metadata()], *([add(f"f{number}")] for number in range(1, 10)))
        env.query(capabilities, startingVersion=9)
        for version in (10, 11):
            env.lake.commit(version, add(f"f{version}"))
            env.lake.s3.keys_read.clear()
            env.query(capabilities, startingVersion=version, endingVersion=version)
            assert set(env.lake.s3.keys_read) == {env.lake.location.key(name(version))}

    def test_a_range_ends_at_the_latest_version(self) -> None:
        env = SharedTable([PROTOCOL, metadata()], [add("a")])
        for capabilities in ("", DELTA):
            with pytest.raises(InvalidParameterError, match=r"Cannot time travel Delta table to version 7\."):
                env.query(capabilities, startingVersion=7)
            with pytest.raises(InvalidParameterError) as caught:
                env.query(capabilities, startingVersion=0, endingVersion=2)
            assert caught.value.message == (
                "Provided end version(2) is invalid. "
                "End version cannot be greater than the latest version of the table(1)."
            )


class TestFormatInARange:
    """An answer has one format. A later commit may need features that this format or the client does not support."""

    def test_a_client_that_accepts_both_formats_gets_delta_format_for_deletion_vectors(self) -> None:
        env = SharedTable(
            [protocol("deletionVectors"), table(**FEED), add("a", deletionVector=vector(CODE))],
            [removed("a", deletionVector=vector(CODE))],
        )
        both = "responseformat=parquet,delta;readerfeatures=deletionvectors"
        for lines in (env.query(both, startingVersion=0), env.changes(both, startingVersion=0)):
            assert env.headers["delta-sharing-capabilities"] == "responseformat=delta"
            assert [kind for _, kind, _ in files(lines)] == ["add", "remove"]

    def test_the_protocol_of_a_range_omits_unused_features(self) -> None:
        unused = protocol("variantType", "variantShredding", "deletionVectors")
        env = SharedTable([unused, table(**FEED), add("a")], [add("b")])
        lines = env.changes("responseformat=delta;readerfeatures=deletionvectors", startingVersion=0)
        assert lines[0]["protocol"]["deltaProtocol"]["readerFeatures"] == ["deletionVectors"]

    def test_a_feature_that_the_protocol_line_lacks_is_refused_within_a_range(self) -> None:
        ntz = metadata(schemaString='{"fields":[{"name":"t","type":"timestamp_ntz"},{"name":"p","type":"string"}]}')
        env = SharedTable([PROTOCOL, metadata()], [protocol("timestampNtz"), ntz], [metadata()], [add("a")])
        with pytest.raises(UnsupportedOperationError, match="features change within this range"):
            env.query("responseformat=delta", startingVersion=0)
        with_protocols = env.query("responseformat=delta", startingVersion=0, includeHistoricalProtocol=True)
        assert versions_of(with_protocols, "protocol") == [0, 1]

    def test_protocol_and_metadata_of_the_head_are_of_the_same_version(self) -> None:
        env = SharedTable([PROTOCOL, table(**FEED)], [protocol("columnMapping"), table(**FEED, **MAPPED)], [add("a")])
        lines = env.changes(DELTA, startingVersion=0, includeHistoricalProtocol=True)
        assert (lines[0]["protocol"]["version"], lines[1]["metaData"]["version"]) == (2, 2)
        assert lines[0]["protocol"]["deltaProtocol"]["minReaderVersion"] == 3

    def test_a_table_that_became_partitioned_within_the_range_is_readable(self) -> None:
        flat = metadata(partitionColumns=[])
        old = add("a")
        old["add"]["partitionValues"] = {}
        unpartitioned_remove = remove("a", size=1)
        env = SharedTable([PROTOCOL, flat, old], [metadata(), unpartitioned_remove, add("b")])
        assert [kind for _, kind, _ in files(env.query(startingVersion=0))] == ["add", "remove", "add"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ([protocol("deletionVectors"), add("a", deletionVector=vector(CODE))], "Deletion Vector property disabled"),
            ([protocol("columnMapping"), table(**MAPPED)], "Unsupported Delta Table Properties"),
            ([protocol("surprise")], "reader feature surprise"),
            ([{"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}], "is too new"),
        ],
    )
    def test_parquet_format_refuses_a_commit_whose_files_are_not_plain_parquet(
        self, change: list[Action], message: str
    ) -> None:
        env = SharedTable(
            [PROTOCOL, metadata(), add("z")], change, [removed("a", deletionVector=vector(CODE)), table()]
        )
        assert files(env.query(startingVersion=0, endingVersion=0))
        with pytest.raises(UnsupportedOperationError, match=message):
            env.query(startingVersion=0, endingVersion=1)

    def test_a_client_that_names_the_features_can_read_the_whole_range(self) -> None:
        changed = table(**MAPPED, **{"delta.enableDeletionVectors": "true"})
        pair = [removed("z"), add("z", deletionVector=vector(CODE))]
        env = SharedTable(
            [PROTOCOL, metadata(), add("z")], [protocol("columnMapping", "deletionVectors"), changed], pair
        )
        lines = env.query(DELTA, startingVersion=0)
        assert files(lines) == expected((0, "add", "z"), (2, "remove", "z"), (2, "add", "z"), hash_name="sha256")
        with pytest.raises(UnsupportedOperationError, match="Unsupported Delta Table Properties"):
            env.query("responseformat=delta;readerfeatures=columnmapping", startingVersion=0)
        with pytest.raises(UnsupportedOperationError, match="Unsupported Delta Table Properties"):
            env.query("responseformat=delta;readerfeatures=deletionvectors", startingVersion=0)

    def test_deletion_vectors_before_the_range_do_not_affect_its_format(self) -> None:
        first = [protocol("deletionVectors"), metadata(), add("a", deletionVector=vector(CODE))]
        env = SharedTable(first, [add("b")])
        assert files(env.query(startingVersion=1)) == expected((1, "add", "b"))

    def test_parquet_format_refuses_a_removed_file_with_a_deletion_vector(self) -> None:
        first = [protocol("deletionVectors"), metadata(), add("a", deletionVector=vector(CODE))]
        env = SharedTable(first, [removed("a", deletionVector=vector(CODE))])
        with pytest.raises(UnsupportedOperationError, match="Deletion Vector property disabled"):
            env.query(startingVersion=1)


class TestRemovesByOldWriters:
    def test_a_missing_size_is_read_from_the_object(self) -> None:
        env = SharedTable([PROTOCOL, metadata(partitionColumns=[]), add("a")], [remove("a")])
        env.lake.put("a", b"12345")
        for capabilities in ("", DELTA):
            line = env.query(capabilities, startingVersion=1)[2]
            action = line["remove"] if "remove" in line else line["file"]["deltaSingleAction"]["remove"]
            assert (action["size"], action["partitionValues"]) == (5, {})

    def test_a_missing_size_of_a_deleted_object_is_refused(self) -> None:
        env = SharedTable([PROTOCOL, metadata(partitionColumns=[]), add("a")], [remove("a")])
        with pytest.raises(UnsupportedOperationError, match="how large a removed file was"):
            env.query(startingVersion=1)

    def test_missing_partition_values_are_refused(self) -> None:
        env = SharedTable([PROTOCOL, metadata(), add("a")], [remove("a", size=1)])
        with pytest.raises(UnsupportedOperationError, match="which partition"):
            env.query(startingVersion=1)


class TestChangeFeed:
    def test_cdc_files_replace_all_other_files_of_their_commit(self) -> None:
        env = SharedTable(
            [PROTOCOL, table(**FEED), add("a"), add("b")],
            [removed("a"), add("a2"), cdc("_change_data/1"), cdc("_change_data/2")],
            [removed("b")],
            [removed("a2", dataChange=False), add("a3", dataChange=False)],
            [{"commitInfo": {"operation": "MERGE", "operationMetrics": MERGED_NOTHING}}, removed("a3"), add("a4")],
        )
        changes = [(0, "add", "a"), (0, "add", "b"), (1, "cdc", "_change_data/1"), (1, "cdc", "_change_data/2")]
        changes += [(2, "remove", "b")]
        assert files(env.changes(startingVersion=0)) == expected(*changes)
        assert files(env.changes(DELTA, startingVersion=0)) == expected(*changes, hash_name="sha256")
        assert [next(iter(line)) for line in env.changes(startingVersion=1, endingVersion=1)[2:]] == ["cdf", "cdf"]
        action = env.changes(DELTA, startingVersion=1)[2]["file"]["deltaSingleAction"]["cdc"]
        assert action.keys() == {"path", "partitionValues", "size", "dataChange"}

    def test_the_head_is_of_the_latest_version_or_with_historical_metadata_of_the_first(self) -> None:
        env = SharedTable([PROTOCOL, table(**FEED)], [metadata(configuration=FEED, name="new")], [add("a")])
        for capabilities in ("", DELTA):
            assert versions_of(env.changes(capabilities, startingVersion=0), "metaData") == [2]
            assert versions_of(env.changes(capabilities, startingVersion=0, **HISTORY), "metaData") == [0, 1]
            assert env.headers["Delta-Table-Version"] == "0"

    def test_historical_protocols_are_sent_only_on_request_and_in_delta_format(self) -> None:
        env = SharedTable([PROTOCOL, table(**FEED)], [protocol("v2Checkpoint")], [add("a")])
        parameters = {"includeHistoricalProtocol": "true", **HISTORY}
        assert versions_of(env.changes(DELTA, startingVersion=0, **parameters), "protocol") == [0, 1]
        assert versions_of(env.changes(startingVersion=0, **parameters), "protocol") == [None]
        head = env.changes(DELTA, startingVersion=0, **HISTORY)[0]["protocol"]
        assert head["deltaProtocol"]["minReaderVersion"] == 3, "one protocol for the whole range"

    @pytest.mark.parametrize(("off", "start"), [(0, 0), (2, 0), (2, 2)])
    def test_the_error_names_a_version_without_recorded_changes(self, off: int, start: int) -> None:
        commits = [[PROTOCOL, table(**FEED)], [add("a")], [add("b")], [add("c")]]
        commits[off] = [PROTOCOL, table(), add("x")] if off == 0 else [table(), add("x")]
        env = SharedTable(*commits)
        with pytest.raises(InvalidParameterError) as caught:
            env.changes(startingVersion=start)
        assert caught.value.message == (
            f"Error getting change data for range [{start}, 3] as change data was not recorded for version [{off}]"
        )

    def test_deletion_vectors_are_relayed_for_commits_without_cdc_files(self) -> None:
        first = [protocol("deletionVectors"), table(**FEED), add("a")]
        pair = [removed("a"), add("a", deletionVector=vector(CODE))]
        env = SharedTable(first, pair, [*pair, cdc("_change_data/1")])
        lines = env.changes(DELTA, startingVersion=1, **HISTORY)
        assert files(lines) == expected(
            (1, "remove", "a"), (1, "add", "a"), (2, "cdc", "_change_data/1"), hash_name="sha256"
        )
        with pytest.raises(UnsupportedOperationError, match="Deletion Vector property disabled"):
            env.changes(startingVersion=1)
        assert files(env.changes(startingVersion=2)) == expected((2, "cdc", "_change_data/1"))

    def test_an_ending_version_after_the_latest_version_means_the_latest_version(self) -> None:
        env = SharedTable([PROTOCOL, table(**FEED)], [add("a")])
        for end in ({"endingVersion": "99"}, {}):
            assert files(env.changes(startingVersion=1, **end)) == expected((1, "add", "a"))

    def test_timestamps_select_the_first_version_at_or_after_and_the_last_at_or_before(self) -> None:
        env = SharedTable([PROTOCOL, table(**FEED)], *([add(f"f{number}")] for number in range(1, 6)))

        def versions(**edges: str) -> list[int]:
            return [version for version, *_ in files(env.changes(**edges))]

        assert versions(startingTimestamp="1970-01-01T00:00:02Z", endingTimestamp="1970-01-01T00:00:04Z") == [2, 3, 4]
        assert versions(startingTimestamp="1970-01-01T00:00:01.5Z", endingTimestamp="1970-01-01T00:00:03.9Z") == [2, 3]

    @pytest.mark.parametrize(
        ("edges", "message"),
        [
            (
                {"startingVersion": 6},
                (
                    "Provided Start version(6) for reading change data is invalid. "
                    "Start version cannot be greater than the latest version of the table(5)."
                ),
            ),
            (
                {"startingVersion": 4, "endingVersion": 3},
                "CDF range from start 4 to end 3 was invalid. End cannot be before start.",
            ),
            (
                {"startingVersion": 4, "endingVersion": -1},
                "CDF range from start 4 to end -1 was invalid. End cannot be before start.",
            ),
            ({"startingVersion": 1}, "You can only query table changes since version 2."),
            ({"startingVersion": -3}, "You can only query table changes since version 2."),
            ({"startingVersion": 2, "pageToken": "abc"}, "Error decoding the page token: abc."),
            (
                {"startingTimestamp": "1969-12-31T23:59:59Z"},
                (
                    "You can only query table changes since version 2. "
                    "The provided timestamp (-1000 ms (1969-12-31T23:59:59Z)) is before the earliest version available "
                    "to this table (2000 ms (1970-01-01T00:00:02Z)). "
                    "Please use a timestamp greater than or equal to 2000 ms (1970-01-01T00:00:02Z)."
                ),
            ),
            (
                {"startingTimestamp": "1970-01-01T00:00:05.001Z"},
                (
                    "The provided timestamp (5001 ms (1970-01-01T00:00:05.001Z)) is after the latest version "
                    "available to this table (5000 ms (1970-01-01T00:00:05Z)). "
                    "Please use a timestamp less than or equal to 5000 ms (1970-01-01T00:00:05Z)."
                ),
            ),
            (
                {"startingVersion": 2, "endingTimestamp": "0001-01-01T00:00:00+23:00"},
                (
                    "You can only query table changes since version 2. "
                    "The provided timestamp (-62135679600000 ms) is before the earliest version available to this "
                    "table (2000 ms (1970-01-01T00:00:02Z)). "
                    "Please use a timestamp greater than or equal to 2000 ms (1970-01-01T00:00:02Z)."
                ),
            ),
        ],
    )
    def test_invalid_ranges_are_refused(self, edges: dict[str, Any], message: str) -> None:
        commits = ([add(f"f{number}")] for number in range(1, 6))
        env = SharedTable([PROTOCOL, table(**FEED)], *commits, start_version=2)
        with pytest.raises(InvalidParameterError) as caught:
            env.changes(**edges)
        assert caught.value.message == message

    def test_ranges_after_an_invalid_metadata_that_was_replaced_are_answered(self) -> None:
        invalid = {"metaData": {"id": "1", "format": {"provider": "parquet"}}}
        env = SharedTable([PROTOCOL, invalid, add("a")], [table(**FEED), add("b")], [add("c")])
        added = expected((1, "add", "b"), (2, "add", "c"))
        assert files(env.changes(startingVersion=1)) == files(env.query(startingVersion=1)) == added
        for answer in (env.changes, env.query):
            with pytest.raises(DamagedLogError, match="line 2: metaData: schemaString is missing"):
                answer(startingVersion=0)

    def test_the_error_for_a_missing_commit_names_its_version(self) -> None:
        env = SharedTable([PROTOCOL, table(**FEED)], [add("a")], [add("b")])
        env.lake.delete(name(1))
        with pytest.raises(DamagedLogError, match="version 1 is missing"):
            env.changes(startingVersion=0)


actions = st.lists(
    st.sampled_from(["add", "remove", "optimize", "cdc", "empty merge", "vector", "metadata"]), max_size=8
)


@given(actions, st.integers(0, 8), st.integers(0, 8))
@settings(deadline=None, max_examples=examples(60))
def test_the_answer_to_any_range_is_the_concatenation_of_its_commits(kinds: list[str], first: int, length: int) -> None:
    """Compares answers with a simple model that treats each commit separately."""
    actions_by_kind: dict[str, list[Action]] = {
        "add": [add("a")],
        "remove": [removed("a")],
        "optimize": [removed("a", dataChange=False), add("b", dataChange=False)],
        "cdc": [removed("a"), add("b"), cdc("c")],
        "empty merge": [
            {"commitInfo": {"operation": "MERGE", "operationMetrics": MERGED_NOTHING}},
            removed("a"),
            add("b"),
        ],
        "vector": [removed("a"), add("a", deletionVector=vector(CODE))],
        "metadata": [metadata(configuration=FEED, name="again"), add("m")],
    }
    model = {
        "add": [("add", "a")],
        "remove": [("remove", "a")],
        "optimize": [],
        "cdc": [("remove", "a"), ("add", "b")],
        "empty merge": [("remove", "a"), ("add", "b")],
        "vector": [("remove", "a"), ("add", "a")],
        "metadata": [("add", "m")],
    }
    feed = model | {"cdc": [("cdc", "c")], "empty merge": []}
    start = min(first, len(kinds))
    end = min(start + length, len(kinds))
    env = SharedTable([protocol("deletionVectors"), table(**FEED)], *(actions_by_kind[kind] for kind in kinds))

    def concatenated(model_by_kind: dict[str, list[tuple[str, str]]]) -> list[tuple[int, str, str]]:
        numbered = [(version, kind) for version, kind in enumerate(kinds, 1) if start <= version <= end]
        triples = [(version, action, path) for version, kind in numbered for action, path in model_by_kind[kind]]
        return expected(*triples, hash_name="sha256")

    assert files(env.query(DELTA, startingVersion=start, endingVersion=end)) == concatenated(model)
    assert files(env.changes(DELTA, startingVersion=start, endingVersion=end, **HISTORY)) == concatenated(feed)
