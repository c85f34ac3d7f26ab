"""What only a DynamoDB with real transactions and enforced rights can show of the catalog."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from cli.embedded.ministack import ACCOUNT_ID, EmbeddedAws
from core.catalog.errors import EntryExistsError, EntryNotFoundError
from core.catalog.reader import Catalog
from core.errors import UnauthenticatedError
from tests.integration.iam import allow, client, create_user
from tests.unit.catalog.world import World, counted_calls, page

THREADS = 8


@pytest.fixture(scope="module")
def owner(aws: EmbeddedAws) -> object:
    return client(aws, "dynamodb")


@pytest.fixture
def world(owner) -> World:
    return World(owner)


@pytest.fixture(scope="module")
def functions(aws: EmbeddedAws) -> object:
    """The client of a user that may do with catalogs what the functions may, and no more."""
    catalogs = f"arn:aws:dynamodb:{aws.region}:{ACCOUNT_ID}:table/catalog-*"
    rights = [allow(f"dynamodb:{action}", catalogs) for action in ("BatchGetItem", "Query")]
    return client(aws, "dynamodb", create_user(aws, "catalog-reader", *rights)[1])


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Do them in threads that start together; gives each one's result, or the error that it raised."""
    barrier = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return act()
        except Exception as error:  # noqa: BLE001
            return error

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


def items_of(world: World) -> Iterator[tuple[str, str]]:
    for items in world.client.get_paginator("scan").paginate(TableName=world.table_name):
        for item in items["Items"]:
            yield item["pk"]["S"], item["sk"]["S"]


def test_no_grant_is_lost_when_many_are_given_at_once(world):
    names = [f"share{number}" for number in range(THREADS)]
    for name in names:
        world.share(name)
    tokens = [world.recipient("ann"), world.recipient("ann")]
    results = at_once(*(lambda name=name: world.admin.grant("ann", name) for name in names))
    assert [result.outcome for result in results] == ["updated"] * THREADS
    for token in tokens:
        assert [share.name for share in world.catalog().list_shares(token, page()).items] == names


def test_tokens_issued_while_grants_change_have_all_of_them(world):
    for name in ("a", "b", "kept"):
        world.share(name)
    world.recipient("ann", "kept", "b")
    issue = lambda: world.admin.issue_token("ann", lifetime_seconds=60)[1]  # noqa: E731
    grant, revoke = lambda: world.admin.grant("ann", "a"), lambda: world.admin.revoke("ann", "b")
    results = at_once(issue, grant, issue, revoke, issue)
    for token in (results[0], results[2], results[4]):
        assert [share.name for share in world.catalog().list_shares(token, page()).items] == ["a", "kept"]


def test_a_share_made_by_many_at_once_has_one_id(world):
    results = at_once(*(lambda: world.admin.put_share("sales") for _ in range(THREADS)))
    assert len({result.value.id for result in results}) == 1
    assert sorted(result.outcome for result in results) == ["created"] + ["unchanged"] * (THREADS - 1)


def test_an_id_given_to_many_tables_at_once_goes_to_one(world):
    for number in range(THREADS):
        world.share(f"share{number}", "schema.other")
    put = lambda number: world.admin.put_table(  # noqa: E731
        f"share{number}", "schema", "table", location="s3://bucket/table", table_id="the-id"
    )
    results = at_once(*(lambda number=number: put(number) for number in range(THREADS)))
    refused = [result for result in results if isinstance(result, EntryExistsError)]
    assert len(refused) == THREADS - 1


def test_tables_registered_at_once_in_one_share_are_all_there(world):
    world.share("sales", "schema.table")
    names = [f"table{number}" for number in range(THREADS)]
    put = lambda name: world.admin.put_table("sales", "schema", name, location="s3://bucket/x")  # noqa: E731
    results = at_once(*(lambda name=name: put(name) for name in names))
    assert [result.outcome for result in results] == ["created"] * THREADS
    assert [table.name for table in world.admin.tables("sales")] == ["table", *names]


def test_nothing_registered_while_its_share_is_removed_outlives_it(world):
    before = set(items_of(world))
    world.share("sales", *(f"schema.table{number}" for number in range(120)))

    def register() -> None:
        with contextlib.suppress(EntryNotFoundError):
            for number in range(20):
                world.admin.put_table("sales", "schema", f"late{number}", location="s3://bucket/late")

    results = at_once(lambda: world.admin.remove_share("sales", cascade=True), register, register)
    assert not [result for result in results if isinstance(result, Exception)]
    assert set(items_of(world)) == before


def test_the_functions_rights_suffice_for_every_read_and_for_no_write(world, functions):
    world.share("sales", "schema.table")
    token = world.recipient("ann", "sales")
    catalog = Catalog(functions, world.table_name, cache_seconds=0, now=world.clock)
    assert catalog.find_table(token, "sales", "schema", "table").require().name == "table"
    for listing in (
        catalog.list_shares(token, page()),
        catalog.list_schemas(token, "sales", page()),
        catalog.list_tables(token, "sales", "schema", page()),
        catalog.list_all_tables(token, "sales", page()),
    ):
        assert len(listing.items) == 1
    key = {"pk": {"S": "SHARES"}, "sk": {"S": "sales"}}
    for forbidden in (
        lambda: functions.delete_item(TableName=world.table_name, Key=key),
        lambda: functions.put_item(TableName=world.table_name, Item=key),
        lambda: functions.scan(TableName=world.table_name),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            forbidden()


def test_a_request_takes_the_promised_number_of_calls(world):
    world.share("sales", "schema.table")
    token = world.recipient("ann", "sales")
    catalog = world.catalog(cache_seconds=5)
    routes = {
        "find_table": lambda: catalog.find_table(token, "sales", "schema", "table").require(),
        "find_share": lambda: catalog.find_share(token, "sales").require(),
        "list_shares": lambda: catalog.list_shares(token, page()),
        "list_schemas": lambda: catalog.list_schemas(token, "sales", page()),
        "list_tables": lambda: catalog.list_tables(token, "sales", "schema", page()),
        "list_all_tables": lambda: catalog.list_all_tables(token, "sales", page()),
    }
    cold, warm = {}, {}
    for route, ask in routes.items():
        world.clock.seconds += 1000  # nothing is cached any more, the signing keys neither
        for counts in (cold, warm):
            with counted_calls(world.client) as calls:
                ask()
            counts[route] = len(calls)
    assert cold == {
        "find_table": 1,
        "find_share": 1,
        "list_shares": 2,
        "list_schemas": 2,
        "list_tables": 2,
        "list_all_tables": 2,
    }
    assert warm == {
        "find_table": 0,
        "find_share": 0,
        "list_shares": 0,
        "list_schemas": 1,
        "list_tables": 1,
        "list_all_tables": 1,
    }


def test_a_recipient_of_more_shares_than_one_read_holds_sees_all_of_them(world):
    names = [f"share{number:03}" for number in range(130)]
    for name in names:
        world.admin.put_share(name)
    token = world.recipient("ann", *names)
    with counted_calls(world.client) as calls:
        listing = world.catalog().list_shares(token, page())
    assert [share.name for share in listing.items] == names
    assert len(calls) == 3


def test_revocations_work_within_the_cache_time_in_every_process(world):
    world.share("sales", "schema.table")
    world.recipient("ann", "sales")
    issued, token = world.admin.issue_token("ann", lifetime_seconds=3600)
    processes = [world.catalog(cache_seconds=5) for _ in range(3)]
    for catalog in processes:
        catalog.find_table(token, "sales", "schema", "table").require()
    world.admin.revoke("ann", "sales")
    world.clock.seconds += 5
    assert [catalog.find_table(token, "sales", "schema", "table").table for catalog in processes] == [None] * 3
    world.admin.revoke_token("ann", issued.id)
    world.clock.seconds += 5
    for catalog in processes:
        with pytest.raises(UnauthenticatedError):
            catalog.authenticate(token)
