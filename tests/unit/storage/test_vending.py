"""Credentials for a directory: what STS is asked for, how often, and what becomes of its refusals."""

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

    def to(self, reader: DirectoryReader = READER) -> Credentials:
        return self._directories.credentials(reader)


@pytest.fixture
def vending() -> Vending:
    return Vending()


def test_the_role_is_assumed_under_the_locations_policy_within_the_hour_that_chaining_allows(vending: Vending) -> None:
    credentials = vending.to()
    assert vending.sts.calls == [
        {
            "RoleArn": READER.role.arn,
            "RoleSessionName": "acme@sales.retail.orders",
            "DurationSeconds": 3600,
            "ExternalId": "external",
            "Policy": reading_policy([READER.location], partition="aws"),
        }
    ]
    assert credentials.expires_at == vending.clock() + LIFE_SECONDS, "STS's own end, not one that we work out"


def test_the_policy_names_resources_in_the_partition_of_the_role(vending: Vending) -> None:
    vending.to(replace(READER, role=StorageRole("arn:aws-cn:iam::123456789012:role/storage")))
    assert "arn:aws-cn:s3:::bucket/warehouse/orders/*" in vending.sts.calls[0]["Policy"]


def test_credentials_are_handed_out_again_until_half_of_their_life(vending: Vending) -> None:
    first = vending.to()
    vending.clock.seconds += LIFE_SECONDS / 2 - 1
    assert vending.to() is first
    vending.clock.seconds += 1
    assert vending.to().access_key_id == "ASIA2"


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
def test_whatever_changes_the_credentials_gets_its_own(vending: Vending, change: dict[str, Any]) -> None:
    assert vending.to() is not vending.to(replace(READER, **change))
    assert len(vending.sts.calls) == 2


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255)


@settings(deadline=None)
@given(recipient=names, table=names)
@example(recipient="r" * 255, table="t" * 255)
@example(recipient="Zoë (local)", table="日本.é.😀")
def test_a_session_name_is_one_that_sts_takes(recipient: str, table: str) -> None:
    name = replace(READER, recipient=recipient, table=table).session_name
    assert re.fullmatch(r"[A-Za-z0-9_+=,.@-]{2,64}", name)


def test_a_long_session_name_still_tells_who_reads_what() -> None:
    name = replace(READER, recipient="acme-" + "r" * 255, table="s" * 255 + ".retail.orders").session_name
    assert name.startswith("acme-")
    assert name.endswith(".retail.orders")


def longest_prefix() -> int:
    """The policy names it twice."""
    return (MAX_CHARACTERS - len(reading_policy([S3Location("bucket", "p")], partition="aws"))) // 2 + 1


def test_the_longest_policy_that_sts_takes_is_sent_and_a_longer_one_is_not(vending: Vending) -> None:
    prefix = "p" * longest_prefix()
    vending.to(replace(READER, location=S3Location("bucket", prefix)))
    assert MAX_CHARACTERS - 1 <= len(vending.sts.calls[0]["Policy"]) <= MAX_CHARACTERS
    with pytest.raises(UnsupportedOperationError, match="too long"):
        vending.to(replace(READER, location=S3Location("bucket", prefix + "p")))
    assert len(vending.sts.calls) == 1


@pytest.mark.parametrize("code", ["PackedPolicyTooLarge", "MalformedPolicyDocument"])
def test_a_policy_that_sts_refuses_is_the_recipients_400_and_its_cause_is_for_the_log(
    vending: Vending, code: str
) -> None:
    refusal = sts_error(code)
    vending.sts.failures = [refusal]
    with pytest.raises(UnsupportedOperationError) as raised:
        vending.to()
    assert raised.value.__cause__ is refusal
    assert "bucket" not in raised.value.message
    assert READER.location.prefix not in raised.value.message


def test_a_role_that_may_not_be_assumed_is_permission_denied(vending: Vending) -> None:
    vending.sts.failures = [sts_error("AccessDenied")]
    with pytest.raises(TableFilesError, match=r"^permission denied$"):
        vending.to()


def test_a_fault_of_sts_is_not_taken_for_a_refusal_and_not_kept(vending: Vending) -> None:
    vending.sts.failures = [sts_error("Throttling")]
    with pytest.raises(ClientError, match="Throttling"):
        vending.to()
    assert vending.to().access_key_id == "ASIA2"


def test_no_session_is_without_a_policy(vending: Vending) -> None:
    for location in (S3Location("bucket", ""), S3Location("bucket", "*"), READER.location):
        vending.to(replace(READER, location=location))
    assert all(json.loads(call["Policy"])["Statement"] for call in vending.sts.calls)
