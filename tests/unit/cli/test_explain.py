"""`sluice explain` as a provider or a script runs it."""

import json
import re
from hashlib import sha512

import pytest

from cli.common.account import Account
from core.index.read import store
from core.index.write import packing
from pipeline.storage import _storage
from tests.unit.delta import builder

TABLE = "sales.retail.orders"


def file(number: int, p: str, low: int | None) -> builder.Action:
    stats = {"numRecords": 10}
    if low is not None:
        stats |= {"minValues": {"id": low}, "maxValues": {"id": low + 9}, "nullCount": {"id": 0}}
    return builder.add(f"{number}.parquet", p=p, size=1_000_000, stats=json.dumps(stats))


COMMITS = [
    builder.commit(builder.PROTOCOL, builder.metadata(), file(0, "a", 0), file(1, "a", 10)),
    builder.commit(file(2, "a", 20), file(3, "a", None), file(4, "b", 0)),
]


def equal(name: str, value: str) -> str:
    column = {"op": "column", "name": name, "valueType": "string"}
    literal = {"op": "literal", "value": value, "valueType": "string"}
    return json.dumps({"op": "equal", "children": [column, literal]})


@pytest.fixture
def explain(sluice, catalog, monkeypatch):
    """Runs the command on a table with five files. Version 0 has the first two."""
    monkeypatch.setenv("SLUICE_STORAGE_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    s3 = Account().client("s3")
    s3.create_bucket(Bucket="warehouse", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    for version, commit in enumerate(COMMITS):
        s3.put_object(Bucket="warehouse", Key=f"orders/{builder.name(version)}", Body=commit)
    catalog.put_share("sales")
    catalog.put_schema("sales", "retail")
    catalog.put_table("sales", "retail", "orders", location="s3://warehouse/orders", history_shared=True)

    def call(*arguments: str):
        return sluice("explain", TABLE, *arguments)

    return call


def test_the_text_shows_the_fate_of_the_files_and_the_use_of_each_part_of_the_predicate(explain):
    result = explain("--where", "p = 'a' AND id < 15", "--where", "upper(p) = 'A'", "--limit", "5")

    assert (result.code, result.err) == (0, "")
    assert [line.rstrip() for line in result.out.splitlines()] == [
        "sales.retail.orders at version 1",
        "",
        "                                              FILES   BYTES  ROWS",
        "all                     ████████████████████      5  5.0 MB    50",
        "left out by partition   ████                      1  1.0 MB    10",
        "left out by statistics      ████                  1  1.0 MB    10",
        "kept                            ████████████      3  3.0 MB    30",
        "  every row matches                               0",
        "  some row may match            ████████          2  2.0 MB    20",
        "  unknown                               ████      1  1.0 MB    10",
        "listed up to the limit          ████████████      3  3.0 MB    30",
        "",
        "✓  p = 'a'         by partition values",
        "✓  id < 15         by statistics",
        "!  UPPER(p) = 'A'  ignored: pruning does not support this SQL",
        "",
        "A query lists 3 of 5 files, and saves 2.0 MB of 5.0 MB (40 %).",
        "→ Unknown: no statistics of a column in the predicate. Let a writer that collects them rewrite these files.",
    ]


def test_the_document_has_the_same_in_exact_numbers(explain):
    result = explain("--where", "id < 15", "--json-predicate", equal("p", "a"), "--limit", "10", "--json")

    def numbers(files: int) -> dict[str, int]:
        return {"files": files, "bytes": files * 1_000_000, "rows": files * 10, "filesWithoutRowCount": 0}

    assert (result.code, result.err) == (0, "")
    assert result.json == {
        "table": TABLE,
        "version": 1,
        "total": numbers(5),
        "leftOutUnread": numbers(0),
        "leftOutByPartition": numbers(1),
        "leftOutByStatistics": numbers(1),
        "kept": numbers(3),
        "everyRowMatches": numbers(1),
        "someRowMayMatch": numbers(1),
        "unknown": numbers(1),
        "listed": numbers(1),
        "saved": {"files": 4, "bytes": 4_000_000},
        "predicate": [
            {"part": "id < 15", "usedBy": "statistics", "ignoredBecause": None},
            {"part": "p = 'a'", "usedBy": "partition values", "ignoredBecause": None},
        ],
        "source": "log",
        "sourceBecause": None,
        "index": None,
        "unusedIndexVersion": None,
        "unusedIndexBecause": None,
    }


@pytest.mark.parametrize(
    "hint", [("--where", "not ("), ("--json-predicate", "{"), ("--where", "\0"), ("--where", "gone = 1")]
)
def test_a_hint_that_cannot_be_used_is_explained_and_is_not_an_error(explain, hint):
    result = explain(*hint)

    assert (result.code, result.err) == (0, "")
    assert "ignored: " in result.out
    assert "A query lists every file: 5, 5.0 MB." in result.out
    assert "No part of the predicate can be used" in result.out


def test_without_a_predicate_only_the_limit_is_shown(explain):
    result = explain("--limit", "15")
    assert "left out" not in result.out
    assert "A query lists 2 of 5 files, and saves 3.0 MB of 5.0 MB (60 %)." in result.out


def test_rows_are_a_lower_bound_if_a_file_has_no_row_count(explain):
    key = f"orders/{builder.name(2)}"
    Account().client("s3").put_object(Bucket="warehouse", Key=key, Body=builder.commit(builder.add("x", size=0)))
    assert "≥ 50" in explain().out


def test_an_older_version_can_be_explained(explain):
    assert explain("--version", "0", "--json").json["total"]["files"] == 2
    assert "after the latest available version 1" in explain("--at", "2999-01-01").err


def test_history_that_is_not_shared_is_not_explained(explain, catalog):
    catalog.put_table("sales", "retail", "orders", location="s3://warehouse/orders", history_shared=False)
    result = explain("--version", "0")
    assert (result.code, result.out) == (1, "")
    assert "history sharing is not enabled" in result.err


def test_version_and_timestamp_cannot_be_combined(explain):
    result = explain("--version", "0", "--at", "2025-01-01")
    assert (result.code, result.out) == (2, "")
    assert explain("--limit", "-1").code == 2


@pytest.mark.parametrize("before", [(), ("--catalog", "sluice-catalog"), ("--region=eu-central-1",)])
def test_json_means_machine_output_as_in_every_command_and_a_json_hint_does_not(sluice, catalog, before):
    command = (*before, "explain", "no.such.table", "--json-predicate", "{}")

    text, document = sluice(*command), sluice(*command, "--json")

    assert (text.code, text.out) == (1, "")
    assert "does not exist" in text.err
    assert (document.code, document.err) == (1, "")
    assert set(document.json) == {"error"}


def test_json_means_a_document_for_other_commands_even_with_an_argument_explain(sluice, catalog):
    assert set(sluice("share", "show", "explain", "--json").json) == {"error"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"location": "s3://warehouse/nothing"}, "cannot be read: table files missing."),
        ({"location": "s3://no-such-bucket/orders"}, "NoSuchBucket"),
        ({"access_modes": ("dir",), "history_shared": True}, "shared by directory access only"),
    ],
)
def test_a_table_that_cannot_be_read_is_reported(explain, catalog, change, sentence):
    catalog.put_table("sales", "retail", "orders", **{"location": "s3://warehouse/orders", **change})
    result = explain("--where", "id = 1")
    assert (result.code, result.out) == (1, "")
    assert sentence in result.err


def test_without_a_storage_role_the_message_says_where_to_set_one(explain, monkeypatch):
    monkeypatch.delenv("SLUICE_STORAGE_ROLE_ARN")
    result = explain()
    assert result.code == 1
    assert "set SLUICE_STORAGE_ROLE_ARN" in result.err


@pytest.fixture
def indexed(explain, sluice, monkeypatch):
    """Runs the command on the table with an index in chunks of a few files each."""
    _storage.cache_clear()  # may hold the account of an earlier test
    monkeypatch.setattr(packing, "CONTENT_BYTES", 4000)
    monkeypatch.setenv("SLUICE_INDEX_TABLE", "the-index")
    Account().client("dynamodb").create_table(
        TableName="the-index",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        BillingMode="PAY_PER_REQUEST",
    )
    put(2, *map(incompressible, range(100, 200)))
    assert sluice("index", TABLE).code == 0
    return explain


def incompressible(number: int) -> builder.Action:
    action = file(number, "c", 10 * number)
    action["add"]["path"] = f"{number}-{sha512(bytes([number])).hexdigest()}.parquet"
    return action


def put(version: int, *actions: builder.Action) -> None:
    key = f"orders/{builder.name(version)}"
    Account().client("s3").put_object(Bucket="warehouse", Key=key, Body=builder.commit(*actions))


def test_with_an_index_only_the_chunks_that_may_match_are_read(indexed, monkeypatch):
    document = indexed("--where", "p = 'c' AND id < 1015", "--json").json
    monkeypatch.delenv("SLUICE_INDEX_TABLE")
    without = indexed("--where", "p = 'c' AND id < 1015", "--json").json

    index = document["index"]
    assert (index["version"], index["files"]) == (2, 105)
    assert 0 < index["chunksRead"] < index["chunks"]
    assert document["leftOutUnread"]["files"] == 105 - index["filesRead"] > 0
    assert set(index["milliseconds"]) == {"root", "log", "zones", "chunks", "files"}
    assert all(milliseconds >= 0 for milliseconds in index["milliseconds"].values())
    for group in ("kept", "everyRowMatches", "someRowMayMatch", "listed", "saved"):
        assert document[group] == without[group]
    assert {name: document["total"][name] for name in ("files", "bytes")} == {"files": 105, "bytes": 105_000_000}
    assert without["index"] is None


def test_a_cold_query_of_a_few_files_takes_three_requests_and_a_fourth_with_newer_commits(indexed):
    assert indexed("--where", "id = 1055", "--json").json["index"]["requests"] == 3
    put(3, builder.remove(incompressible(100)["add"]["path"]), file(7, "c", 0))
    document = indexed("--where", "id = 1055", "--json").json
    assert document["index"]["requests"] == 4
    assert (document["version"], document["index"]["version"], document["total"]["files"]) == (3, 2, 105)


def test_without_a_predicate_all_chunks_are_read(indexed):
    document = indexed("--json").json
    assert document["index"]["chunksRead"] == document["index"]["chunks"]
    assert document["leftOutUnread"]["files"] == 0
    assert document["total"]["rows"] == 1050


def test_a_limit_stops_reading_but_not_counting(indexed, monkeypatch):
    monkeypatch.setattr(store, "BYTES_PER_GET", 1)
    document = indexed("--where", "p = 'c'", "--limit", "10", "--json").json
    assert document["index"]["chunksRead"] <= 2 < document["index"]["chunks"]
    assert (document["kept"]["files"], document["listed"]["files"]) == (100, 1)


def test_the_text_shows_the_chunks_and_the_time_of_each_step(indexed):
    lines = [line.rstrip() for line in indexed("--where", "p = 'c' AND id < 1015").out.splitlines()]

    (unread,) = (line for line in lines if line.startswith("left out unread"))
    assert "≥ 0" in unread
    begin = next(number for number, line in enumerate(lines) if line.startswith("From the index of version 2: 3 req"))
    labels = [re.split(r"  | [█▉▊▋▌▍▎▏▐▕]", line)[0] for line in lines[begin + 1 :]]
    assert labels[:4] == ["", "all", "read", ""]
    assert labels[5:11] == ["head and root", "newer commits", "zones", "chunks fetched", "files pruned", "all"]


def test_an_older_version_is_explained_from_the_log(indexed):
    document = indexed("--version", "1", "--json").json
    assert (document["index"], document["unusedIndexVersion"], document["total"]["files"]) == (None, None, 5)


def test_an_index_that_the_server_would_not_use_is_reported_and_not_used(indexed):
    put(2, file(1, "c", 0))  # the log no longer matches the index

    document, text = indexed("--where", "id = 1055", "--json").json, indexed("--where", "id = 1055")

    assert (document["index"], document["unusedIndexVersion"], document["total"]["files"]) == (None, 2, 5)
    reason = "it was built from another log, which has been replaced"
    assert document["unusedIndexBecause"] == reason
    assert f"The index (version 2) was not used: {reason}. Run `sluice index {TABLE}` to update it." in text.out


def test_an_index_whose_root_is_missing_is_reported(indexed):
    dynamodb = Account().client("dynamodb")
    for item in dynamodb.scan(TableName="the-index")["Items"]:
        if "#R" in item["pk"]["S"]:
            dynamodb.delete_item(TableName="the-index", Key={name: item[name] for name in ("pk", "sk")})

    text = indexed().out

    assert f"The index was not used: its root is missing. Run `sluice index {TABLE}` to update it." in text
    assert "A query lists every file: 105, 105.0 MB." in text


def test_an_index_that_fails_during_the_query_is_reported_and_the_files_are_the_same(indexed, caplog):
    dynamodb = Account().client("dynamodb")
    items = dynamodb.scan(TableName="the-index")["Items"]
    for item in items:
        if "#C" in item["pk"]["S"]:
            dynamodb.delete_item(TableName="the-index", Key={name: item[name] for name in ("pk", "sk")})

    document = indexed("--where", "p = 'c' AND id < 1015", "--json").json

    assert (document["index"], document["unusedIndexVersion"]) == (None, 2)
    assert document["unusedIndexBecause"] == "an item is missing"
    assert (document["kept"]["files"], document["total"]["files"]) == (2, 105)
    assert "The index of a table cannot be used" in caplog.text
