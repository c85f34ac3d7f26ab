"""Canaries: requests that the embedded AWS must refuse, each with a similar request that it must allow.

Security tests prove something only if the emulator enforces signatures and policies. These tests fail if it stops
enforcing them, or refuses everything. They run as IAM users and roles, because the root key is not checked.
"""

import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli.embedded.ministack import EmbeddedAws
from core.storage.presign import UrlSigner
from core.storage.roles import Credentials
from tests.integration.iam import FAR_AWAY, allow, client, create_role, create_user, policy

NAME = f"canary-{uuid.uuid4().hex[:8]}"
# Longer than any delay on a busy machine, shorter than the life of the credentials.
URL_SECONDS = 600
ODD_KEYS = [
    "table/plain.parquet",
    "table/day=2024-01-01/part 1.parquet",
    "table/100%/%20.parquet",
    "table/a+b&c=d;e,f:g@h!i'(j)*k",
    "table/q?x=1#f",
    "table/日本/é/😀.parquet",
    "table/~tilde/$dollar/[x]{y}|z^",
    "table/" + "long/" * 180 + "x",
]


@dataclass(frozen=True)
class Account:
    """A bucket and a DynamoDB table, a user that may assume the roles, and a user without permissions."""

    aws: EmbeddedAws
    user: Credentials
    nobody: Credentials
    reader_arn: str
    writer_arn: str

    def client(self, service: str, credentials: Credentials) -> Any:
        return client(self.aws, service, credentials)

    def assume(self, role_arn: str, **more: str) -> Credentials:
        answer = self.client("sts", self.user).assume_role(RoleArn=role_arn, RoleSessionName="canary", **more)
        keys = answer["Credentials"]
        return Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], FAR_AWAY)

    def url(self, credentials: Credentials, key: str = "table/a", *, signed_at: float | None = None) -> str:
        signer = UrlSigner(
            credentials,
            bucket=NAME,
            region=self.aws.region,
            endpoint_url=self.aws.endpoint_url,
            path_style=True,
            signed_at=time.time() if signed_at is None else signed_at,
            expires_in=URL_SECONDS,
        )
        return signer.sign(key)


@pytest.fixture(scope="module")
def account(aws: EmbeddedAws) -> Account:
    s3 = client(aws, "s3")
    s3.create_bucket(Bucket=NAME)
    for key in ("table/a", "table/b", "other/a"):
        s3.put_object(Bucket=NAME, Key=key, Body=key.encode())
    table = client(aws, "dynamodb").create_table(
        TableName=NAME,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    bucket_arn = f"arn:aws:s3:::{NAME}"
    may_assume = allow("sts:AssumeRole", f"arn:aws:iam::*:role/{NAME}-*")
    may_get_items = allow("dynamodb:GetItem", table["TableDescription"]["TableArn"])
    user_arn, user = create_user(aws, NAME, may_assume, may_get_items)
    _, nobody = create_user(aws, f"{NAME}-nobody")
    reader_arn = create_role(
        aws,
        f"{NAME}-reader",
        allow("s3:GetObject", f"{bucket_arn}/table/*"),
        allow("s3:ListBucket", bucket_arn, Condition={"StringLike": {"s3:prefix": "table/*"}}),
        trusts=user_arn,
    )
    may_put = allow("s3:PutObject", f"{bucket_arn}/table/*")
    writer_arn = create_role(aws, f"{NAME}-writer", may_put, trusts=user_arn)
    return Account(aws, user, nobody, reader_arn, writer_arn)


@pytest.fixture(scope="module")
def reader(account: Account) -> Credentials:
    return account.assume(account.reader_arn)


def fetch(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as raised:
        call(**arguments)
    return str(raised.value.response["Error"]["Code"])


def test_a_signed_url_opens(account: Account, reader: Credentials) -> None:
    assert fetch(account.url(reader)) == (200, b"table/a")


def test_a_url_altered_to_name_another_object_is_refused(account: Account, reader: Credentials) -> None:
    altered = account.url(reader, "table/a").replace("/table/a?", "/table/b?")
    status, answer = fetch(altered)
    assert (status, b"SignatureDoesNotMatch" in answer) == (403, True)
    assert fetch(account.url(reader, "table/b")) == (200, b"table/b")


def test_a_url_altered_to_expire_later_is_refused(account: Account, reader: Credentials) -> None:
    url = account.url(reader)
    assert fetch(url)[0] == 200
    assert fetch(url.replace(f"X-Amz-Expires={URL_SECONDS}&", "X-Amz-Expires=3600&"))[0] == 403


def test_an_expired_url_is_refused(account: Account, reader: Credentials) -> None:
    now = time.time()
    assert fetch(account.url(reader, signed_at=now - URL_SECONDS / 2))[0] == 200
    assert fetch(account.url(reader, signed_at=now - URL_SECONDS - 2))[0] == 403


def test_a_url_signed_with_a_wrong_secret_is_refused(account: Account, reader: Credentials) -> None:
    assert fetch(account.url(reader))[0] == 200
    assert fetch(account.url(replace(reader, secret_access_key="x" * 40)))[0] == 403


def test_a_request_signed_with_a_wrong_secret_is_refused(account: Account, reader: Credentials) -> None:
    request = {"Bucket": NAME, "Key": "table/a"}
    assert account.client("s3", reader).get_object(**request)["Body"].read() == b"table/a"
    impostor = account.client("s3", replace(reader, secret_access_key="x" * 40))
    assert refused(impostor.get_object, **request) == "SignatureDoesNotMatch"


def test_a_url_without_or_with_another_session_token_is_refused(account: Account, reader: Credentials) -> None:
    other = account.assume(account.writer_arn)
    assert fetch(account.url(reader))[0] == 200
    assert fetch(account.url(replace(reader, session_token=None)))[0] in (400, 403)
    assert fetch(account.url(replace(reader, session_token=other.session_token)))[0] in (400, 403)


def test_a_url_of_a_key_outside_the_roles_policy_is_refused(account: Account, reader: Credentials) -> None:
    assert fetch(account.url(reader, "table/a"))[0] == 200
    status, answer = fetch(account.url(reader, "other/a"))
    assert (status, b"AccessDenied" in answer) == (403, True)


def test_a_url_without_a_signature_is_refused(account: Account, reader: Credentials) -> None:
    url = account.url(reader)
    assert fetch(url)[0] == 200
    assert fetch(url.partition("?")[0])[0] == 403


def test_a_role_that_only_reads_cannot_put(account: Account, reader: Credentials) -> None:
    new_object = {"Bucket": NAME, "Key": "table/new", "Body": b""}
    assert refused(account.client("s3", reader).put_object, **new_object) == "AccessDenied"
    account.client("s3", account.assume(account.writer_arn)).put_object(**new_object)


def test_a_listing_outside_the_prefix_condition_is_refused(account: Account, reader: Credentials) -> None:
    list_objects = account.client("s3", reader).list_objects_v2
    assert list_objects(Bucket=NAME, Prefix="table/")["KeyCount"] >= 2
    assert refused(list_objects, Bucket=NAME, Prefix="other/") == "AccessDenied"
    assert refused(list_objects, Bucket=NAME) == "AccessDenied"


def test_a_session_policy_restricts_its_role(account: Account) -> None:
    only_a = policy(allow("s3:GetObject", f"arn:aws:s3:::{NAME}/table/a"))
    restricted = account.assume(account.reader_arn, Policy=only_a)
    assert fetch(account.url(restricted, "table/a"))[0] == 200
    assert fetch(account.url(restricted, "table/b"))[0] == 403


def test_a_session_policy_adds_nothing_to_its_role(account: Account) -> None:
    widened = account.assume(account.reader_arn, Policy=policy(allow("s3:*", "*")))
    assert fetch(account.url(widened, "table/a"))[0] == 200
    assert fetch(account.url(widened, "other/a"))[0] == 403


def test_an_unknown_role_cannot_be_assumed(account: Account) -> None:
    account.assume(account.reader_arn)
    assert refused(account.assume, role_arn=account.reader_arn + "-not") == "AccessDenied"


def test_a_user_whom_the_role_does_not_trust_cannot_assume_it(account: Account) -> None:
    request = {"RoleArn": account.reader_arn, "RoleSessionName": "canary"}
    assert account.client("sts", account.user).assume_role(**request)["Credentials"]
    assert refused(account.client("sts", account.nobody).assume_role, **request) == "AccessDenied"


def test_a_user_without_permission_cannot_read_dynamodb(account: Account) -> None:
    item = {"TableName": NAME, "Key": {"id": {"S": "x"}}}
    assert "Item" not in account.client("dynamodb", account.user).get_item(**item)
    assert refused(account.client("dynamodb", account.nobody).get_item, **item) == "AccessDeniedException"
    assert refused(account.client("dynamodb", account.user).put_item, TableName=NAME, Item=item["Key"]) == (
        "AccessDeniedException"
    )


@pytest.fixture(scope="module")
def odd_objects(account: Account) -> None:
    s3 = account.client("s3", account.assume(account.writer_arn))
    for key in ODD_KEYS:
        s3.put_object(Bucket=NAME, Key=key, Body=key.encode())


@pytest.mark.usefixtures("odd_objects")
@pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: key[:24])
def test_a_signed_url_of_any_key_opens_whole_and_in_ranges(account: Account, reader: Credentials, key: str) -> None:
    url = account.url(reader, key)
    assert fetch(url) == (200, key.encode())
    assert fetch(url, Range="bytes=2-5") == (206, key.encode()[2:6])
