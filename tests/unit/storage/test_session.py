import datetime as dt
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import botocore.session
import pytest
from moto import mock_aws

from core.delta.cross_check import storage_options
from core.settings import Settings
from core.storage.location import S3Location
from core.storage.roles import SESSION_SECONDS, NoStorageRoleError, StorageRoles
from core.storage.session import MAX_CACHED_CLIENTS, Storage
from tests.unit.storage.fake_sts import Clock, FakeSts

LOCATION = S3Location("bucket", "warehouse/trips")
SETTINGS = Settings(
    region="eu-west-1",
    storage_role_arn="arn:aws:iam::123456789012:role/default",
    storage_external_id="default-id",
)


class FakedStorage:
    """Storage with a fake STS and a clock."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.clock = Clock(1_800_000_000.75)
        self.sts = FakeSts(self.clock)
        roles = StorageRoles(self.sts, now=self.clock)
        self.storage = Storage(roles, settings, botocore.session.Session(), now=self.clock)


def test_a_table_without_a_role_uses_the_servers_role_region_and_external_id() -> None:
    faked = FakedStorage()
    session = faked.storage.open(LOCATION, role_arn=None, external_id=None, region=None)
    assert session.region == "eu-west-1"
    assert faked.sts.calls[0]["RoleArn"] == SETTINGS.storage_role_arn
    assert faked.sts.calls[0]["ExternalId"] == "default-id"


@pytest.mark.parametrize("external_id", [None, "its-own"])
def test_a_tables_own_role_never_sees_the_servers_external_id(external_id: str | None) -> None:
    faked = FakedStorage()
    role_arn = "arn:aws:iam::210987654321:role/theirs"
    session = faked.storage.open(LOCATION, role_arn=role_arn, external_id=external_id, region="eu-north-1")
    assert session.region == "eu-north-1"
    assert faked.sts.calls[0]["RoleArn"] == role_arn
    assert faked.sts.calls[0].get("ExternalId") == external_id


def test_a_missing_role_is_a_400_for_the_recipient_and_its_cause_names_the_setting() -> None:
    faked = FakedStorage(Settings())
    with pytest.raises(NoStorageRoleError, match="contact your share provider") as raised:
        faked.storage.open(LOCATION, role_arn=None, external_id="id-without-role", region=None)
    assert raised.value.status == 400
    assert "SLUICE" not in raised.value.message
    assert "SLUICE_STORAGE_ROLE_ARN" in str(raised.value.__cause__)


@pytest.mark.parametrize(
    ("url_seconds", "credentials_used_for", "expected"),
    [(3600, 0, 3600), (3600, 1000, 2600), (1200, 1000, 1200)],
)
def test_a_url_expires_as_announced_and_never_after_its_credentials(
    url_seconds: int, credentials_used_for: int, expected: int
) -> None:
    faked = FakedStorage(replace(SETTINGS, url_seconds=url_seconds))
    faked.storage.open(LOCATION)
    faked.clock.seconds += credentials_used_for
    session = faked.storage.open(LOCATION)
    query = parse_qs(urlsplit(session.signer().sign("key")).query)
    signed_at = dt.datetime.strptime(query["X-Amz-Date"][0] + "+0000", "%Y%m%dT%H%M%SZ%z")
    assert query["X-Amz-Expires"] == [str(expected)]
    assert session.expires_at_ms == (signed_at.timestamp() + expected) * 1000
    assert session.expires_at_ms <= session.credentials.expires_at * 1000


def test_all_urls_of_a_session_expire_together() -> None:
    faked = FakedStorage()
    session = faked.storage.open(LOCATION)
    before = session.signer().sign("key")
    faked.clock.seconds += 30
    assert session.signer().sign("key") == before


def test_another_bucket_uses_the_same_credentials() -> None:
    session = FakedStorage().storage.open(LOCATION)
    own, other = urlsplit(session.signer().sign("key")), urlsplit(session.signer("archive").sign("key"))
    assert (own.netloc, other.netloc) == ("bucket.s3.eu-west-1.amazonaws.com", "archive.s3.eu-west-1.amazonaws.com")
    shared = ("X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token")
    assert [parse_qs(own.query)[name] for name in shared] == [parse_qs(other.query)[name] for name in shared]


@pytest.mark.parametrize(
    ("endpoint_url", "path_style", "bucket", "expected"),
    [
        (None, False, "bucket", ("https://bucket.s3.eu-west-1.amazonaws.com", "true", "false")),
        (None, True, "bucket", ("https://s3.eu-west-1.amazonaws.com", "false", "false")),
        (None, False, "a.bucket", ("https://s3.eu-west-1.amazonaws.com", "false", "false")),
        ("http://127.0.0.1:9000/", True, "bucket", ("http://127.0.0.1:9000", "false", "true")),
        ("https://minio.example", False, "bucket", ("https://bucket.minio.example", "true", "false")),
    ],
)
def test_deltalake_uses_the_same_endpoint_as_the_urls(
    endpoint_url: str | None, path_style: bool, bucket: str, expected: tuple[str, str, str]
) -> None:
    faked = FakedStorage(replace(SETTINGS, s3_endpoint_url=endpoint_url, s3_path_style=path_style))
    session = faked.storage.open(S3Location(bucket, "trips"))
    options = storage_options(session)
    assert session.signer().sign("key").startswith(options["AWS_ENDPOINT_URL"] + "/")
    assert {name: value for name, value in options.items() if name.startswith("AWS_")} == {
        "AWS_ACCESS_KEY_ID": "ASIA1",
        "AWS_SECRET_ACCESS_KEY": "the-secret",
        "AWS_SESSION_TOKEN": "the-token",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": expected[0],
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": expected[1],
        "AWS_ALLOW_HTTP": expected[2],
    }


@mock_aws
def test_objects_are_read_from_the_tables_bucket() -> None:
    session = FakedStorage().storage.open(LOCATION)
    session._client().create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    session._client().put_object(Bucket="bucket", Key="key", Body=b"bytes")
    assert session.objects().get("key") == b"bytes"


def test_a_client_is_reused_for_the_same_credentials_and_region() -> None:
    faked = FakedStorage()
    first = faked.storage.open(LOCATION)._client()
    assert faked.storage.open(S3Location("other", ""))._client() is first
    assert faked.storage.open(LOCATION, region="eu-north-1")._client() is not first
    faked.clock.seconds += SESSION_SECONDS
    assert faked.storage.open(LOCATION)._client() is not first


def test_the_oldest_client_is_evicted() -> None:
    faked = FakedStorage()
    regions = [f"eu-test-{number}" for number in range(MAX_CACHED_CLIENTS + 1)]
    clients = [faked.storage.open(LOCATION, region=region)._client() for region in regions]
    assert faked.storage.open(LOCATION, region=regions[-1])._client() is clients[-1]
    assert faked.storage.open(LOCATION, region=regions[0])._client() is not clients[0]


def test_the_repr_of_a_session_hides_secrets() -> None:
    assert "the-" not in repr(FakedStorage().storage.open(LOCATION))
