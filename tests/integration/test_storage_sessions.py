"""Storage sessions with an S3 and an STS that check signatures, trust, external ids and policies."""

import urllib.request
import uuid
from dataclasses import dataclass, replace

import botocore.session
import deltalake
import pytest
from arro3.core import Array, DataType, Table

from cli.embedded.ministack import EmbeddedAws
from core.delta.cross_check import storage_options
from core.errors import TableFilesError
from core.settings import Settings
from core.storage.location import S3Location
from core.storage.session import Storage, StorageSession
from tests.integration.iam import allow, client, create_role, create_user

NAME = f"sessions-{uuid.uuid4().hex[:8]}"
TRIPS = S3Location(NAME, "warehouse/trips")


@dataclass(frozen=True)
class Server:
    settings: Settings
    session: botocore.session.Session

    def open(self, *, role_arn: str | None = None) -> StorageSession:
        return Storage.connect(self.settings, self.session).open(TRIPS, role_arn=role_arn)


@pytest.fixture(scope="module")
def server(aws: EmbeddedAws) -> Server:
    """A server whose user may assume one role. The role can read one table and requires an external id."""
    client(aws, "s3").create_bucket(Bucket=NAME)
    rows = Table.from_arrays([Array([1, 2, 3], type=DataType.int64())], names=["id"])
    root = {
        "AWS_ACCESS_KEY_ID": aws.access_key_id,
        "AWS_SECRET_ACCESS_KEY": aws.secret_access_key,
        "AWS_REGION": aws.region,
        "AWS_ENDPOINT_URL": aws.endpoint_url,
        "AWS_ALLOW_HTTP": "true",
    }
    deltalake.write_deltalake(TRIPS.uri, rows, storage_options=root)
    user_arn, user = create_user(aws, NAME, allow("sts:AssumeRole", "*"))
    role_arn = create_role(
        aws,
        NAME,
        allow("s3:GetObject", f"arn:aws:s3:::{NAME}/{TRIPS.prefix}/*"),
        allow("s3:ListBucket", f"arn:aws:s3:::{NAME}"),
        trusts=user_arn,
        external_id="acme-7",
    )
    session = botocore.session.Session()
    session.set_credentials(user.access_key_id, user.secret_access_key)
    session.set_config_variable("region", aws.region)
    settings = Settings(
        region=aws.region,
        storage_role_arn=role_arn,
        storage_external_id="acme-7",
        s3_endpoint_url=aws.endpoint_url,
        s3_path_style=True,
    )
    return Server(settings, session)


@pytest.fixture(autouse=True)
def environment(aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like a function: the endpoint from a variable, and credentials that cannot read the table themselves."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOTTHESTORAGEROL")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x" * 40)


def test_deltalake_opens_the_table_and_every_url_opens_its_file(server: Server) -> None:
    storage = server.open()
    table = deltalake.DeltaTable(TRIPS.uri, storage_options=storage_options(storage))
    paths = table.get_add_actions()["path"].to_pylist()
    signer = storage.signer()
    assert paths
    for path in paths:
        with urllib.request.urlopen(signer.sign(TRIPS.key(path)), timeout=60) as answer:
            assert answer.read(4) == b"PAR1"


def test_the_log_is_listed_and_read(server: Server) -> None:
    objects = server.open().objects()
    (commit,) = objects.list(TRIPS.key("_delta_log/"))
    assert commit.key == TRIPS.key("_delta_log/00000000000000000000.json")
    assert len(objects.get(commit.key)) == commit.size


def test_files_outside_the_policy_of_the_role_are_permission_denied(server: Server) -> None:
    with pytest.raises(TableFilesError, match="permission denied"):
        server.open().objects().get("other/file")


def test_a_missing_file_is_reported_as_table_files_missing(server: Server) -> None:
    with pytest.raises(TableFilesError, match="table files missing"):
        server.open().objects().get(TRIPS.key("not-there"))


@pytest.mark.parametrize("external_id", [None, "acme-8"])
def test_a_role_is_not_assumed_without_its_external_id(server: Server, external_id: str | None) -> None:
    without = replace(server, settings=replace(server.settings, storage_external_id=external_id))
    with pytest.raises(TableFilesError, match="permission denied"):
        without.open()


@pytest.mark.parametrize("arn", ["arn:aws:iam::000000000000:role/not-there", "nonsense", "x" * 30])
def test_an_invalid_role_is_permission_denied(server: Server, arn: str) -> None:
    with pytest.raises(TableFilesError, match="permission denied"):
        server.open(role_arn=arn)
