"""Temporary table credentials over HTTP, used with an S3 that enforces session policies.

The storage role has full access to S3 here, so every denial comes from the session policy.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pyarrow as pa
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ClientError
from deltalake import DeltaTable

from cli.embedded.ministack import ACCOUNT_ID
from cli.embedded.setup import DATA_BUCKET, STORAGE_ROLE
from tests.integration.conftest import Served
from tests.integration.iam import allow, policy

NAME = "directories"
OTHER_BUCKET = f"{NAME}-other"
ARCHIVE = f"{NAME}/archive"
# Directories of tables, and neighbours that a policy for them could match by mistake.
DIRECTORIES = {
    "t1": "t1",
    "star": "a*b",
    "question": "really?",
    "dollar": "${aws:username}",
    "latin": "é ü",
    "japanese": "日本",
    "emoji": "😀",
}
NEIGHBOURS = ["t", "t10", "axxb", "reallyx", "e u", "日木", "😁", "éxü"]
PLAIN = ["t1", "latin", "japanese", "emoji"]


def key(directory: str, file: str = "_delta_log/0.json") -> str:
    return f"{NAME}/{directory}/{file}"


@dataclass(frozen=True)
class Provider:
    served: Served
    token: str

    def client(self, service: str, credentials: dict[str, str] | None = None) -> Any:
        arguments: dict[str, Any] = dict(self.served.client_arguments)
        if credentials:
            arguments |= {
                "aws_access_key_id": credentials["accessKeyId"],
                "aws_secret_access_key": credentials["secretAccessKey"],
                "aws_session_token": credentials["sessionToken"],
            }
        return boto3.client(service, **arguments, config=Config(retries={"total_max_attempts": 1}))

    def call(self, table: str, body: object = None, *, token: str | None = None) -> requests.Response:
        path = f"/shares/{NAME}/schemas/s/tables/{table}/temporary-table-credentials"
        return self.served.server.call("POST", path, json=body, token=token or self.token)

    def get(self, path: str) -> requests.Response:
        return self.served.server.call("GET", f"/shares/{NAME}{path}", token=self.token)

    def vend(self, table: str, body: object = None) -> dict[str, Any]:
        response = self.call(table, body)
        assert response.status_code == 200, response.text
        credentials: dict[str, Any] = response.json()["credentials"]
        return credentials

    def reader(self, table: str, body: object = None) -> Any:
        """Returns an S3 client with the credentials of a recipient."""
        return self.client("s3", self.vend(table, body)["awsTempCredentials"])


@pytest.fixture(scope="module")
def provider(served: Served) -> Iterator[Provider]:
    admin = served.admin()
    admin.put_share(NAME)
    admin.put_schema(NAME, "s")
    admin.put_recipient(NAME)
    admin.grant(NAME, NAME)
    provider = Provider(served, admin.issue_token(NAME, lifetime_seconds=3600)[1])
    add_tables(provider)
    s3, iam = provider.client("s3"), provider.client("iam")
    s3.create_bucket(Bucket=OTHER_BUCKET)
    for directory in (*DIRECTORIES.values(), *NEIGHBOURS, "archive"):
        s3.put_object(Bucket=DATA_BUCKET, Key=key(directory), Body=directory.encode())
    s3.put_object(Bucket=OTHER_BUCKET, Key=key("t1"), Body=b"other")
    wide = {"RoleName": STORAGE_ROLE, "PolicyName": NAME}
    iam.put_role_policy(**wide, PolicyDocument=policy(allow("s3:*", "*"), allow("kms:*", "*")))
    yield provider
    iam.delete_role_policy(**wide)


def add_tables(provider: Provider) -> None:
    admin = provider.served.admin()

    def add(name: str, location: str, *, access_modes: tuple[str, ...] = ("url", "dir"), **more: Any) -> None:
        content = {"history_shared": True, "access_modes": access_modes} | more
        admin.put_table(NAME, "s", name, location=location, **content)

    for table, directory in DIRECTORIES.items():
        auxiliary = [f"s3a://{DATA_BUCKET}/{ARCHIVE}"] if table == "t1" else []
        add(table, f"s3://{DATA_BUCKET}/{NAME}/{directory}", auxiliary_locations=auxiliary)
    kms_key = provider.client("kms").create_key()["KeyMetadata"]
    add("encrypted", f"s3://{DATA_BUCKET}/{NAME}/t1", kms_key_arn=kms_key["Arn"])
    people = admin.table("Sales", "Core", "People").location
    add("people", people)
    add("by-url", people, access_modes=("url",))
    add("no-history", people, history_shared=False)


@contextlib.contextmanager
def denied() -> Iterator[None]:
    with pytest.raises(ClientError) as raised:
        yield
    assert raised.value.response["Error"]["Code"] in ("AccessDenied", "403")


def put(s3: Any, bucket: str, name: str) -> None:
    s3.put_object(Bucket=bucket, Key=name, Body=b"")


def test_the_role_itself_may_do_all_that_is_denied_below(provider: Provider) -> None:
    role = f"arn:aws:iam::{ACCOUNT_ID}:role/{STORAGE_ROLE}"
    session = provider.client("sts").assume_role(RoleArn=role, RoleSessionName="canary")["Credentials"]
    names = {"accessKeyId": "AccessKeyId", "secretAccessKey": "SecretAccessKey", "sessionToken": "SessionToken"}
    s3 = provider.client("s3", {ours: session[theirs] for ours, theirs in names.items()})
    put(s3, OTHER_BUCKET, "canary")
    s3.delete_object(Bucket=OTHER_BUCKET, Key="canary")
    s3.list_objects_v2(Bucket=DATA_BUCKET)
    s3.get_object(Bucket=DATA_BUCKET, Key=key("t10"))


class TestWhatCredentialsOpen:
    @pytest.mark.parametrize("table", PLAIN)
    def test_files_of_the_table_are_read_and_listed(self, provider: Provider, table: str) -> None:
        s3, directory = provider.reader(table), DIRECTORIES[table]
        assert s3.get_object(Bucket=DATA_BUCKET, Key=key(directory))["Body"].read() == directory.encode()
        for prefix in (key(directory, ""), key(directory, "_delta_log/")):
            listed = s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix=prefix)["Contents"]
            assert [entry["Key"] for entry in listed] == [key(directory)]

    @pytest.mark.xfail(raises=ClientError, reason="the embedded AWS does not support IAM's ${*}, ${?} and ${$}")
    @pytest.mark.parametrize("table", ["star", "question", "dollar"])
    def test_files_of_a_table_with_a_glob_in_its_name_are_read(self, provider: Provider, table: str) -> None:
        """tests/unit/storage/test_policy.py checks that the escapes follow IAM's rules."""
        provider.reader(table).get_object(Bucket=DATA_BUCKET, Key=key(DIRECTORIES[table]))

    @pytest.mark.parametrize("table", DIRECTORIES)
    def test_files_of_other_directories_are_denied(self, provider: Provider, table: str) -> None:
        s3 = provider.reader(table)
        others = {*DIRECTORIES.values(), *NEIGHBOURS, "archive"} - {DIRECTORIES[table]}
        for directory in others:
            with denied():
                s3.get_object(Bucket=DATA_BUCKET, Key=key(directory))

    def test_files_of_another_bucket_are_denied(self, provider: Provider) -> None:
        s3 = provider.reader("t1")
        with denied():
            s3.get_object(Bucket=OTHER_BUCKET, Key=key("t1"))
        with denied():
            s3.list_objects_v2(Bucket=OTHER_BUCKET, Prefix=key("t1", ""))

    @pytest.mark.parametrize("prefix", ["", NAME, f"{NAME}/", f"{NAME}/t1", f"{NAME}/t10/", f"{NAME}/archive/"])
    def test_listing_outside_the_table_is_denied(self, provider: Provider, prefix: str) -> None:
        with denied():
            provider.reader("t1").list_objects_v2(Bucket=DATA_BUCKET, Prefix=prefix)

    def test_writing_and_deleting_are_denied(self, provider: Provider) -> None:
        s3 = provider.reader("t1")
        with denied():
            put(s3, DATA_BUCKET, key("t1", "new"))
        with denied():
            put(s3, DATA_BUCKET, key("t1"))
        with denied():
            s3.delete_object(Bucket=DATA_BUCKET, Key=key("t1"))
        with denied():
            s3.list_buckets()

    def test_other_services_are_denied(self, provider: Provider) -> None:
        credentials = provider.vend("t1")["awsTempCredentials"]
        with pytest.raises(ClientError, match="AccessDenied"):
            provider.client("dynamodb", credentials).list_tables()

    def test_the_kms_key_of_a_table_decrypts_only_through_s3(self, provider: Provider) -> None:
        kms = provider.client("kms")
        arn = provider.served.admin().table(NAME, "s", "encrypted").kms_key_arn
        secret = kms.encrypt(KeyId=arn, Plaintext=b"another service's")["CiphertextBlob"]
        credentials = provider.vend("encrypted")["awsTempCredentials"]
        provider.client("s3", credentials).get_object(Bucket=DATA_BUCKET, Key=key("t1"))
        with pytest.raises(ClientError, match="AccessDenied"):
            provider.client("kms", credentials).decrypt(CiphertextBlob=secret, KeyId=arn)

    def test_credentials_for_a_subdirectory_open_only_that(self, provider: Provider) -> None:
        location = f"s3://{DATA_BUCKET}/{key('t1', '_delta_log')}"
        s3 = provider.reader("t1", {"location": location})
        s3.get_object(Bucket=DATA_BUCKET, Key=key("t1"))
        with denied():
            s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix=key("t1", ""))

    def test_credentials_for_an_auxiliary_location_do_not_open_the_table_root(self, provider: Provider) -> None:
        s3 = provider.reader("t1", {"location": f"s3a://{DATA_BUCKET}/{ARCHIVE}"})
        assert s3.get_object(Bucket=DATA_BUCKET, Key=key("archive"))["Body"].read() == b"archive"
        with denied():
            s3.get_object(Bucket=DATA_BUCKET, Key=key("t1"))

    def test_deltalake_reads_the_whole_table(self, provider: Provider) -> None:
        credentials = provider.vend("people")
        keys, arguments = credentials["awsTempCredentials"], provider.served.client_arguments
        options = {
            "AWS_ACCESS_KEY_ID": keys["accessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["secretAccessKey"],
            "AWS_SESSION_TOKEN": keys["sessionToken"],
            "AWS_REGION": arguments["region_name"],
            "AWS_ENDPOINT_URL": arguments["endpoint_url"],
            "AWS_ALLOW_HTTP": "true",
        }
        table = DeltaTable(credentials["location"], storage_options=options)
        assert table.version() == 2
        assert pa.table(table.to_pyarrow_table()).sort_by("id").equals(provider.served.people)
        assert DeltaTable(credentials["location"], version=0, storage_options=options).to_pyarrow_table().num_rows == 3


class TestAnswers:
    def test_the_response_has_the_location_the_keys_and_their_expiry(self, provider: Provider) -> None:
        asked_at = time.time()
        response = provider.call("t1", {})
        assert response.headers["Content-Type"] == "application/json; charset=utf-8"
        assert response.headers["Cache-Control"] == "no-store"
        credentials = response.json()["credentials"]
        assert credentials.keys() == {"location", "awsTempCredentials", "expirationTime"}
        assert credentials["location"] == f"s3://{DATA_BUCKET}/{NAME}/t1"
        assert asked_at + 1790 < credentials["expirationTime"] / 1000 < time.time() + 3610

    def test_credentials_are_cached_per_recipient(self, provider: Provider) -> None:
        admin, other = provider.served.admin(), f"{NAME}-2"
        admin.put_recipient(other)
        admin.grant(other, NAME)
        token = admin.issue_token(other, lifetime_seconds=3600)[1]
        first = provider.vend("t1")
        assert provider.vend("t1", {"location": None}) == first
        others = provider.call("t1", token=token).json()["credentials"]["awsTempCredentials"]
        assert others["accessKeyId"] != first["awsTempCredentials"]["accessKeyId"]

    def test_the_session_is_named_after_the_recipient_and_the_table(self, provider: Provider) -> None:
        sts = provider.client("sts", provider.vend("t1")["awsTempCredentials"])
        assert sts.get_caller_identity()["Arn"].endswith(f"/{NAME}@{f'{NAME}.s.t1'[-34:]}")

    @pytest.mark.parametrize(
        ("table", "reason"),
        [("by-url", "directory access is not enabled"), ("no-history", "history sharing is not enabled")],
    )
    def test_the_error_explains_why_a_directory_is_not_shared(
        self, provider: Provider, table: str, reason: str
    ) -> None:
        response = provider.call(table)
        message = f"Temporary table credentials are not supported because {reason} on table: {NAME}.s.{table}"
        assert (response.status_code, response.json()) == (
            400,
            {"errorCode": "INVALID_PARAMETER_VALUE", "message": message},
        )

    @pytest.mark.parametrize("location", [f"s3://{DATA_BUCKET}/{NAME}/t10", f"s3://{OTHER_BUCKET}/t1", "x", ""])
    def test_a_location_outside_the_table_is_rejected(self, provider: Provider, location: str) -> None:
        response = provider.call("t1", {"location": location})
        message = "The requested location must be the same as or under this table's configured storage location."
        assert (response.status_code, response.json()) == (
            400,
            {"errorCode": "INVALID_PARAMETER_VALUE", "message": message},
        )

    def test_a_location_too_long_for_a_policy_is_rejected(self, provider: Provider) -> None:
        response = provider.call("t1", {"location": f"s3://{DATA_BUCKET}/{NAME}/t1/{'x' * 1000}"})
        assert (response.status_code, response.json()["errorCode"]) == (400, "UNSUPPORTED_OPERATION")

    def test_authentication_is_checked_before_the_body_and_the_body_before_the_table(self, provider: Provider) -> None:
        path = f"/shares/{NAME}/schemas/s/tables/absent/temporary-table-credentials"
        call = provider.served.server.call
        assert call("POST", path, token=None, data=b"{").status_code == 401
        malformed = call("POST", path, token=provider.token, data=b"{")
        assert (malformed.status_code, malformed.json()["errorCode"]) == (400, "MALFORMED_REQUEST")
        assert call("POST", path, token=provider.token).status_code == 404
        assert provider.call("t1", token=provider.served.server.token).status_code == 404, "not granted"

    def test_no_secret_is_logged(self, provider: Provider) -> None:
        keys = provider.vend("t1")["awsTempCredentials"]
        log = provider.served.server.log.read_text()
        assert '"route":"temporary_table_credentials"' in log.replace('": "', '":"')
        assert not any(secret in log for secret in keys.values())


class TestAdvertising:
    def test_listings_and_the_table_show_the_directory_if_it_is_shared(self, provider: Provider) -> None:
        expected = {
            "location": f"s3://{DATA_BUCKET}/{NAME}/t1",
            "auxiliaryLocations": [f"s3a://{DATA_BUCKET}/{ARCHIVE}"],
            "accessModes": ["url", "dir"],
        }
        listings = [provider.get(path).json()["items"] for path in ("/schemas/s/tables", "/all-tables")]
        for listing in listings:
            (table,) = (item for item in listing if item["name"] == "t1")
            assert expected.items() <= table.items()
            for item in listing:
                assert ("location" in item) == (item["name"] not in ("by-url", "no-history"))
        table = provider.get("/schemas/s/tables/t1").json()
        assert table.pop("format") == "delta"
        assert table in listings[0]

    def test_metadata_shows_the_directory_if_it_is_shared(self, provider: Provider) -> None:
        shown = {}
        for table in ("people", "by-url"):
            lines = provider.get(f"/schemas/s/tables/{table}/metadata").text.splitlines()
            shown[table] = json.loads(lines[1])["metaData"]
        location = provider.vend("people")["location"]
        assert (shown["people"]["location"], shown["people"]["accessModes"]) == (location, ["url", "dir"])
        assert not {"location", "accessModes", "auxiliaryLocations"} & shown["by-url"].keys()
