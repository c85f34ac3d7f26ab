"""The judge of a table: what is a verdict on its log, and what is not."""

import time
from pathlib import Path

import deltalake
import pytest

from core.delta.reader import judge
from core.errors import MalformedRequestError
from core.storage.location import S3Location
from core.storage.roles import Credentials
from core.storage.session import StorageSession

UNREACHABLE = "http://127.0.0.1:1"


def storage(endpoint_url: str) -> StorageSession:
    return StorageSession(
        location=S3Location("bucket", "table"),
        credentials=Credentials("key", "secret", "token", time.time() + 3600),
        region="us-east-1",
        endpoint_url=endpoint_url,
        path_style=True,
        signed_at=int(time.time()),
        expires_in=3600,
        _client=lambda: pytest.fail("the judge reads by itself"),
    )


def test_a_storage_that_cannot_be_reached_is_no_verdict() -> None:
    with pytest.raises(OSError, match="Error performing GET"):
        judge(storage(UNREACHABLE))


def test_whatever_else_deltalake_says_is_a_verdict_without_its_paths(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Panic(BaseException):
        """As Rust's panics are."""

    def panic(*_: object, **__: object) -> deltalake.DeltaTable:
        raise Panic("s3://bucket/table")

    monkeypatch.setattr("core.delta.reader.DeltaTable", panic)
    with pytest.raises(MalformedRequestError) as caught:
        judge(storage(UNREACHABLE))
    assert "bucket" not in caught.value.message
