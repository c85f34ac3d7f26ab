"""`sluice index` and `sluice index status` as a provider or a script runs them."""

import json
import re

import pytest

from cli.common.account import Account
from cli.index.status import duration
from core.index.layout.head import attributes
from core.index.layout.items import head_key, table_of
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
    """Adds a version to the table, which is shared twice, beside one that cannot be read."""
    _storage.cache_clear()  # of an earlier test's account
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
    """The live build of the table's index, if it has one."""
    key = attributes(head_key(table_of(LOCATION)))
    found = Account().client("dynamodb").get_item(TableName=INDEX, Key=key)
    return [found["Item"]["build"]["S"]] if "Item" in found else []


def test_a_person_sees_what_was_built_and_what_it_costs(index):
    result = index(ORDERS)

    assert (result.code, result.err) == (0, "")
    first, *more = result.out.splitlines()
    assert re.fullmatch(r"✓ sales\.retail\.orders was indexed at version 0 \(\d+\.\d s\)", first)
    assert re.fullmatch(r"  files: 30, chunks: 1, size: [\d.]+ (bytes|kB)", more[0])
    assert re.fullmatch(r"  this build: \d+ write units, about \$0\.0\d+", more[1])
    assert re.fullmatch(r"  a query of all files: about \$0\.\d+, of a few: about \$0\.\d+", more[2])


def test_a_script_gets_one_document(index):
    (told,) = index("build", ORDERS, "--json").json

    assert (told["table"], told["outcome"], told["version"]) == (ORDERS, "built", 0)
    assert (told["files"], told["chunks"]) == (30, 1)
    assert told["writeUnits"] > 0
    assert told["bytes"] > 0
    assert told["seconds"] >= 0
    assert 0 < told["dollars"]["selectiveQuery"] <= told["dollars"]["fullQuery"] < told["dollars"]["build"]


def test_what_is_up_to_date_is_left_and_what_is_older_is_brought_up_to_date(index, commit):
    index(ORDERS)
    before = builds()

    assert re.fullmatch(r"✓ sales\.retail\.orders is up to date, at version 0 \(.*\)\n", index(ORDERS).out)
    assert builds() == before
    commit(1, file(30))
    (told,) = index(ORDERS, "--json").json
    assert (told["outcome"], told["version"], told["files"]) == ("later", 1, 31)


def test_full_builds_it_anew_but_only_once_for_tables_of_one_location(index):
    index(ORDERS)
    before = builds()

    told = index(ORDERS, "too.retail.orders", "--full", "--json").json

    assert [each["outcome"] for each in told] == ["built", "up to date"]
    assert builds() != before


def test_all_tables_are_tried_and_one_that_fails_is_told(index):
    told, shown = index("--all", "--json"), index("--all")

    assert (told.code, shown.code) == (1, 1)
    by_table = {each["table"]: each for each in told.json}
    assert set(by_table) == {ORDERS, "too.retail.orders", "sales.retail.broken"}
    assert by_table["sales.retail.broken"]["outcome"] == "failed"
    assert "`sluice doctor sales.retail.broken` to find the cause" in by_table["sales.retail.broken"]["error"]
    assert "✗ sales.retail.broken failed: The table" in shown.out


@pytest.mark.parametrize("arguments", [("--full",), (ORDERS, "--all"), (ORDERS, "--write-rate", "0")])
def test_wrong_usage_is_refused(index, arguments):
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
def test_a_number_of_columns_that_is_none_is_refused_with_the_reason(index, number, reason):
    result = index(ORDERS, "--columns", number)
    assert (result.code, result.out) == (2, "")
    told = " ".join(result.err.replace("│", "").split())
    assert f"Invalid value for '--columns': Input {reason}" in told
    assert builds() == []


def test_another_number_of_columns_builds_it_anew_and_the_same_does_not(index):
    asked = [("--columns", "0"), ("--columns", "0"), ("--columns", "1"), ("--columns", "2000"), (), ("--columns", "0")]

    told = [index(ORDERS, *columns, "--json").json[0]["outcome"] for columns in asked]

    assert told == ["built", "up to date", "built", "up to date", "up to date", "built"]


def test_the_job_and_the_command_mean_the_same_by_a_number_of_columns(index, capsys):
    dynamodb.cache_clear()  # of an earlier test's account
    assert main(["--table", ORDERS, "--columns", "0"]) == 0
    summary = capsys.readouterr().out
    assert f"{ORDERS} was indexed at version 0 (" in summary
    assert "  files: 30, chunks: 1, " in summary
    assert index(ORDERS, "--columns", "0", "--json").json[0]["outcome"] == "up to date"
    assert main(["--table", ORDERS]) == 0
    assert index(ORDERS, "--json").json[0]["outcome"] == "up to date"
    dynamodb.cache_clear()


def test_a_table_that_is_not_there_is_told(index):
    assert "does not exist" in index("sales.retail.gone").err
    assert "is not a table name" in index("stats").err


def test_without_a_place_for_indexes_it_says_where_to_get_one(index, monkeypatch):
    monkeypatch.setenv("SLUICE_INDEX_TABLE", "gone")
    assert "is not in this account and region" in index(ORDERS).err
    assert "is not in this account and region" in index("status").err
    monkeypatch.delenv("SLUICE_INDEX_TABLE")
    assert "set SLUICE_INDEX_TABLE" in index(ORDERS).err
    assert set(index("status", "--json").json) == {"error"}


def test_the_place_for_indexes_can_be_given(sluice, commit, monkeypatch):
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
    assert heading == ["TABLE", "INDEX", "LOG", "LAG", "FILES", "CHUNKS", "SIZE", "AGE", "BUILT", "IN"]
    assert [row[:6] for row in rows] == [
        [ORDERS, "0", "2", "2", "30", "1"],
        ["too.retail.orders", "0", "2", "2", "30", "1"],
    ]


def test_status_tells_a_script_the_same(index):
    index(ORDERS)

    (told,) = index("status", ORDERS, "--json").json

    assert (told["table"], told["logVersion"], told["lag"], told["error"]) == (ORDERS, 0, 0, None)
    assert (told["index"]["version"], told["index"]["files"], told["index"]["chunks"]) == (0, 30, 1)
    assert told["index"]["bytes"] > 0
    assert told["index"]["builtAt"].endswith("Z")


def test_status_of_a_table_without_index_is_none_and_of_one_that_cannot_be_read_is_told(index):
    shown, told = index("status"), index("status", "--json")

    assert (shown.code, told.code) == (1, 1)
    rows = {line.split()[0]: line.split()[1:] for line in shown.out.splitlines()[1:]}
    assert rows == {
        ORDERS: ["none", "0"],
        "too.retail.orders": ["none", "0"],
        "sales.retail.broken": ["none", "unreadable"],
    }
    assert "The table 'sales.retail.broken' cannot be read" in shown.err
    assert {each["table"]: each["index"] for each in told.json} == dict.fromkeys(rows)


@pytest.mark.parametrize(("amount", "text"), [(12.345, "$12.35"), (0.128, "$0.13"), (0.0031, "$0.0031")])
def test_an_amount_has_the_digits_that_say_something(amount, text):
    assert dollars(amount) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2 m"), (7200, "2 h"), (2e5, "2 d")])
def test_an_age_is_told_in_the_largest_unit_that_it_has_two_of(seconds, text):
    assert duration(seconds) == text
