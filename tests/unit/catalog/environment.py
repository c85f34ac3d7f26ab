"""A test catalog with its DynamoDB client, its administration and its readers, on a clock that tests control."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import botocore.session
from botocore.config import Config
from moto import mock_aws

from core.api.requests.request import Request
from core.catalog.admin import CatalogAdmin
from core.catalog.reader import Catalog

DAY = 24 * 3600
_numbers = itertools.count()


@dataclass
class Clock:
    seconds: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


class Environment:
    def __init__(self, client) -> None:
        self.client = client
        self.table_name = f"catalog-{next(_numbers)}"
        self.clock = Clock()
        self.admin = CatalogAdmin(client, self.table_name, now=self.clock)
        self.admin.create_catalog()

    def catalog(self, cache_seconds: float = 0) -> Catalog:
        return Catalog(self.client, self.table_name, cache_seconds=cache_seconds, now=self.clock)

    def recipient(self, name: str, *shares: str) -> str:
        """Creates a recipient with these grants and returns a token."""
        self.admin.put_recipient(name)
        for share in shares:
            self.admin.grant(name, share)
        return self.admin.issue_token(name, lifetime_seconds=DAY)[1]

    def share(self, name: str, *tables: str) -> str:
        """Creates a share with these tables, named `schema.table`, and returns its id."""
        share = self.admin.put_share(name).value
        for table in tables:
            schema, _, table_name = table.partition(".")
            self.admin.put_schema(name, schema)
            self.admin.put_table(name, schema, table_name, location=f"s3://bucket/{name}/{table}")
        return share.id


@dataclass
class Calls:
    """Records the DynamoDB operations of a client."""

    operations: list[str] = field(default_factory=list)

    def __call__(self, model, **_) -> None:
        self.operations.append(model.name)


@contextlib.contextmanager
def counted_calls(client) -> Iterator[list[str]]:
    calls = Calls()
    client.meta.events.register("before-call.dynamodb", calls)
    try:
        yield calls.operations
    finally:
        client.meta.events.unregister("before-call.dynamodb", calls)


@contextlib.contextmanager
def partitions_read(client) -> Iterator[set[str]]:
    """Collects the partition keys of all reads (`dynamodb:LeadingKeys` in a policy)."""
    found: set[str] = set()

    def record(params, model, **_) -> None:
        if model.name == "Query":
            found.add(params["ExpressionAttributeValues"][":pk"]["S"])
        elif model.name == "BatchGetItem":
            for request in params["RequestItems"].values():
                found.update(key["pk"]["S"] for key in request["Keys"])
        else:
            raise AssertionError(f"The policy does not allow {model.name}.")

    client.meta.events.register("before-parameter-build.dynamodb", record)
    try:
        yield found
    finally:
        client.meta.events.unregister("before-parameter-build.dynamodb", record)


@contextlib.contextmanager
def moto_client() -> Iterator[object]:
    with mock_aws():
        yield botocore.session.Session().create_client(
            "dynamodb",
            region_name="us-east-1",
            aws_access_key_id="unit-test",
            aws_secret_access_key="unit-test",
            config=Config(ignore_configured_endpoint_urls=True),
        )


def page(max_results: int | str | None = None, token: str | None = None) -> Request:
    query = {"maxResults": max_results, "pageToken": token}
    return Request("GET", query={name: str(value) for name, value in query.items() if value is not None})
