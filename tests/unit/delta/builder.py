"""Delta logs for tests, written by hand so that every byte of them is known."""

import json
import uuid
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq

from cli.embedded.ministack import EmbeddedAws
from core.errors import TableFilesError
from core.storage.location import S3Location
from core.storage.objects import ObjectInfo
from core.storage.roles import Credentials
from core.storage.session import StorageSession

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SCHEMA = (
    '{ "type":"struct", "fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"p","type":"string","nullable":true,"metadata":{"b":1,"a":"é"}}]}'
)
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
STRINGS = pa.map_(pa.string(), pa.string())
CHECKPOINT = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": STRINGS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": STRINGS,
                "createdTime": pa.int64(),
            }
        ),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": STRINGS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
                "stats_parsed": pa.struct({"numRecords": pa.int64()}),
            }
        ),
        "remove": pa.struct({"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()}),
    }
)


def metadata(**changes: Any) -> dict[str, Any]:
    fields = {
        "id": "11111111-2222-3333-4444-555555555555",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": ["p"],
        "configuration": {},
        "createdTime": 1700000000000,
    }
    return {"metaData": fields | changes}


def add(path: str, *, size: int = 1, p: str | None = "x", stats: str | None = None) -> dict[str, Any]:
    fields = {
        "path": path,
        "partitionValues": {"p": p},
        "size": size,
        "modificationTime": 5,
        "dataChange": True,
    }
    return {"add": fields if stats is None else fields | {"stats": stats}}


def remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}


def commit(*actions: dict[str, Any]) -> bytes:
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def checkpoint(*actions: dict[str, Any]) -> bytes:
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist([_as_row(action) for action in actions], CHECKPOINT), sink)
    return sink.getvalue()


def _as_row(action: dict[str, Any]) -> dict[str, Any]:
    def convert(value: Any, kind: pa.DataType) -> Any:
        if isinstance(value, dict) and pa.types.is_map(kind):
            return list(value.items())
        if isinstance(value, dict):
            return {name: convert(inner, kind.field(name).type) for name, inner in value.items()}
        return value

    return {name: convert(value, CHECKPOINT.field(name).type) for name, value in action.items()}


def name(version: int, suffix: str = "json") -> str:
    return f"_delta_log/{version:020d}.{suffix}"


class MemoryObjects:
    """The objects of a bucket in memory, with times of our choice; it records what it was asked."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.asked: list[str] = []

    def put(self, key: str, body: bytes = b"", *, at_ms: int = 0) -> None:
        self.objects[key] = (body, at_ms)

    def get(self, key: str) -> bytes:
        self.asked.append(f"get {key}")
        if key not in self.objects:
            raise TableFilesError("table files missing")
        return self.objects[key][0]

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectInfo]:
        self.asked.append(f"list {prefix} after {start_after}")
        for key, (body, at_ms) in sorted(self.objects.items()):
            if key.startswith(prefix) and key > (start_after or ""):
                yield ObjectInfo(key, len(body), at_ms)


class TableInS3:
    """A table of its own in the embedded S3. `requests` are those that are made through its storage session."""

    def __init__(self, aws: EmbeddedAws, *, prefix: str | None = None) -> None:
        self._aws = aws
        self.client: S3Client = boto3.client("s3", **aws.client_arguments())
        self.location = S3Location("delta-tests", prefix or f"tables/{uuid.uuid4()}")
        self.client.create_bucket(Bucket=self.location.bucket)
        self.requests: list[str] = []
        self._reading: S3Client = boto3.client("s3", **aws.client_arguments())
        self._reading.meta.events.register("before-call.s3", self._record)

    def _record(self, model: Any, **_: Any) -> None:
        self.requests.append(model.name)

    def put(self, relative: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.location.bucket, Key=self.location.key(relative), Body=body)

    def delete(self, relative: str) -> None:
        self.client.delete_object(Bucket=self.location.bucket, Key=self.location.key(relative))

    def commit(self, version: int, *actions: dict[str, Any]) -> None:
        self.put(name(version), commit(*actions))

    def storage(self, access_key_id: str | None = None) -> StorageSession:
        return StorageSession(
            location=self.location,
            credentials=Credentials(access_key_id or self._aws.access_key_id, self._aws.secret_access_key, None, 2**33),
            region=self._aws.region,
            endpoint_url=self._aws.endpoint_url,
            path_style=True,
            signed_at=0,
            expires_in=3600,
            _client=lambda: self._reading,
        )
