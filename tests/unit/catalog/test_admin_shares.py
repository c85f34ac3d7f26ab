import pytest

from core.catalog.admin import shares
from core.catalog.errors import (
    CatalogError,
    EntryExistsError,
    EntryInUseError,
    EntryNotFoundError,
    InvalidEntryError,
    LimitError,
)
from core.catalog.model import Schema
from core.errors import InvalidParameterError
from tests.unit.catalog.environment import Environment, counted_calls


def items_of(env: Environment) -> set[tuple[str, str]]:
    items = env.client.scan(TableName=env.table_name)["Items"]
    return {(item["pk"]["S"], item["sk"]["S"]) for item in items}


def test_creating_a_catalog_twice_changes_nothing(env):
    before = env.client.scan(TableName=env.table_name)["Items"]
    env.admin.create_catalog()
    assert env.client.scan(TableName=env.table_name)["Items"] == before
    ttl = env.client.describe_time_to_live(TableName=env.table_name)["TimeToLiveDescription"]
    assert (ttl["TimeToLiveStatus"], ttl["AttributeName"]) == ("ENABLED", "ttl")


def test_a_share_is_created_then_unchanged_then_updated_and_keeps_its_id_and_spelling(env):
    created = env.admin.put_share("Sales", comment="daily", properties={"a": "1"})
    again = env.admin.put_share("SALES", comment="daily", properties={"a": "1"})
    updated = env.admin.put_share("sales", display_name="All sales")
    assert [written.outcome for written in (created, again, updated)] == ["created", "unchanged", "updated"]
    assert again.value == created.value
    assert (updated.value.id, updated.value.name) == (created.value.id, "Sales")
    assert env.admin.share("sales") == updated.value
    assert (updated.value.comment, updated.value.properties) == (None, {})


def test_putting_an_unchanged_entry_writes_nothing(env):
    env.share("sales", "schema.table")
    with counted_calls(env.client) as calls:
        env.share("sales", "schema.table")
    assert "TransactWriteItems" not in calls


def test_an_id_may_be_given_at_creation_and_never_changes(env):
    assert env.admin.put_share("sales", share_id="my-id").value.id == "my-id"
    assert env.admin.put_share("sales", share_id="my-id").outcome == "unchanged"
    with pytest.raises(EntryExistsError, match="my-id"):
        env.admin.put_share("sales", share_id="another")


def test_entries_are_listed_in_order(env):
    env.share("b", "two.t", "one.t2", "one.T1")
    env.share("A")
    assert [share.name for share in env.admin.shares()] == ["A", "b"]
    assert env.admin.schemas("B") == [Schema("one", "b"), Schema("two", "b")]
    assert [table.full_name for table in env.admin.tables("b")] == ["b.one.T1", "b.one.t2", "b.two.t"]
    assert [table.name for table in env.admin.tables("b", "ONE")] == ["T1", "t2"]


def test_a_table_stores_every_field(env):
    share_id = env.share("Sales", "Default.other")
    arguments = {
        "location": "s3://bucket/path",
        "auxiliary_locations": ("s3://other/one", "s3://other/two"),
        "access_modes": ("url", "dir"),
        "history_shared": True,
        "start_version": 7,
        "staleness_seconds": 2.5,
        "role_arn": "arn:aws:iam::1:role/r",
        "external_id": "external",
        "region": "eu-west-1",
        "kms_key_arn": "arn:aws:kms:eu-west-1:111122223333:key/k",
    }
    written = env.admin.put_table("sales", "default", "Trips", table_id="table-id", **arguments)
    table = env.admin.table("SALES", "DEFAULT", "TRIPS")
    assert (written.outcome, written.value) == ("created", table)
    assert {name: getattr(table, name) for name in arguments} == arguments
    assert (table.id, table.share_id, table.full_name) == ("table-id", share_id, "Sales.Default.Trips")
    assert env.admin.put_table("sales", "default", "TRIPS", **arguments).outcome == "unchanged"
    moved = env.admin.put_table("sales", "default", "trips", location="s3://bucket/new")
    assert (moved.outcome, moved.value.id, moved.value.name) == ("updated", "table-id", "Trips")


def test_a_table_id_is_unique_until_its_table_is_removed(env):
    env.share("one", "s.x")
    env.share("two", "s.x")
    env.admin.put_table("one", "s", "a", location="s3://bucket/a", table_id="same")
    with pytest.raises(EntryExistsError, match=r"'one\.s\.a'"):
        env.admin.put_table("two", "s", "b", location="s3://bucket/b", table_id="same")
    with pytest.raises(EntryExistsError):
        env.admin.put_table("one", "s", "a", location="s3://bucket/a", table_id="different")
    env.admin.remove_table("one", "s", "a")
    assert env.admin.put_table("two", "s", "b", location="s3://bucket/b", table_id="same").outcome == "created"


def shared_three_times(env) -> None:
    for name in ("one", "two", "Three.eu"):
        env.share(name, "s.x")
        env.admin.put_table(name, "s", "Trips", location="s3://bucket/trips", table_id="same")


def test_tables_of_several_shares_with_the_same_location_may_have_the_same_id(env):
    shared_three_times(env)
    assert {env.admin.table(name, "s", "trips").id for name in ("one", "two", "three.eu")} == {"same"}
    env.share("four", "s.x")
    for location in ("s3://bucket/trips2", "s3://bucket2/trips"):
        with pytest.raises(EntryExistsError, match=r"the id same belongs to table 'one\.s\.Trips'"):
            env.admin.put_table("four", "s", "trips", location=location, table_id="same")
    with pytest.raises(EntryExistsError):
        env.admin.put_table("one", "s", "again", location="s3://bucket/trips", table_id="same")


@pytest.mark.parametrize("last", ["one", "two", "three.eu"])
def test_a_common_id_is_taken_until_the_last_of_its_tables_is_removed(env, last):
    shared_three_times(env)
    env.share("other", "s.x")
    removals = [
        lambda name: env.admin.remove_table(name, "S", "TRIPS"),
        lambda name: env.admin.remove_share(name, cascade=True),
        lambda name: env.admin.remove_schema(name, "s", cascade=True),
    ]
    for name, remove in zip(sorted(("one", "two", "three.eu"), key=lambda name: name == last), removals, strict=True):
        with pytest.raises(EntryExistsError):
            env.admin.put_table("other", "s", "t", location="s3://bucket/else", table_id="same")
        remove(name)
    assert env.admin.put_table("other", "s", "t", location="s3://bucket/else", table_id="same").outcome == "created"


def test_a_token_of_a_table_is_invalid_for_the_table_with_the_same_id_in_another_share(env):
    shared_three_times(env)
    token = env.recipient("ann", "one", "two")
    one, two = (env.catalog().find_table(token, name, "s", "trips").table_tokens() for name in ("one", "two"))
    refresh = one.issue_refresh(7, "checkpoint", "tip")
    assert one.read_refresh(refresh).version == 7
    with pytest.raises(InvalidParameterError, match="does not match the table being queried"):
        two.read_refresh(refresh)


def test_a_share_or_schema_with_children_is_removed_only_with_cascade(env):
    env.share("sales", "schema.table")
    with pytest.raises(EntryInUseError):
        env.admin.remove_share("sales")
    with pytest.raises(EntryInUseError):
        env.admin.remove_schema("sales", "schema")
    env.admin.remove_schema("sales", "schema", cascade=True)
    assert (env.admin.schemas("sales"), env.admin.tables("sales")) == ([], [])
    env.admin.remove_share("sales")
    assert env.admin.shares() == []


@pytest.fixture
def small_transactions(monkeypatch):
    """Makes six tables and their ids need two transactions, like 98 tables with DynamoDB's real limit."""
    monkeypatch.setattr(shares, "ACTIONS_PER_WRITE", 8)


def test_removing_a_share_in_several_transactions_leaves_nothing_behind(env, small_transactions):
    before = items_of(env)
    env.share("sales", *(f"schema{number % 3}.table{number}" for number in range(10)))
    env.share("kept", "schema.table")
    kept = items_of(env)
    env.admin.remove_share("sales", cascade=True)
    left = items_of(env)
    assert left < kept
    env.admin.remove_share("kept", cascade=True)
    assert items_of(env) == before


def test_an_interrupted_removal_can_be_resumed(env, small_transactions, monkeypatch):
    before = items_of(env)
    env.share("sales", *(f"schema.table{number}" for number in range(5)))
    transact, calls = env.client.transact_write_items, []

    def first_then_none(**arguments):
        calls.append(arguments)
        if len(calls) > 1:
            raise ConnectionError
        return transact(**arguments)

    with monkeypatch.context() as patch:
        patch.setattr(env.client, "transact_write_items", first_then_none)
        with pytest.raises(ConnectionError):
            env.admin.remove_share("sales", cascade=True)
    assert len(env.admin.tables("sales", "schema")) == 2
    env.admin.remove_share("sales", cascade=True)
    assert items_of(env) == before


def test_removing_a_share_removes_its_grants(env):
    env.share("sales")
    env.share("other")
    env.recipient("ann", "sales", "other")
    env.admin.remove_share("SALES")
    assert [grant.share for grant in env.admin.recipient("ann").grants] == ["other"]


@pytest.mark.parametrize(
    "act",
    [
        lambda admin: admin.share("none"),
        lambda admin: admin.remove_share("none"),
        lambda admin: admin.schemas("none"),
        lambda admin: admin.put_schema("none", "schema"),
        lambda admin: admin.remove_schema("sales", "none"),
        lambda admin: admin.tables("none"),
        lambda admin: admin.tables("sales", "none"),
        lambda admin: admin.table("sales", "schema", "none"),
        lambda admin: admin.table("sales", "schema", "a/b"),
        lambda admin: admin.put_table("sales", "none", "table", location="s3://b/k"),
        lambda admin: admin.put_table("none", "schema", "table", location="s3://b/k"),
        lambda admin: admin.remove_table("sales", "schema", "none"),
        lambda admin: admin.share(""),
    ],
)
def test_missing_entries_are_reported_and_nothing_is_written(env, act):
    env.share("sales", "schema.table")
    before = items_of(env)
    with pytest.raises(EntryNotFoundError):
        act(env.admin)
    assert items_of(env) == before


@pytest.mark.parametrize(
    "act",
    [
        lambda admin: admin.put_share("a b"),
        lambda admin: admin.put_share(".."),
        lambda admin: admin.put_share("new", share_id="with space"),
        lambda admin: admin.put_share("new", comment="lone \ud800"),
        lambda admin: admin.put_share("new", properties={str(number): "" for number in range(51)}),
        lambda admin: admin.put_share("new", properties={"lone": "\ud800"}),
        lambda admin: admin.put_schema("sales", "a.b"),
        lambda admin: admin.put_table("sales", "schema", "a.b", location="s3://b/k"),
        lambda admin: admin.put_table("sales", "schema", "new", location=""),
        lambda admin: admin.put_table("sales", "schema", "new", location="s3://b/\ud800"),
        lambda admin: admin.put_table("sales", "schema", "new", location="s3://b/k", access_modes=()),
        lambda admin: admin.put_table("sales", "schema", "new", location="s3://b/k", access_modes=("ftp",)),
        lambda admin: admin.put_table("sales", "schema", "new", location="s3://b/k", start_version=-1),
        lambda admin: admin.put_table("sales", "schema", "new", location="s3://b/k", staleness_seconds=-1),
        lambda admin: admin.put_table("sales", "schema", "new", location="s3://b/k", staleness_seconds=float("nan")),
        lambda admin: admin.put_table("sales", "schema", "new", location="s3://b/k", kms_key_arn="*"),
        lambda admin: admin.put_recipient("a\nb"),
        lambda admin: admin.put_recipient("new", comment="\ud800"),
    ],
)
def test_invalid_entries_are_rejected_and_nothing_is_written(env, act):
    env.share("sales", "schema.table")
    before = items_of(env)
    with pytest.raises(InvalidEntryError) as caught:
        act(env.admin)
    assert caught.value.message.isprintable()
    assert items_of(env) == before


def test_a_share_may_have_fifty_properties(env):
    properties = {f"key {number}": "värde" for number in range(50)}
    env.admin.put_share("sales", properties=properties)
    assert env.admin.share("sales").properties == properties


def test_an_entry_larger_than_a_dynamodb_item_is_rejected_with_advice(env):
    with pytest.raises(LimitError, match="too large"):
        env.admin.put_share("sales", comment="x" * 400_000)


def test_every_error_is_a_catalog_error():
    for error in (EntryExistsError, EntryInUseError, EntryNotFoundError, InvalidEntryError, LimitError):
        assert issubclass(error, CatalogError)
