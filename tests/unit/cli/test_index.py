"""`sluice index build` and `sluice index status` as a provider or a script runs them."""

import json
import re

import pytest

from cli.common.account import Account
from cli.index.status import duration
from core.delta.cache import snapshots
from core.index.layout.items import CONTENT, attributes, head_key, root_pk, table_of
from pipeline import local_build
from pipeline.connection import dynamodb
from pipeline.indexing import Indexer
from pipeline.job import main
from pipeline.report import dollars
from pipeline.storage import _storage
from tests.unit.delta import builder

ORDERS = "sales.retail.orders"
INDEX = "the-index"
LOCATION = "s3://warehouse/orders"


def file(number: int) -> builder.Action:
    return builder.add(f"{number}.parquet", size=1000, stats=json.dumps({"numRecords": 10}))


@pytest.fixture
def commit(catalog, monkeypatch):
    """Adds a version to a table that is shared under two names. A third table cannot be read."""
    _storage.cache_clear()  # may hold the account of an earlier test
    monkeypatch.setenv("SLUICE_STORAGE_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    monkeypatch.setenv("SLUICE_INDEX_TABLE", INDEX)
    s3 = Account().client("s3")
    s3.create_bucket(Bucket="warehouse", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    Account().client("dynamodb").create_table(
        TableName=INDEX,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        BillingMode="PAY_PER_REQUEST",
    )
    for share, table, location in (
        ("sales", "orders", LOCATION),
        ("too", "orders", LOCATION + "/"),
        ("sales", "broken", "s3://warehouse/nothing"),
    ):
        catalog.put_share(share)
        catalog.put_schema(share, "retail")
        catalog.put_table(share, "retail", table, location=location)

    def commit(version: int, *actions: builder.Action) -> None:
        s3.put_object(Bucket="warehouse", Key=f"orders/{builder.name(version)}", Body=builder.commit(*actions))

    commit(0, builder.PROTOCOL, builder.metadata(), *map(file, range(30)))
    return commit


@pytest.fixture
def index(sluice, commit):
    def call(*arguments: str):
        return sluice("index", *arguments)

    return call


def builds() -> list[str]:
    """Returns the live build of the table's index, if it has one."""
    key = attributes(head_key(table_of(LOCATION)))
    found = Account().client("dynamodb").get_item(TableName=INDEX, Key=key)
    return [found["Item"]["build"]["S"]] if "Item" in found else []


def test_the_text_shows_the_size_and_the_costs_of_an_index(index):
    result = index(ORDERS)

    assert (result.code, result.err) == (0, "")
    first, *more = result.out.splitlines()
    assert re.fullmatch(r"✓ sales\.retail\.orders was indexed at version 0 \(\d+\.\d s\)", first)
    assert re.fullmatch(r"  files: 30, chunks: 1, size: [\d.]+ (bytes|kB)", more[0])
    assert re.fullmatch(r"  this build: \d+ write units, about \$0\.0\d+", more[1])
    assert re.fullmatch(r"  a query of all files: about \$0\.\d+, of a few: about \$0\.\d+", more[2])


def test_json_prints_one_document(index):
    (document,) = index("build", ORDERS, "--json").json

    assert (document["table"], document["outcome"], document["version"]) == (ORDERS, "built", 0)
    assert (document["files"], document["chunks"]) == (30, 1)
    assert document["writeUnits"] > 0
    assert document["bytes"] > 0
    assert document["seconds"] >= 0
    assert 0 < document["dollars"]["selectiveQuery"] <= document["dollars"]["fullQuery"] < document["dollars"]["build"]


def test_a_current_index_is_kept_and_an_older_one_is_updated(index, commit):
    index(ORDERS)
    before = builds()

    assert re.fullmatch(r"✓ sales\.retail\.orders is up to date, at version 0 \(.*\)\n", index(ORDERS).out)
    assert builds() == before
    commit(1, file(30))
    (document,) = index(ORDERS, "--json").json
    assert (document["outcome"], document["version"], document["files"]) == ("later", 1, 31)


def test_full_rebuilds_an_index_once_for_tables_with_the_same_location(index):
    index(ORDERS)
    before = builds()

    document = index(ORDERS, "too.retail.orders", "--full", "--json").json

    assert [entry["outcome"] for entry in document] == ["built", "up to date"]
    assert builds() != before


def test_all_tables_are_tried_and_a_failure_is_reported(index):
    document, text = index("--all", "--json"), index("--all")

    assert (document.code, text.code) == (1, 1)
    by_table = {entry["table"]: entry for entry in document.json}
    assert set(by_table) == {ORDERS, "too.retail.orders", "sales.retail.broken"}
    assert by_table["sales.retail.broken"]["outcome"] == "failed"
    assert "`sluice doctor sales.retail.broken` to find the cause" in by_table["sales.retail.broken"]["error"]
    assert "✗ sales.retail.broken failed: The table" in text.out


@pytest.mark.parametrize("arguments", [("--full",), (ORDERS, "--all"), (ORDERS, "--write-rate", "0")])
def test_wrong_usage_is_rejected(index, arguments):
    result = index(*arguments)
    assert (result.code, result.out) == (2, "")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("-1", "should be greater than or equal to 0"),
        ("2001", "should be less than or equal to 2000"),
        ("1.5", "should be a valid integer"),
        ("all", "should be a valid integer"),
    ],
)
def test_an_invalid_number_of_columns_is_rejected_with_the_reason(index, number, reason):
    result = index(ORDERS, "--columns", number)
    assert (result.code, result.out) == (2, "")
    message = " ".join(result.err.replace("│", "").split())
    assert f"Invalid value for '--columns': Input {reason}" in message
    assert builds() == []


def test_another_number_of_columns_rebuilds_an_index_and_the_same_does_not(index):
    options = [
        ("--columns", "0"),
        ("--columns", "0"),
        ("--columns", "1"),
        ("--columns", "2000"),
        (),
        ("--columns", "0"),
    ]

    outcomes = [index(ORDERS, *columns, "--json").json[0]["outcome"] for columns in options]

    assert outcomes == ["built", "up to date", "built", "up to date", "up to date", "built"]


def test_the_job_and_the_command_build_the_same_index_for_a_number_of_columns(index, capsys):
    dynamodb.cache_clear()  # may hold the account of an earlier test
    assert main(["--table", ORDERS, "--columns", "0"]) == 0
    summary = capsys.readouterr().out
    assert f"{ORDERS} was indexed at version 0 (" in summary
    assert "  files: 30, chunks: 1, " in summary
    assert index(ORDERS, "--columns", "0", "--json").json[0]["outcome"] == "up to date"
    assert main(["--table", ORDERS]) == 0
    assert index(ORDERS, "--json").json[0]["outcome"] == "up to date"
    dynamodb.cache_clear()


def test_an_unknown_table_is_reported(index):
    assert "does not exist" in index("sales.retail.gone").err
    assert "is not a table name" in index("stats").err


def test_without_an_index_table_the_message_says_how_to_set_one(index, monkeypatch):
    monkeypatch.setenv("SLUICE_INDEX_TABLE", "gone")
    assert "The index table 'gone' does not exist in this account and region." in index(ORDERS).err
    assert "The index table 'gone' does not exist in this account and region." in index("status").err
    monkeypatch.delenv("SLUICE_INDEX_TABLE")
    assert "set SLUICE_INDEX_TABLE" in index(ORDERS).err
    assert set(index("status", "--json").json) == {"error"}


def test_the_index_table_can_be_an_option(sluice, commit, monkeypatch):
    monkeypatch.delenv("SLUICE_INDEX_TABLE")
    assert sluice("--index", INDEX, "index", ORDERS).code == 0
    assert len(builds()) == 1


def test_only_a_large_table_needs_spark(index, monkeypatch):
    for name in ("pyspark", "pyspark.sql", "pipeline.spark.build"):
        monkeypatch.delitem("sys.modules", name, raising=False)
    monkeypatch.setitem(__import__("sys").modules, "pyspark", None)

    assert index(ORDERS).code == 0
    monkeypatch.setattr(local_build, "SMALL_LOG_BYTES", 0)
    result = index(ORDERS, "--full")

    assert result.code == 1
    assert "pyspark is not installed" in result.out
    assert "install sluice-sharing[pipeline]" in result.out


def test_a_missing_module_outside_the_extra_is_not_blamed_on_the_extra(index, monkeypatch):
    def broken(*_args, **_kwargs):
        raise ModuleNotFoundError("No module named 'broken'", name="broken")

    monkeypatch.setattr(Indexer, "index", broken)
    with pytest.raises(ModuleNotFoundError, match="No module named 'broken'"):
        index(ORDERS)


def test_status_shows_versions_lag_and_size(index, commit):
    index(ORDERS)
    commit(1, file(30))
    commit(2, file(31))

    result = index("status", ORDERS, "too.retail.orders")

    assert (result.code, result.err) == (0, "")
    heading, *rows = (line.split() for line in result.out.splitlines())
    assert heading == ["TABLE", "INDEX", "LOG", "LAG", "USABLE", "FILES", "CHUNKS", "SIZE", "AGE", "BUILT", "IN"]
    assert [row[:7] for row in rows] == [
        [ORDERS, "0", "2", "2", "yes", "30", "1"],
        ["too.retail.orders", "0", "2", "2", "yes", "30", "1"],
    ]


def test_status_says_that_an_index_of_another_log_is_not_usable(index, commit):
    index(ORDERS)
    commit(0, builder.PROTOCOL, builder.metadata(), file(1))

    text, (document,) = index("status", ORDERS), index("status", ORDERS, "--json").json

    reason = "it was built from another log, which has been replaced"
    assert (text.code, text.out.splitlines()[1].split()[:5]) == (0, [ORDERS, "0", "0", "0", "no"])
    assert text.err == f"The index of '{ORDERS}' is not used: {reason}. Run `sluice index {ORDERS}` to update it.\n"
    assert (document["lag"], document["usable"], document["unusableBecause"]) == (0, False, reason)
    index(ORDERS)
    (document,) = index("status", ORDERS, "--json").json
    assert (document["usable"], document["unusableBecause"]) == (True, None)


def test_status_says_that_an_index_is_not_usable_if_its_version_is_not_in_the_log(index, commit):
    commit(1, file(30))
    index(ORDERS)
    Account().client("s3").delete_object(Bucket="warehouse", Key=f"orders/{builder.name(1)}")
    (document,) = index("status", ORDERS, "--json").json
    assert (document["lag"], document["usable"]) == (-1, False)
    assert document["unusableBecause"] == "the log no longer has the version that it was built from"


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("MAX_COMMITS_OVER_INDEX", 1, "2 commits follow it, more than 1"),
        ("MAX_BYTES_OVER_INDEX", 0, "the commits after it are incomplete or larger than 0 MB"),
    ],
)
def test_status_says_that_too_much_follows_an_index(index, commit, monkeypatch, limit, value, reason):
    monkeypatch.setattr(snapshots, limit, value)
    index(ORDERS)
    commit(1, file(30))
    commit(2, file(31))
    (document,) = index("status", ORDERS, "--json").json
    assert (document["lag"], document["usable"], document["unusableBecause"]) == (2, False, reason)


@pytest.mark.parametrize(("damage", "reason"), [("delete", "its root is missing"), ("empty", "its root is damaged")])
def test_status_says_that_a_damaged_index_is_not_usable(index, damage, reason):
    index(ORDERS)
    dynamodb = Account().client("dynamodb")
    key = {"pk": {"S": root_pk(table_of(LOCATION), *builds())}}
    (root,) = dynamodb.query(
        TableName=INDEX, KeyConditionExpression="pk = :pk", ExpressionAttributeValues={":pk": key["pk"]}
    )["Items"]
    if damage == "delete":
        dynamodb.delete_item(TableName=INDEX, Key={**key, "sk": root["sk"]})
    else:
        dynamodb.put_item(TableName=INDEX, Item={**root, CONTENT: {"B": b"x"}})
    (document,) = index("status", ORDERS, "--json").json
    assert (document["usable"], document["unusableBecause"]) == (False, reason)


def test_status_does_not_say_whether_a_missing_index_is_usable(index):
    (document,) = index("status", ORDERS, "--json").json
    assert (document["index"], document["usable"], document["unusableBecause"]) == (None, None, None)


def test_status_with_json_has_the_same_values(index):
    index(ORDERS)

    (document,) = index("status", ORDERS, "--json").json

    assert (document["table"], document["logVersion"], document["lag"], document["error"]) == (ORDERS, 0, 0, None)
    assert (document["index"]["version"], document["index"]["files"], document["index"]["chunks"]) == (0, 30, 1)
    assert document["index"]["bytes"] > 0
    assert document["index"]["builtAt"].endswith("Z")


def test_status_shows_tables_without_an_index_and_tables_that_cannot_be_read(index):
    text, document = index("status"), index("status", "--json")

    assert (text.code, document.code) == (1, 1)
    rows = {line.split()[0]: line.split()[1:] for line in text.out.splitlines()[1:]}
    assert rows == {
        ORDERS: ["none", "0"],
        "too.retail.orders": ["none", "0"],
        "sales.retail.broken": ["none", "unreadable"],
    }
    assert "The table 'sales.retail.broken' cannot be read" in text.err
    assert {entry["table"]: entry["index"] for entry in document.json} == dict.fromkeys(rows)


@pytest.mark.parametrize(("amount", "text"), [(12.345, "$12.35"), (0.128, "$0.13"), (0.0031, "$0.0031")])
def test_an_amount_has_its_significant_digits(amount, text):
    assert dollars(amount) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2 m"), (7200, "2 h"), (2e5, "2 d")])
def test_an_age_is_shown_in_the_largest_unit_that_gives_at_least_two(seconds, text):
    assert duration(seconds) == text
