"""Credentials for directory access: the requests to STS, their caching, and the errors for refusals."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.errors import TableFilesError, UnsupportedOperationError
from core.storage.location import S3Location
from core.storage.policy import MAX_CHARACTERS, reading_policy
from core.storage.roles import Credentials, StorageRole
from core.storage.vending import DirectoryCredentials, DirectoryReader
from tests.unit.storage.fake_sts import LIFE_SECONDS, Clock, FakeSts, sts_error

READER = DirectoryReader(
    recipient_id="r-1",
    recipient="acme",
    table_id="t-1",
    table="sales.retail.orders",
    location=S3Location("bucket", "warehouse/orders"),
    role=StorageRole("arn:aws:iam::123456789012:role/storage", "external"),
)


class Vending:
    def __init__(self) -> None:
        self.clock = Clock()
        self.sts = FakeSts(self.clock)
        self._directories = DirectoryCredentials(self.sts, now=self.clock)

    def issue(self, reader: DirectoryReader = READER) -> Credentials:
        return self._directories.credentials(reader)


@pytest.fixture
def vending() -> Vending:
    return Vending()


def test_the_role_is_assumed_with_the_policy_of_the_location_for_one_hour(vending: Vending) -> None:
    credentials = vending.issue()
    assert vending.sts.calls == [
        {
            "RoleArn": READER.role.arn,
            "RoleSessionName": "acme@sales.retail.orders",
            "DurationSeconds": 3600,
            "ExternalId": "external",
            "Policy": reading_policy([READER.location], partition="aws"),
        }
    ]
    assert credentials.expires_at == vending.clock() + LIFE_SECONDS, "the expiry that STS returned, not a computed one"


def test_the_policy_uses_the_partition_of_the_role(vending: Vending) -> None:
    vending.issue(replace(READER, role=StorageRole("arn:aws-cn:iam::123456789012:role/storage")))
    assert "arn:aws-cn:s3:::bucket/warehouse/orders/*" in vending.sts.calls[0]["Policy"]


def test_credentials_are_reused_for_half_of_their_lifetime(vending: Vending) -> None:
    first = vending.issue()
    vending.clock.seconds += LIFE_SECONDS / 2 - 1
    assert vending.issue() is first
    vending.clock.seconds += 1
    assert vending.issue().access_key_id == "ASIA2"


@pytest.mark.parametrize(
    "change",
    [
        {"recipient_id": "r-2"},
        {"table_id": "t-2"},
        {"location": S3Location("bucket", "warehouse/orders/_delta_log")},
        {"location": S3Location("bucket2", "warehouse/orders")},
        {"role": StorageRole(READER.role.arn)},
        {"role": StorageRole("arn:aws:iam::123456789012:role/other", "external")},
        {"kms_key_arn": "arn:aws:kms:eu-west-1:123456789012:key/k"},
        {"recipient": "acme-renamed"},
        {"table": "sales.retail.renamed"},
    ],
)
def test_readers_that_differ_in_any_field_get_different_credentials(vending: Vending, change: dict[str, Any]) -> None:
    assert vending.issue() is not vending.issue(replace(READER, **change))
    assert len(vending.sts.calls) == 2


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255)


@settings(deadline=None)
@given(recipient=names, table=names)
@example(recipient="r" * 255, table="t" * 255)
@example(recipient="Zoë (local)", table="日本.é.😀")
def test_a_session_name_is_valid_for_sts(recipient: str, table: str) -> None:
    name = replace(READER, recipient=recipient, table=table).session_name
    assert re.fullmatch(r"[A-Za-z0-9_+=,.@-]{2,64}", name)


def test_a_long_session_name_still_identifies_recipient_and_table() -> None:
    name = replace(READER, recipient="acme-" + "r" * 255, table="s" * 255 + ".retail.orders").session_name
    assert name.startswith("acme-")
    assert name.endswith(".retail.orders")


def longest_prefix() -> int:
    """The policy contains the prefix twice."""
    return (MAX_CHARACTERS - len(reading_policy([S3Location("bucket", "p")], partition="aws"))) // 2 + 1


def test_a_policy_longer_than_the_limit_of_sts_is_not_sent(vending: Vending) -> None:
    prefix = "p" * longest_prefix()
    vending.issue(replace(READER, location=S3Location("bucket", prefix)))
    assert MAX_CHARACTERS - 1 <= len(vending.sts.calls[0]["Policy"]) <= MAX_CHARACTERS
    with pytest.raises(UnsupportedOperationError, match="too long"):
        vending.issue(replace(READER, location=S3Location("bucket", prefix + "p")))
    assert len(vending.sts.calls) == 1


@pytest.mark.parametrize("code", ["PackedPolicyTooLarge", "MalformedPolicyDocument"])
def test_a_policy_refused_by_sts_is_a_400_with_the_cause_for_the_log(vending: Vending, code: str) -> None:
    refusal = sts_error(code)
    vending.sts.failures = [refusal]
    with pytest.raises(UnsupportedOperationError) as raised:
        vending.issue()
    assert raised.value.__cause__ is refusal
    assert "bucket" not in raised.value.message
    assert READER.location.prefix not in raised.value.message


def test_a_role_that_cannot_be_assumed_is_reported_as_permission_denied(vending: Vending) -> None:
    vending.sts.failures = [sts_error("AccessDenied")]
    with pytest.raises(TableFilesError, match=r"^permission denied$"):
        vending.issue()


def test_other_errors_of_sts_are_raised_unchanged_and_not_cached(vending: Vending) -> None:
    vending.sts.failures = [sts_error("Throttling")]
    with pytest.raises(ClientError, match="Throttling"):
        vending.issue()
    assert vending.issue().access_key_id == "ASIA2"


def test_every_session_has_a_policy(vending: Vending) -> None:
    for location in (S3Location("bucket", ""), S3Location("bucket", "*"), READER.location):
        vending.issue(replace(READER, location=location))
    assert all(json.loads(call["Policy"])["Statement"] for call in vending.sts.calls)
