"""The published client reads a shallow clone in S3 if the location of its files is registered."""

import io
import json
from pathlib import Path

import boto3
import delta_sharing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from cli.embedded.setup import DATA_BUCKET
from tests.integration.conftest import Served

pytestmark = pytest.mark.filterwarnings("ignore")  # raised by the client

BASE, CLONE = "clones/base", "clones/clone"
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


@pytest.fixture(scope="module")
def profile(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile of a recipient with two tables for one clone: only `clone` has an auxiliary location."""
    s3 = boto3.client("s3", **served.client_arguments)
    sizes = []
    for key, numbers in ((f"{BASE}/old file", [1, 2]), (f"{CLONE}/new", [3])):
        content = io.BytesIO()
        pq.write_table(pa.table({"id": pa.array(numbers, pa.int64())}), content)
        s3.put_object(Bucket=DATA_BUCKET, Key=key, Body=content.getvalue())
        sizes.append(len(content.getvalue()))
    metadata = {
        "id": "11111111-2222-3333-4444-555555555555",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(SCHEMA),
        "partitionColumns": [],
        "configuration": {},
    }
    common = {"partitionValues": {}, "modificationTime": 1, "dataChange": True}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
        {"add": {"path": f"s3a://{DATA_BUCKET}/{BASE}/old%20file", "size": sizes[0], **common}},
        {"add": {"path": "new", "size": sizes[1], **common}},
    ]
    log = "\n".join(map(json.dumps, actions)).encode()
    s3.put_object(Bucket=DATA_BUCKET, Key=f"{CLONE}/_delta_log/{0:020d}.json", Body=log)
    admin, location = served.admin(), f"s3://{DATA_BUCKET}/{CLONE}"
    auxiliary = (f"s3://{DATA_BUCKET}/{BASE}/",)
    admin.put_share("clones")
    admin.put_schema("clones", "s")
    admin.put_table("clones", "s", "clone", location=location, auxiliary_locations=auxiliary)
    admin.put_table("clones", "s", "lost_clone", location=location)
    admin.put_recipient("cloner")
    admin.grant("cloner", "clones")
    _, token = admin.issue_token("cloner", lifetime_seconds=3600)
    profile = tmp_path_factory.mktemp("clones") / "profile.share"
    document = {"shareCredentialsVersion": 1, "endpoint": served.server.endpoint, "bearerToken": token}
    profile.write_text(json.dumps(document))
    return profile


@pytest.mark.parametrize("delta", [None, True, False])
def test_files_in_an_auxiliary_location_are_read(profile: Path, delta: bool | None) -> None:
    frame = delta_sharing.load_as_pandas(f"{profile}#clones.s.clone", use_delta_format=delta)
    assert sorted(frame["id"]) == [1, 2, 3]


def test_a_clone_without_an_auxiliary_location_is_refused(profile: Path) -> None:
    with pytest.raises(requests.HTTPError) as caught:
        delta_sharing.load_as_pandas(f"{profile}#clones.s.lost_clone")
    assert caught.value.response.status_code == 400
    message = caught.value.response.json()["message"]
    assert message.startswith("Table contains absolute paths and cannot be shared through delta sharing")
    assert DATA_BUCKET not in message
