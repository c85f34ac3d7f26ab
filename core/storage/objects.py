"""Reads and lists the objects of a bucket.

What a recipient is told of a failure is decided here: files that are missing or not permitted become the
protocol's two answers. All else (throttling, timeouts) surfaces as it is, after botocore's own retries.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

from core.errors import TableFilesError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MISSING = frozenset({"NoSuchBucket", "NoSuchKey"})
DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken"})


class ObjectInfo(NamedTuple):
    key: str
    size: int
    last_modified_ms: int


class ObjectReader:
    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def get(self, key: str) -> bytes:
        with _table_files_errors():
            return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """The objects whose key starts with `prefix` and sorts after `start_after`, in that order."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix, StartAfter=start_after or ""
        )
        with _table_files_errors():
            for page in pages:
                for entry in page.get("Contents", ()):
                    modified_ms = round(entry["LastModified"].timestamp() * 1000)
                    yield ObjectInfo(entry["Key"], entry["Size"], modified_ms)


@contextlib.contextmanager
def _table_files_errors() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in MISSING:
            raise TableFilesError("table files missing") from error
        if code in DENIED:
            raise TableFilesError("permission denied") from error
        raise
