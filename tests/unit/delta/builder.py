"""Builds Delta logs for tests by hand, so that every byte is known.

A table is in the embedded S3, or in memory behind a fake S3 client, which makes it cheap to set times, to fail, and to
write a hundred thousand commits. Both are read through the real `ObjectReader`.
"""

import datetime as dt
import hashlib
import json
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from cli.embedded.ministack import EmbeddedAws
from core.delta.log.batch import AddBatch, NumberedBatch
from core.delta.model import Add
from core.delta.snapshot import Snapshot
from core.storage.location import S3Location
from core.storage.objects import ObjectReader
from core.storage.roles import Credentials
from core.storage.session import StorageSession

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Action = dict[str, Any]

SCHEMA = (
    '{ "type":"struct", "fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"p","type":"string","nullable":true,"metadata":{"b":1,"a":"é"}}]}'
)
PROTOCOL: Action = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
FEATURES = ["deletionVectors", "v2Checkpoint"]
MODERN_PROTOCOL: Action = {
    "protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": FEATURES, "writerFeatures": FEATURES}
}

STRINGS = pa.map_(pa.string(), pa.string())
TEXTS = pa.list_(pa.string())
VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
ADD = {
    "path": pa.string(),
    "partitionValues": STRINGS,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "stats": pa.string(),
    "tags": STRINGS,
    "deletionVector": VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
    "clusteringProvider": pa.string(),
}
CHECKPOINT = {
    "protocol": pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": TEXTS,
            "writerFeatures": TEXTS,
        }
    ),
    "metaData": pa.struct(
        {
            "id": pa.string(),
            "name": pa.string(),
            "description": pa.string(),
            "format": pa.struct({"provider": pa.string(), "options": STRINGS}),
            "schemaString": pa.string(),
            "partitionColumns": TEXTS,
            "configuration": STRINGS,
            "createdTime": pa.int64(),
        }
    ),
    "add": pa.struct(ADD),
    "remove": pa.struct({"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()}),
    "sidecar": pa.struct({"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64()}),
    "checkpointMetadata": pa.struct({"version": pa.int64()}),
}


def metadata(**changes: Any) -> Action:
    fields = {
        "id": "11111111-2222-3333-4444-555555555555",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": ["p"],
        "configuration": {},
        "createdTime": 1700000000000,
    }
    return {"metaData": fields | changes}


def add(path: str, *, size: int = 1, p: str | None = "x", **more: Any) -> Action:
    fields = {
        "path": path,
        "partitionValues": {"p": p},
        "size": size,
        "modificationTime": 5,
        "dataChange": True,
    }
    return {"add": fields | more}


def remove(path: str, **more: Any) -> Action:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True} | more}


def vector(name: str, *, offset: int | None = 1, cardinality: int = 2) -> Action:
    """The descriptor of a deletion vector."""
    fields = {"storageType": "u", "pathOrInlineDv": name, "sizeInBytes": 40, "cardinality": cardinality}
    return fields if offset is None else fields | {"offset": offset}


def sidecar(path: str, content: bytes) -> Action:
    return {"sidecar": {"path": path, "sizeInBytes": len(content), "modificationTime": 1}}


def commit(*actions: Action) -> bytes:
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def checkpoint(*actions: Action, columns: Mapping[str, pa.DataType] | None = None, **adds: pa.DataType | None) -> bytes:
    """A checkpoint in Parquet. `adds` changes the types of fields of `add`; None removes a field."""
    fields = {name: data_type for name, data_type in (ADD | adds).items() if data_type is not None}
    types = CHECKPOINT | {"add": pa.struct(fields)} | dict(columns or {})
    rows = [{name: _as_row(value, types[name]) for name, value in action.items()} for action in actions]
    return parquet(pa.Table.from_pylist(rows, pa.schema(types)))


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _as_row(value: Any, data_type: pa.DataType) -> Any:
    if isinstance(value, dict) and pa.types.is_map(data_type):
        return list(value.items())
    if isinstance(value, dict) and pa.types.is_struct(data_type):
        return {name: _as_row(inner, data_type.field(name).type) for name, inner in value.items()}
    return value


def numbered(batches: Iterable[Iterable[Add]], after: int = 0) -> list[NumberedBatch]:
    """Batches of live files as a snapshot yields them, after a file number."""
    found, number = [], 1
    for batch in map(AddBatch.of, batches):
        numbers = range(number, number + batch.num_files)
        number += batch.num_files
        if number > after + 1:
            found.append(NumberedBatch(numbers, batch).between(max(after + 1 - numbers.start, 0), batch.num_files))
    return found


def name(version: int, suffix: str = "json") -> str:
    return f"_delta_log/{version:020d}.{suffix}"


def compaction(first: int, last: int) -> str:
    return f"_delta_log/{first:020d}.{last:020d}.compacted.json"


def v2_name(version: int, form: str) -> str:
    return name(version, f"checkpoint.{uuid.UUID(int=version)}.{form}")


def paths(snapshot: Snapshot) -> list[str]:
    return sorted(add.path for add in snapshot.adds())


class MemoryS3:
    """The part of an S3 client that reading needs, over objects in memory with chosen times."""

    PAGE = 1000

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.requests: list[str] = []
        self.keys_read: list[str] = []
        self.on_get: Callable[[str], object] = lambda _: None
        """Called with the key before an object is read. It may block or raise."""

    def get_object(
        self,
        *,
        Bucket: str,  # noqa: N803
        Key: str,  # noqa: N803
        IfMatch: str | None = None,  # noqa: N803
        Range: str = "",  # noqa: N803
    ) -> dict[str, Any]:
        self.requests.append("GetObject")
        self.keys_read.append(Key)
        self.on_get(Key)
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        if IfMatch not in (None, self._entry(Key)["ETag"]):
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "GetObject")
        body = self.objects[Key][0]
        if Range:
            first, last = map(int, Range.removeprefix("bytes=").split("-"))
            if first >= len(body):
                raise ClientError({"Error": {"Code": "InvalidRange"}}, "GetObject")
            body = body[first : last + 1]
        return {"Body": StreamingBody(BytesIO(body), len(body))}

    def get_paginator(self, operation: str) -> "MemoryS3":
        assert operation == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str, StartAfter: str) -> Iterator[dict[str, Any]]:  # noqa: N803
        keys = sorted(key for key in list(self.objects) if key.startswith(Prefix))  # another thread may commit
        keys = keys[bisect_right(keys, StartAfter) :]
        for first in range(0, max(len(keys), 1), self.PAGE):
            self.requests.append("ListObjectsV2")
            yield {"Contents": [self._entry(key) for key in keys[first : first + self.PAGE] if key in self.objects]}

    def _entry(self, key: str) -> dict[str, Any]:
        body, at_ms = self.objects[key]
        modified = dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)
        return {"Key": key, "Size": len(body), "LastModified": modified, "ETag": f'"{hashlib.md5(body).hexdigest()}"'}


class TableInMemory:
    def __init__(self, prefix: str = "tables/one") -> None:
        self.s3 = MemoryS3()
        self.requests = self.s3.requests
        self.location = S3Location("delta-tests", prefix)

    def put(self, relative: str, body: bytes = b"", *, at_ms: int = 0) -> None:
        self.s3.objects[self.location.key(relative)] = (body, at_ms)

    def delete(self, *relative: str) -> None:
        for each in relative:
            del self.s3.objects[self.location.key(each)]

    def commit(self, version: int, *actions: Action, at_ms: int | None = None) -> None:
        self.put(name(version), commit(*actions), at_ms=1000 * version if at_ms is None else at_ms)

    def hint(self, version: int) -> None:
        self.put("_delta_log/_last_checkpoint", json.dumps({"version": version, "size": 1}).encode())

    def objects(self) -> ObjectReader:
        return ObjectReader(cast("S3Client", self.s3), self.location.bucket)

    def storage(self, access_key_id: str = "key") -> StorageSession:
        credentials = Credentials(access_key_id, "secret", None, 2**33)
        return _session(self.location, credentials, cast("S3Client", self.s3), region="us-east-1", endpoint_url=None)


class TableInS3:
    """A separate table in the embedded S3. `requests` are those of its storage session."""

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

    def commit(self, version: int, *actions: Action) -> None:
        self.put(name(version), commit(*actions))

    def storage(self, access_key_id: str | None = None) -> StorageSession:
        aws = self._aws
        credentials = Credentials(access_key_id or aws.access_key_id, aws.secret_access_key, None, 2**33)
        return _session(self.location, credentials, self._reading, region=aws.region, endpoint_url=aws.endpoint_url)


def _session(
    location: S3Location, credentials: Credentials, client: "S3Client", *, region: str, endpoint_url: str | None
) -> StorageSession:
    return StorageSession(
        location=location,
        credentials=credentials,
        region=region,
        endpoint_url=endpoint_url,
        path_style=True,
        signed_at=0,
        expires_in=3600,
        _client=lambda: client,
    )
