"""The lines of a snapshot in both formats, with the ids and URLs of its files."""

import hashlib
import json
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from core.errors import SharingError, UnsupportedOperationError
from tests.unit.delta.builder import PROTOCOL, add, metadata, remove, vector
from tests.unit.sharing.shared_table import DELTA, SharedTable

CODE = "ab^-aqEH.-t@S}K{vb[*k^"
CODE_FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def protocol(*features: str, writer: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features),
            "writerFeatures": [*features, *writer],
        }
    }


def object_path(url: str) -> str:
    return unquote(urlsplit(url).path)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


class TestParquetFormat:
    def test_a_file_has_a_hash_of_its_raw_path_as_id_and_a_url_to_its_object(self) -> None:
        env = SharedTable([PROTOCOL, metadata(), add("p=a%20b/f", p="a b", size=7, stats='{"numRecords":1}')])
        file = env.query()[2]["file"]
        assert object_path(file.pop("url")) == "/delta-tests/tables/one/p=a b/f"
        assert file == {
            "id": md5("p=a%20b/f"),
            "partitionValues": {"p": "a b"},
            "size": 7,
            "stats": '{"numRecords":1}',
            "expirationTimestamp": 3_600_000,
        }
        assert env.query(file_id_hash="delta")[2]["file"]["id"] == sha256("p=a%20b/f")
        assert env.headers["fileidhash"] == "delta"

    @pytest.mark.parametrize("history_shared", [True, False])
    def test_the_only_property_shown_is_a_change_feed_that_the_recipient_may_read(self, history_shared: bool) -> None:
        properties = {"delta.enableChangeDataFeed": "true", "delta.appendOnly": "true"}
        env = SharedTable([PROTOCOL, metadata(configuration=properties)], history_shared=history_shared)
        shown = {"enableChangeDataFeed": "true"} if history_shared else {}
        assert env.metadata()[1]["metaData"]["configuration"] == shown

    def test_a_table_that_uses_none_of_its_features_is_plain_parquet(self) -> None:
        properties = {"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"}
        features = protocol("deletionVectors", "typeWidening", "v2Checkpoint", "columnMapping")
        env = SharedTable([features, metadata(configuration=properties), add("a")])
        head, _, file = env.query()
        assert head == {"protocol": {"minReaderVersion": 1}}
        assert "file" in file

    def test_deletion_vectors_are_refused_only_while_a_live_file_has_one(self) -> None:
        features = protocol("deletionVectors")
        added = add("a", deletionVector=vector(CODE))
        env = SharedTable([features, metadata(), added], [remove("a", deletionVector=vector(CODE)), add("b")])
        with pytest.raises(UnsupportedOperationError, match="Deletion Vector property disabled"):
            env.query(version=0)
        assert [line["file"]["id"] for line in env.query()[2:]] == [md5("b")]


class TestDeltaFormat:
    def test_actions_of_the_log_are_relayed_with_urls_in_place_of_paths(self) -> None:
        more = {"tags": {"k": "v"}, "baseRowId": 5, "defaultRowCommitVersion": 1, "clusteringProvider": "liquid"}
        added = add("p=x/f", size=7, stats='{"numRecords": 1}', dataChange=False, **more)
        env = SharedTable([PROTOCOL, metadata(), added])
        line = env.query(DELTA)[2]["file"]
        relayed = line.pop("deltaSingleAction")["add"]
        assert object_path(relayed.pop("path")) == "/delta-tests/tables/one/p=x/f"
        assert relayed == {name: value for name, value in added["add"].items() if name != "path"}
        assert line == {"id": sha256("p=x/f"), "expirationTimestamp": 3_600_000}
        assert env.headers["delta-sharing-capabilities"] == "responseformat=delta"

    def test_metadata_is_relayed_with_the_size_and_number_of_files_added(self) -> None:
        action = metadata(name="n", configuration={"delta.appendOnly": "true", "mine": "x"})
        env = SharedTable([PROTOCOL, action, add("a", size=3), add("b", size=4)])
        head, line = env.metadata(DELTA)
        assert head == {"protocol": {"deltaProtocol": PROTOCOL["protocol"]}}
        assert line["metaData"] == {"size": 7, "numFiles": 2, "deltaMetadata": action["metaData"]}

    def test_properties_of_in_commit_timestamps_are_not_relayed(self) -> None:
        properties = {
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "1",
            "delta.inCommitTimestampEnablementTimestamp": "2",
            "delta.logRetentionDuration": "interval 1 day",
        }
        info = {"commitInfo": {"inCommitTimestamp": 5}}
        env = SharedTable([info, protocol(writer=("inCommitTimestamp",)), metadata(configuration=properties)])
        relayed = env.metadata(DELTA)[1]["metaData"]["deltaMetadata"]
        assert relayed["configuration"] == {"delta.logRetentionDuration": "interval 1 day"}

    def test_the_protocol_lists_active_and_enabled_reader_features_and_all_writer_features(self) -> None:
        features = protocol("deletionVectors", "columnMapping", "vacuumProtocolCheck", writer=("rowTracking",))
        properties = {"delta.enableDeletionVectors": "true"}
        env = SharedTable([features, metadata(configuration=properties)])
        assert env.metadata(DELTA)[0]["protocol"]["deltaProtocol"] == {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["deletionVectors", "rowTracking"],
        }

    def test_a_deletion_vector_in_a_file_has_the_url_and_the_id_of_the_file(self) -> None:
        env = SharedTable(
            [protocol("deletionVectors"), metadata(), add("a", deletionVector=vector(CODE, cardinality=9))]
        )
        file = env.query(DELTA)[2]["file"]
        descriptor = file["deltaSingleAction"]["add"]["deletionVector"]
        assert object_path(descriptor.pop("pathOrInlineDv")) == f"/delta-tests/tables/one/{CODE_FILE}"
        assert descriptor == {"storageType": "p", "offset": 1, "sizeInBytes": 40, "cardinality": 9}
        assert file["deletionVectorFileId"] == sha256(CODE)
        assert env.observed.urls_signed == 2

    def test_an_inline_deletion_vector_is_relayed_unchanged(self) -> None:
        inline = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
        inline |= {"sizeInBytes": 40, "cardinality": 6}
        env = SharedTable([protocol("deletionVectors"), metadata(), add("a", deletionVector=inline)])
        file = env.query(DELTA)[2]["file"]
        assert file["deltaSingleAction"]["add"]["deletionVector"] == inline
        assert "deletionVectorFileId" not in file

    def test_the_id_of_a_file_does_not_depend_on_its_deletion_vector(self) -> None:
        pair = [remove("a", size=1, partitionValues={"p": "x"}), add("a", deletionVector=vector(CODE))]
        env = SharedTable([protocol("deletionVectors"), metadata(), add("a")], pair)
        lines = env.query(DELTA, startingVersion=1)[2:]
        assert [next(iter(line["file"]["deltaSingleAction"])) for line in lines] == ["remove", "add"]
        assert len({line["file"]["id"] for line in lines}) == 1
        paths = {action["path"] for line in lines for action in line["file"]["deltaSingleAction"].values()}
        assert len(paths) == 1, "clients match them by path"


class TestShallowClones:
    CLONED = "s3a://archive/base/p=x/f%20g"

    def test_files_in_an_auxiliary_location_get_urls_of_its_bucket(self) -> None:
        added = add(self.CLONED, deletionVector=vector("s3://archive/base/dv.bin") | {"storageType": "p"})
        env = SharedTable(
            [protocol("deletionVectors"), metadata(), added, add("own")], auxiliary_locations=("s3://archive/base",)
        )
        files = [line["file"] for line in env.query(DELTA)[2:]]
        actions = {file["id"]: file["deltaSingleAction"]["add"] for file in files}
        cloned = actions[sha256(self.CLONED)]
        assert object_path(cloned["path"]) == "/archive/base/p=x/f g"
        assert object_path(cloned["deletionVector"]["pathOrInlineDv"]) == "/archive/base/dv.bin"
        assert object_path(actions[sha256("own")]["path"]) == "/delta-tests/tables/one/own"

    def test_other_absolute_paths_are_refused_but_metadata_is_still_readable(self) -> None:
        env = SharedTable([PROTOCOL, metadata(), add(self.CLONED)], auxiliary_locations=("s3://archive/bas",))
        with pytest.raises(UnsupportedOperationError, match="Table contains absolute paths") as caught:
            env.query()
        assert "archive" not in caught.value.message
        assert env.metadata()[1]["metaData"]["numFiles"] == 1


def test_a_limit_counts_only_rows_that_are_not_deleted() -> None:
    def added(name: str, deleted: int) -> dict[str, Any]:
        return add(name, stats='{"numRecords":10}', deletionVector=vector(CODE, cardinality=deleted))

    env = SharedTable([protocol("deletionVectors"), metadata(), *(added(f"f{number}", 9) for number in range(20))])
    assert len(env.query(DELTA, limitHint=5)) == 2 + 5


def test_a_hint_is_applied_to_the_physical_name_of_a_partition_column() -> None:
    """Two columns have swapped names. Confusing them would skip files that match."""

    def column(name: str, physical: str) -> dict[str, Any]:
        mapping = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": 1}
        return {"name": name, "type": "string", "nullable": True, "metadata": mapping}

    schema = json.dumps({"type": "struct", "fields": [column("a", "b"), column("b", "a")]})
    properties = {"delta.columnMapping.mode": "name"}
    action = metadata(schemaString=schema, partitionColumns=["a", "b"], configuration=properties)
    files = [add(f"{a}{b}", partitionValues={"b": a, "a": b}) for a in "xy" for b in "xy"]
    env = SharedTable([{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, action, *files])
    leaves = [
        {"op": "column", "name": "a", "valueType": "string"},
        {"op": "literal", "value": "x", "valueType": "string"},
    ]
    hints = {"jsonPredicateHints": json.dumps({"op": "equal", "children": leaves}), "predicateHints": ["a (("]}
    lines = env.query(DELTA, **hints)
    assert {line["file"]["id"] for line in lines[2:]} == {sha256("xx"), sha256("xy")}
    assert env.observed.files_pruned == 2
    assert env.observed.hints_ignored == ["it cannot be parsed (ParseError)"]


@pytest.mark.parametrize(
    "action",
    [
        add("s3://elsewhere/a"),
        add("../a"),
        add("p=%FF"),
        add("a", deletionVector=vector("nonsense")),
        add("a", deletionVector=vector(CODE) | {"storageType": "?"}),
    ],
)
def test_an_unusable_path_or_deletion_vector_in_the_log_is_a_400(action: dict[str, Any]) -> None:
    env = SharedTable([protocol("deletionVectors"), metadata(), action])
    for capabilities in (DELTA, ""):
        with pytest.raises(SharingError) as caught:
            env.query(capabilities)
        assert caught.value.status == 400


@pytest.mark.parametrize("route", ["metadata", "query", "changes"])
@pytest.mark.parametrize("known", ["responseformat=parquet", "responseformat=delta;includeendstreamaction=true"])
def test_capabilities_that_are_not_known_are_ignored_and_not_echoed(route: str, known: str) -> None:
    env = SharedTable([PROTOCOL, metadata(configuration={"delta.enableChangeDataFeed": "true"}), add("a")])
    parameters = {"startingVersion": 0} if route == "changes" else {}
    answers = []
    for capabilities in (known, f"cdfonviews=true;{known};another=a,b"):
        lines = getattr(env, route)(capabilities, **parameters)
        answers.append((env.headers, lines))
    assert answers[0] == answers[1]
    assert "cdfonviews" not in str(answers)
