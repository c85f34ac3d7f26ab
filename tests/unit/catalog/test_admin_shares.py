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
from tests.unit.catalog.world import World, counted_calls


def items_of(world: World) -> set[tuple[str, str]]:
    items = world.client.scan(TableName=world.table_name)["Items"]
    return {(item["pk"]["S"], item["sk"]["S"]) for item in items}


def test_making_a_catalog_twice_changes_nothing(world):
    before = world.client.scan(TableName=world.table_name)["Items"]
    world.admin.create_catalog()
    assert world.client.scan(TableName=world.table_name)["Items"] == before
    ttl = world.client.describe_time_to_live(TableName=world.table_name)["TimeToLiveDescription"]
    assert (ttl["TimeToLiveStatus"], ttl["AttributeName"]) == ("ENABLED", "ttl")


def test_a_share_is_created_then_unchanged_then_updated_and_keeps_its_id_and_spelling(world):
    created = world.admin.put_share("Sales", comment="daily", properties={"a": "1"})
    again = world.admin.put_share("SALES", comment="daily", properties={"a": "1"})
    updated = world.admin.put_share("sales", display_name="All sales")
    assert [written.outcome for written in (created, again, updated)] == ["created", "unchanged", "updated"]
    assert again.value == created.value
    assert (updated.value.id, updated.value.name) == (created.value.id, "Sales")
    assert world.admin.share("sales") == updated.value
    assert (updated.value.comment, updated.value.properties) == (None, {})


def test_writing_what_is_there_writes_nothing(world):
    world.share("sales", "schema.table")
    with counted_calls(world.client) as calls:
        world.share("sales", "schema.table")
    assert "TransactWriteItems" not in calls


def test_an_id_may_be_given_at_creation_and_never_changes(world):
    assert world.admin.put_share("sales", share_id="my-id").value.id == "my-id"
    assert world.admin.put_share("sales", share_id="my-id").outcome == "unchanged"
    with pytest.raises(EntryExistsError, match="my-id"):
        world.admin.put_share("sales", share_id="another")


def test_entries_are_listed_in_order(world):
    world.share("b", "two.t", "one.t2", "one.T1")
    world.share("A")
    assert [share.name for share in world.admin.shares()] == ["A", "b"]
    assert world.admin.schemas("B") == [Schema("one", "b"), Schema("two", "b")]
    assert [table.full_name for table in world.admin.tables("b")] == ["b.one.T1", "b.one.t2", "b.two.t"]
    assert [table.name for table in world.admin.tables("b", "ONE")] == ["T1", "t2"]


def test_a_table_keeps_everything_it_is_given(world):
    share_id = world.share("Sales", "Default.other")
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
    written = world.admin.put_table("sales", "default", "Trips", table_id="table-id", **arguments)
    table = world.admin.table("SALES", "DEFAULT", "TRIPS")
    assert (written.outcome, written.value) == ("created", table)
    assert {name: getattr(table, name) for name in arguments} == arguments
    assert (table.id, table.share_id, table.full_name) == ("table-id", share_id, "Sales.Default.Trips")
    assert world.admin.put_table("sales", "default", "TRIPS", **arguments).outcome == "unchanged"
    moved = world.admin.put_table("sales", "default", "trips", location="s3://bucket/new")
    assert (moved.outcome, moved.value.id, moved.value.name) == ("updated", "table-id", "Trips")


def test_no_two_tables_have_one_id_until_the_first_is_gone(world):
    world.share("one", "s.x")
    world.share("two", "s.x")
    world.admin.put_table("one", "s", "a", location="s3://bucket/a", table_id="same")
    with pytest.raises(EntryExistsError, match=r"'one\.s\.a'"):
        world.admin.put_table("two", "s", "b", location="s3://bucket/b", table_id="same")
    with pytest.raises(EntryExistsError):
        world.admin.put_table("one", "s", "a", location="s3://bucket/a", table_id="different")
    world.admin.remove_table("one", "s", "a")
    assert world.admin.put_table("two", "s", "b", location="s3://bucket/b", table_id="same").outcome == "created"


def test_a_share_or_schema_that_holds_something_is_removed_only_with_all_below(world):
    world.share("sales", "schema.table")
    with pytest.raises(EntryInUseError):
        world.admin.remove_share("sales")
    with pytest.raises(EntryInUseError):
        world.admin.remove_schema("sales", "schema")
    world.admin.remove_schema("sales", "schema", cascade=True)
    assert (world.admin.schemas("sales"), world.admin.tables("sales")) == ([], [])
    world.admin.remove_share("sales")
    assert world.admin.shares() == []


@pytest.fixture
def small_transactions(monkeypatch):
    """Six tables and their ids fill two transactions, as 98 do with DynamoDB's real limit."""
    monkeypatch.setattr(shares, "ACTIONS_PER_WRITE", 8)


def test_removing_a_share_of_more_than_one_transaction_leaves_nothing_behind(world, small_transactions):
    before = items_of(world)
    world.share("sales", *(f"schema{number % 3}.table{number}" for number in range(10)))
    world.share("kept", "schema.table")
    kept = items_of(world)
    world.admin.remove_share("sales", cascade=True)
    left = items_of(world)
    assert left < kept
    world.admin.remove_share("kept", cascade=True)
    assert items_of(world) == before


def test_a_removal_that_was_cut_short_can_be_taken_up_again(world, small_transactions, monkeypatch):
    before = items_of(world)
    world.share("sales", *(f"schema.table{number}" for number in range(5)))
    transact, calls = world.client.transact_write_items, []

    def first_then_none(**arguments):
        calls.append(arguments)
        if len(calls) > 1:
            raise ConnectionError
        return transact(**arguments)

    with monkeypatch.context() as patch:
        patch.setattr(world.client, "transact_write_items", first_then_none)
        with pytest.raises(ConnectionError):
            world.admin.remove_share("sales", cascade=True)
    assert len(world.admin.tables("sales", "schema")) == 2
    world.admin.remove_share("sales", cascade=True)
    assert items_of(world) == before


def test_removing_a_share_takes_its_grants_along(world):
    world.share("sales")
    world.share("other")
    world.recipient("ann", "sales", "other")
    world.admin.remove_share("SALES")
    assert [grant.share for grant in world.admin.recipient("ann").grants] == ["other"]


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
def test_what_does_not_exist_is_told_and_nothing_is_written(world, act):
    world.share("sales", "schema.table")
    before = items_of(world)
    with pytest.raises(EntryNotFoundError):
        act(world.admin)
    assert items_of(world) == before


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
def test_what_breaks_the_rules_is_refused_and_nothing_is_written(world, act):
    world.share("sales", "schema.table")
    before = items_of(world)
    with pytest.raises(InvalidEntryError) as caught:
        act(world.admin)
    assert caught.value.message.isprintable()
    assert items_of(world) == before


def test_fifty_properties_are_allowed_by_the_protocol(world):
    properties = {f"key {number}": "värde" for number in range(50)}
    world.admin.put_share("sales", properties=properties)
    assert world.admin.share("sales").properties == properties


def test_an_entry_larger_than_dynamodb_holds_is_refused_in_words(world):
    with pytest.raises(LimitError, match="too large"):
        world.admin.put_share("sales", comment="x" * 400_000)


def test_every_error_of_the_catalog_is_one_family():
    for error in (EntryExistsError, EntryInUseError, EntryNotFoundError, InvalidEntryError, LimitError):
        assert issubclass(error, CatalogError)
