"""Catalog tests that need real DynamoDB transactions and enforced permissions."""

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
from tests.unit.catalog.environment import Environment, counted_calls, page

THREADS = 8


@pytest.fixture(scope="module")
def owner(aws: EmbeddedAws) -> object:
    return client(aws, "dynamodb")


@pytest.fixture
def env(owner) -> Environment:
    return Environment(owner)


@pytest.fixture(scope="module")
def functions(aws: EmbeddedAws) -> object:
    """A client with exactly the catalog permissions of the functions."""
    catalogs = f"arn:aws:dynamodb:{aws.region}:{ACCOUNT_ID}:table/catalog-*"
    rights = [allow(f"dynamodb:{action}", catalogs) for action in ("BatchGetItem", "Query")]
    return client(aws, "dynamodb", create_user(aws, "catalog-reader", *rights)[1])


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Runs the calls in threads that start together. Returns each result, or the error that it raised."""
    barrier = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return act()
        except Exception as error:  # noqa: BLE001
            return error

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


def items_of(env: Environment) -> Iterator[tuple[str, str]]:
    for items in env.client.get_paginator("scan").paginate(TableName=env.table_name):
        for item in items["Items"]:
            yield item["pk"]["S"], item["sk"]["S"]


def test_concurrent_grants_are_not_lost(env):
    names = [f"share{number}" for number in range(THREADS)]
    for name in names:
        env.share(name)
    tokens = [env.recipient("ann"), env.recipient("ann")]
    results = at_once(*(lambda name=name: env.admin.grant("ann", name) for name in names))
    assert [result.outcome for result in results] == ["updated"] * THREADS
    for token in tokens:
        assert [share.name for share in env.catalog().list_shares(token, page()).items] == names


def test_tokens_issued_while_grants_change_have_all_grants(env):
    for name in ("a", "b", "kept"):
        env.share(name)
    env.recipient("ann", "kept", "b")
    issue = lambda: env.admin.issue_token("ann", lifetime_seconds=60)[1]  # noqa: E731
    grant, revoke = lambda: env.admin.grant("ann", "a"), lambda: env.admin.revoke("ann", "b")
    results = at_once(issue, grant, issue, revoke, issue)
    for token in (results[0], results[2], results[4]):
        assert [share.name for share in env.catalog().list_shares(token, page()).items] == ["a", "kept"]


def test_a_share_created_concurrently_has_one_id(env):
    results = at_once(*(lambda: env.admin.put_share("sales") for _ in range(THREADS)))
    assert len({result.value.id for result in results}) == 1
    assert sorted(result.outcome for result in results) == ["created"] + ["unchanged"] * (THREADS - 1)


def test_a_table_id_used_concurrently_for_the_same_location_goes_to_every_share(env):
    for number in range(THREADS):
        env.share(f"share{number}", "schema.other")
    put = lambda number: env.admin.put_table(  # noqa: E731
        f"share{number}", "schema", "table", location="s3://bucket/table", table_id="the-id"
    )
    results = at_once(*(lambda number=number: put(number) for number in range(THREADS)))
    assert {(result.outcome, result.value.id) for result in results} == {("created", "the-id")}
    at_once(
        *(lambda number=number: env.admin.remove_share(f"share{number}", cascade=True) for number in range(THREADS))
    )
    assert not [pk for pk, _ in items_of(env) if pk.startswith("TABLE_ID#")]


def test_a_table_id_used_concurrently_goes_to_one_table(env):
    for number in range(THREADS):
        env.share(f"share{number}", "schema.other")
    put = lambda number: env.admin.put_table(  # noqa: E731
        f"share{number}", "schema", "table", location=f"s3://bucket/table{number}", table_id="the-id"
    )
    results = at_once(*(lambda number=number: put(number) for number in range(THREADS)))
    refused = [result for result in results if isinstance(result, EntryExistsError)]
    assert len(refused) == THREADS - 1


def test_tables_registered_concurrently_are_not_lost(env):
    env.share("sales", "schema.table")
    names = [f"table{number}" for number in range(THREADS)]
    put = lambda name: env.admin.put_table("sales", "schema", name, location="s3://bucket/x")  # noqa: E731
    results = at_once(*(lambda name=name: put(name) for name in names))
    assert [result.outcome for result in results] == ["created"] * THREADS
    assert [table.name for table in env.admin.tables("sales")] == ["table", *names]


def test_no_entry_registered_while_its_share_is_removed_outlives_it(env):
    before = set(items_of(env))
    env.share("sales", *(f"schema.table{number}" for number in range(120)))

    def register() -> None:
        with contextlib.suppress(EntryNotFoundError):
            for number in range(20):
                env.admin.put_table("sales", "schema", f"late{number}", location="s3://bucket/late")

    results = at_once(lambda: env.admin.remove_share("sales", cascade=True), register, register)
    assert not [result for result in results if isinstance(result, Exception)]
    assert set(items_of(env)) == before


def test_the_permissions_of_the_functions_allow_every_read_and_no_write(env, functions):
    env.share("sales", "schema.table")
    token = env.recipient("ann", "sales")
    catalog = Catalog(functions, env.table_name, cache_seconds=0, now=env.clock)
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
        lambda: functions.delete_item(TableName=env.table_name, Key=key),
        lambda: functions.put_item(TableName=env.table_name, Item=key),
        lambda: functions.scan(TableName=env.table_name),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            forbidden()


def test_a_request_takes_the_promised_number_of_calls(env):
    env.share("sales", "schema.table")
    token = env.recipient("ann", "sales")
    catalog = env.catalog(cache_seconds=5)
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
        env.clock.seconds += 1000  # everything cached has expired, including the signing keys
        for counts in (cold, warm):
            with counted_calls(env.client) as calls:
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


def test_a_recipient_with_more_than_100_shares_sees_all_of_them(env):
    names = [f"share{number:03}" for number in range(130)]
    for name in names:
        env.admin.put_share(name)
    token = env.recipient("ann", *names)
    with counted_calls(env.client) as calls:
        listing = env.catalog().list_shares(token, page())
    assert [share.name for share in listing.items] == names
    assert len(calls) == 3


def test_revocations_take_effect_within_the_cache_time_in_every_process(env):
    env.share("sales", "schema.table")
    env.recipient("ann", "sales")
    issued, token = env.admin.issue_token("ann", lifetime_seconds=3600)
    processes = [env.catalog(cache_seconds=5) for _ in range(3)]
    for catalog in processes:
        catalog.find_table(token, "sales", "schema", "table").require()
    env.admin.revoke("ann", "sales")
    env.clock.seconds += 5
    assert [catalog.find_table(token, "sales", "schema", "table").table for catalog in processes] == [None] * 3
    env.admin.revoke_token("ann", issued.id)
    env.clock.seconds += 5
    for catalog in processes:
        with pytest.raises(UnauthenticatedError):
            catalog.authenticate(token)
