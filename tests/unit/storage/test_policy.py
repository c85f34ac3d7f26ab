"""Session policies, evaluated by IAM's rules: they allow access to the location and nothing else."""

import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.storage.location import S3Location
from core.storage.policy import reading_policy

KEY_ARN = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
# From IAM's documentation: two wildcards, and three variables that each mean one literal character.
IAM_PATTERN = re.compile(r"\$\{([*?$])\}|(\*)|(\?)|(.)", re.DOTALL)


def statements(policy: str) -> dict[str, dict[str, Any]]:
    document = json.loads(policy)
    assert document["Version"] == "2012-10-17", "older policy versions have no variables"
    return {statement["Action"]: statement for statement in document["Statement"]}


def matches(pattern: str, text: str) -> bool:
    """Matches like IAM's Resource and StringLike."""

    def translated(part: re.Match[str]) -> str:
        variable, many, one, literal = part.groups()
        return ".*" if many else "." if one else re.escape(variable or literal)

    return re.fullmatch(IAM_PATTERN.sub(translated, pattern), text, re.DOTALL) is not None


def may_get(policy: str, location: S3Location, key: str) -> bool:
    return matches(statements(policy)["s3:GetObject"]["Resource"], f"arn:aws:s3:::{location.bucket}/{key}")


def may_list(policy: str, prefix: str | None) -> bool:
    condition = statements(policy)["s3:ListBucket"].get("Condition")
    if condition is None:
        return True
    return prefix is not None and matches(condition["StringLike"]["s3:prefix"], prefix)


def test_a_policy_allows_only_reading_and_listing_its_location() -> None:
    policy = reading_policy([S3Location("bucket", "warehouse/t1")], partition="aws")
    assert json.loads(policy)["Statement"] == [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/warehouse/t1/*"},
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": "arn:aws:s3:::bucket",
            "Condition": {"StringLike": {"s3:prefix": "warehouse/t1/*"}},
        },
    ]


def test_a_policy_for_no_location_denies_everything() -> None:
    policy = reading_policy([], partition="aws", kms_key_arn=KEY_ARN)
    assert json.loads(policy)["Statement"] == [{"Effect": "Deny", "Action": "*", "Resource": "*"}]


def test_a_table_at_the_root_of_a_bucket_covers_the_bucket() -> None:
    location = S3Location("bucket", "")
    policy = reading_policy([location], partition="aws")
    assert statements(policy)["s3:GetObject"]["Resource"] == "arn:aws:s3:::bucket/*"
    assert may_list(policy, None), "a listing of the whole bucket has no prefix"


@pytest.mark.parametrize("prefix", [None, "", "t", "t1", "t10/", "t10/_delta_log/", "other/"])
def test_a_listing_that_could_show_a_sibling_is_denied(prefix: str | None) -> None:
    assert not may_list(reading_policy([S3Location("bucket", "t1")], partition="aws"), prefix)


@pytest.mark.parametrize("prefix", ["t1/", "t1/_delta_log/", "t1/day=1/"])
def test_a_listing_inside_the_location_is_allowed(prefix: str) -> None:
    assert may_list(reading_policy([S3Location("bucket", "t1")], partition="aws"), prefix)


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_resources_are_in_the_given_partition(partition: str) -> None:
    policy = statements(reading_policy([S3Location("bucket", "t")], partition=partition))
    assert all(statement["Resource"].startswith(f"arn:{partition}:s3:::bucket") for statement in policy.values())


def test_a_kms_key_decrypts_only_through_s3() -> None:
    location = [S3Location("bucket", "t")]
    assert "kms:Decrypt" not in reading_policy(location, partition="aws")
    assert statements(reading_policy(location, partition="aws", kms_key_arn=KEY_ARN))["kms:Decrypt"] == {
        "Effect": "Allow",
        "Action": "kms:Decrypt",
        "Resource": KEY_ARN,
        "Condition": {"StringLike": {"kms:ViaService": "s3.*"}},
    }


@pytest.mark.parametrize(
    ("prefix", "written"),
    [("a*b", "a${*}b/*"), ("really?", "really${?}/*"), ("${aws:username}", "${$}{aws:username}/*"), ("$", "${$}/*")],
)
def test_iams_special_characters_are_escaped(prefix: str, written: str) -> None:
    policy = statements(reading_policy([S3Location("bucket", prefix)], partition="aws"))
    assert policy["s3:GetObject"]["Resource"] == f"arn:aws:s3:::bucket/{written}"
    assert policy["s3:ListBucket"]["Condition"]["StringLike"]["s3:prefix"] == written


letters = st.characters(exclude_categories=["Cs"])
texts = st.text(st.sampled_from("ab/*?${}é日😀\x85 \\\"'.%") | letters, max_size=12)


@settings(deadline=None)
@given(prefix=texts.map(lambda text: text.strip("/")), other=texts, below=texts)
@example(prefix="t1", other="t10/x", below="x")
@example(prefix="a*b", other="axb/x", below="x")
@example(prefix="日本", other="日木/x", below="x")
def test_a_policy_for_any_prefix_allows_exactly_the_objects_below_it(prefix: str, other: str, below: str) -> None:
    location = S3Location("bucket", prefix)
    policy = reading_policy([location], partition="aws")
    inside = location.key("")
    assert re.fullmatch(r"[\x20-\x7e]+", policy), "STS accepts U+0020 to U+00FF; ASCII is safe for proxies too"
    assert may_get(policy, location, inside + below)
    assert may_list(policy, inside + below)
    assert may_get(policy, location, other) == other.startswith(inside)
    assert may_list(policy, other) == other.startswith(inside)
