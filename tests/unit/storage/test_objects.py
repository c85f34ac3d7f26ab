import datetime as dt
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws

from core.errors import TableFilesError
from core.storage.objects import ObjectInfo, ObjectReader

BUCKET = "bucket"


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = s3_client()
        client.create_bucket(Bucket=BUCKET)
        yield client


def s3_client() -> Any:
    session = botocore.session.Session()
    session.set_credentials("key", "secret")
    return session.create_client("s3", region_name="us-east-1")


def test_get_reads_the_whole_object(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="a b/é", Body=b"bytes")
    assert ObjectReader(s3, BUCKET).get("a b/é") == b"bytes"


def test_size_does_not_read_the_object(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="a b/é", Body=b"bytes")
    assert ObjectReader(s3, BUCKET).size("a b/é") == 5
    with pytest.raises(TableFilesError, match="table files missing"):
        ObjectReader(s3, BUCKET).size("absent")


def test_a_listing_has_the_objects_with_the_prefix_in_key_order(s3: Any) -> None:
    for key in ("log/2", "log/1 %", "other/1", "log/3"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    now_ms = dt.datetime.now(dt.UTC).timestamp() * 1000
    found = list(ObjectReader(s3, BUCKET).list("log/"))
    assert [(entry.key, entry.size) for entry in found] == [("log/1 %", 7), ("log/2", 5), ("log/3", 5)]
    assert all(now_ms - 10_000 < entry.last_modified_ms <= now_ms + 1000 for entry in found)


def test_a_listing_starts_after_a_key(s3: Any) -> None:
    for key in ("log/1", "log/2", "log/3"):
        s3.put_object(Bucket=BUCKET, Key=key)
    assert [entry.key for entry in ObjectReader(s3, BUCKET).list("log/", start_after="log/1")] == [
        "log/2",
        "log/3",
    ]


def test_a_listing_follows_all_pages() -> None:
    client = s3_client()
    moment = dt.datetime(2024, 1, 1, microsecond=123_000, tzinfo=dt.UTC)
    with Stubber(client) as s3:
        for key, token in (("a", "more"), ("b", "still more"), ("c", None)):
            page = {
                "Contents": [{"Key": key, "Size": 1, "LastModified": moment}],
                "IsTruncated": token is not None,
            }
            s3.add_response("list_objects_v2", page | ({"NextContinuationToken": token} if token else {}))
        found = list(ObjectReader(client, BUCKET).list(""))
        s3.assert_no_pending_responses()
    assert found == [ObjectInfo(key, 1, 1_704_067_200_123) for key in "abc"]


def test_a_listing_of_nothing_is_empty(s3: Any) -> None:
    assert list(ObjectReader(s3, BUCKET).list("log/")) == []


def test_a_missing_object_or_bucket_is_reported_as_table_files_missing(s3: Any) -> None:
    with pytest.raises(TableFilesError, match=r"^table files missing$"):
        ObjectReader(s3, BUCKET).get("not-there")
    with pytest.raises(TableFilesError, match=r"^table files missing$"):
        ObjectReader(s3, "no-such-bucket").get("key")
    with pytest.raises(TableFilesError, match=r"^table files missing$"):
        list(ObjectReader(s3, "no-such-bucket").list(""))


@pytest.mark.parametrize("code", ["AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken"])
def test_denied_access_is_reported_as_permission_denied_without_details(code: str) -> None:
    client = s3_client()
    with Stubber(client) as s3:
        s3.add_client_error("get_object", code, f"s3://{BUCKET}/key")
        s3.add_client_error("list_objects_v2", code, f"s3://{BUCKET}/key")
        with pytest.raises(TableFilesError, match=r"^permission denied$"):
            ObjectReader(client, BUCKET).get("key")
        with pytest.raises(TableFilesError, match=r"^permission denied$"):
            list(ObjectReader(client, BUCKET).list(""))


def test_other_errors_of_s3_are_raised_unchanged() -> None:
    client = s3_client()
    with Stubber(client) as s3:
        s3.add_client_error("get_object", "SlowDown", http_status_code=503)
        with pytest.raises(ClientError, match="SlowDown"):
            ObjectReader(client, BUCKET).get("key")
