"""Directory access: which tables offer it, what clients see of it, and which locations get credentials."""

import json
from dataclasses import replace
from typing import Any

import pytest

from core.api.requests.credentials import CredentialsRequest
from core.api.requests.request import Request
from core.catalog.model import Table
from core.catalog.reader import Caller
from core.errors import InvalidParameterError, MalformedRequestError
from core.settings import Settings
from core.sharing.credentials import OUTSIDE, SharedDirectories, answer_credentials
from core.sharing.discovery import directory_fields, table_item
from core.storage.vending import DirectoryCredentials
from tests.unit.storage.fake_sts import LIFE_SECONDS, Clock, FakeSts

TABLE = Table(
    name="orders",
    schema="retail",
    share="sales",
    share_id="s-1",
    id="t-1",
    location="s3a://bucket/warehouse/orders",
    auxiliary_locations=("s3://archive/orders/",),
    access_modes=("url", "dir"),
    history_shared=True,
)
CLOSED = [{"access_modes": ("url",)}, {"history_shared": False}, {"start_version": 1}]
SETTINGS = Settings(storage_role_arn="arn:aws:iam::123456789012:role/default", storage_external_id="default-id")


class Provider:
    def __init__(self) -> None:
        self.clock = Clock()
        self.sts = FakeSts(self.clock)
        self._directories = SharedDirectories(SETTINGS, DirectoryCredentials(self.sts, now=self.clock))

    def answer(self, requested: str | None = None, table: Table = TABLE) -> tuple[dict[str, Any], dict[str, str]]:
        response = answer_credentials(self._directories, table, Caller("r-1", "acme", {}), requested)
        return json.loads(b"".join(response.body)), response.headers

    def resource(self, requested: str | None = None, table: Table = TABLE) -> str:
        """Returns the resource that the credentials can read."""
        self.answer(requested, table)
        return str(json.loads(self.sts.calls[-1]["Policy"])["Statement"][0]["Resource"])


@pytest.fixture
def provider() -> Provider:
    return Provider()


def test_credentials_have_the_form_of_the_protocol_and_must_not_be_cached(provider: Provider) -> None:
    document, headers = provider.answer()
    assert document == {
        "credentials": {
            "location": "s3a://bucket/warehouse/orders",
            "awsTempCredentials": {
                "accessKeyId": "ASIA1",
                "secretAccessKey": "the-secret",
                "sessionToken": "the-token",
            },
            "expirationTime": int(provider.clock() + LIFE_SECONDS) * 1000,
        }
    }
    assert headers["Cache-Control"] == "no-store"


def test_without_a_location_credentials_are_for_the_tables_own_directory(provider: Provider) -> None:
    assert provider.resource() == "arn:aws:s3:::bucket/warehouse/orders/*"
    assert provider.sts.calls[0]["ExternalId"] == "default-id"


def test_a_tables_own_role_and_key_are_used(provider: Provider) -> None:
    role_arn, key_arn = "arn:aws:iam::210987654321:role/theirs", "arn:aws:kms:eu-west-1:210987654321:key/k"
    provider.answer(table=replace(TABLE, role_arn=role_arn, kms_key_arn=key_arn))
    assert provider.sts.calls[0]["RoleArn"] == role_arn
    assert "ExternalId" not in provider.sts.calls[0]
    assert key_arn in provider.sts.calls[0]["Policy"]


@pytest.mark.parametrize(
    ("requested", "resource"),
    [
        ("s3a://bucket/warehouse/orders", "bucket/warehouse/orders/*"),
        ("s3://bucket/warehouse/orders", "bucket/warehouse/orders/*"),
        ("S3N://bucket/warehouse/orders///", "bucket/warehouse/orders/*"),
        ("s3://bucket/warehouse/orders/_delta_log", "bucket/warehouse/orders/_delta_log/*"),
        ("s3://bucket/warehouse/./x/..//orders", "bucket/warehouse/orders/*"),
        ("s3://bucket/warehouse/orders/%2e%2e", "bucket/warehouse/orders/%2e%2e/*"),
        ("s3://archive/orders", "archive/orders/*"),
        ("s3://archive/orders/2024", "archive/orders/2024/*"),
    ],
)
def test_credentials_are_only_for_the_requested_location_which_is_returned_as_sent(
    provider: Provider, requested: str, resource: str
) -> None:
    assert provider.resource(requested) == f"arn:aws:s3:::{resource}"
    assert provider.answer(requested)[0]["credentials"]["location"] == requested


def test_a_directory_in_a_location_with_double_slashes_gets_credentials(provider: Provider) -> None:
    table = replace(TABLE, location="s3://bucket/a//b")
    assert provider.resource("s3://bucket/a//b/_delta_log", table) == "arn:aws:s3:::bucket/a//b/_delta_log/*"


@pytest.mark.parametrize(
    "requested",
    [
        "",
        "orders",
        "/warehouse/orders",
        "https://bucket/warehouse/orders",
        "file:///warehouse/orders",
        "s3://bucket",
        "s3://bucket/warehouse",
        "s3://bucket/warehouse/orders10",
        "s3://bucket/warehouse/orders/../other",
        "s3://bucket/warehouse/orders/x/../../other",
        "s3://bucket/../bucket/warehouse/orders",
        "s3://bucket2/warehouse/orders",
        "s3://archive",
        "s3://archive/warehouse/orders",
        "s3://bucket/orders",
        "s3://bucket/warehouse%2Forders",
        "s3://bucket/WAREHOUSE/orders",
        "s3://bucket/*",
    ],
)
def test_any_other_location_is_refused_with_the_reference_servers_text(provider: Provider, requested: str) -> None:
    with pytest.raises(InvalidParameterError) as raised:
        provider.answer(requested)
    assert raised.value.message == OUTSIDE
    assert raised.value.__cause__ is None, "the input of a recipient must not reach the log"
    assert provider.sts.calls == []


def test_a_location_that_the_provider_configured_is_not_resolved(provider: Provider) -> None:
    """S3 does not resolve `//` or `..`. The resolved location could belong to another table."""
    odd = replace(TABLE, location="s3://bucket/a//orders")
    assert provider.resource(table=odd) == "arn:aws:s3:::bucket/a//orders/*"
    assert provider.resource("s3://bucket/a//orders/", odd) == "arn:aws:s3:::bucket/a//orders/*"
    with pytest.raises(InvalidParameterError):
        provider.answer("s3://bucket/a/orders", odd)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"history_shared": False}, "history sharing is not enabled"),
        ({"history_shared": False, "access_modes": ("url",)}, "history sharing is not enabled"),
        ({"access_modes": ("url",)}, "directory access is not enabled"),
        ({"start_version": 1}, "only a part of the history is shared"),
    ],
)
def test_a_table_that_does_not_share_its_directory_gets_no_credentials(
    provider: Provider, change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidParameterError) as raised:
        provider.answer(TABLE.location, replace(TABLE, **change))
    expected = f"Temporary table credentials are not supported because {reason} on table: sales.retail.orders"
    assert raised.value.message == expected
    assert provider.sts.calls == []


def test_a_shared_directory_is_listed_with_its_locations_and_access_modes() -> None:
    assert directory_fields(TABLE) == {
        "location": "s3a://bucket/warehouse/orders",
        "auxiliaryLocations": ["s3://archive/orders/"],
        "accessModes": ["url", "dir"],
    }
    assert "auxiliaryLocations" not in directory_fields(replace(TABLE, auxiliary_locations=()))
    assert directory_fields(TABLE).items() <= table_item(TABLE).items()


@pytest.mark.parametrize("change", CLOSED)
def test_the_location_of_a_table_that_does_not_share_its_directory_is_hidden(change: dict[str, Any]) -> None:
    assert table_item(replace(TABLE, **change)).keys() == {"name", "schema", "share", "shareId", "id"}


def requested_location(body: bytes) -> str | None:
    return CredentialsRequest.parse(Request("POST", body=body)).location


@pytest.mark.parametrize("body", [b"", b"  \n", b"{}", b'{"location":null}', b'{"other":1}'])
def test_a_body_without_a_location_requests_the_tables_own(body: bytes) -> None:
    assert requested_location(body) is None


def test_a_location_is_read_from_the_body() -> None:
    assert requested_location(b'{"location":"s3://b/t","unknown":[1]}') == "s3://b/t"


@pytest.mark.parametrize("body", [b"{", b"[]", b'"s3://b/t"', b'{"location":1}', b'{"location":"\\ud800"}', b"\xff"])
def test_an_invalid_body_is_a_malformed_request(body: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        requested_location(body)
