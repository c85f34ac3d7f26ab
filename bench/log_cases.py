"""The cases of `make bench-log`. Each runs in its own process and reads a table that is not cached.

A case first reads a tiny table, so that imports, credentials and connections are warm. Listings are written as the
server writes them and then discarded, with the raw path of a file instead of its URL. `deltalake` returns parsed
statistics, which are converted back to JSON.
"""

import hashlib
import json
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING

import botocore.session
import orjson

from bench.lab.fresh import Clock, Figures
from bench.lab.query import query_function
from cli.embedded.setup import DATA_BUCKET
from core.api.json import dump_line
from core.delta.tables import DeltaTables
from core.settings import Settings
from core.sharing.answers import parquet_answer
from core.sharing.answers.file_lines import file_lines, parquet_files
from core.storage.location import S3Location
from core.storage.session import Storage, StorageSession

if TYPE_CHECKING:
    from arro3.core import Array, RecordBatch, Table
    from deltalake import DeltaTable

    from core.delta.log.batch import FileBatch

WARM_UP = "warm-up"
BATCH_ROWS = 8192
EXPIRES_AT = 1_735_689_600_000


class Tables:
    """Opens tables as a function does and counts the requests to S3, including retries."""

    def __init__(self) -> None:
        session = botocore.session.Session()
        session.register("before-send.s3", self._count)
        self._storage = Storage.connect(Settings.from_environment(), session)
        self.requests = 0

    def open(self, table: str) -> StorageSession:
        storage = self._storage.open(S3Location(DATA_BUCKET, table))
        self.requests = 0
        return storage

    def _count(self, **_: object) -> None:
        self.requests += 1


def download(table: str) -> Figures:
    """Download the files of the log, which shows the share of the emulator in the other cases."""
    tables = Tables()

    def run(name: str) -> Figures:
        storage = tables.open(name)
        objects, clock = storage.objects(), Clock()
        for info in objects.list(storage.location.key("_delta_log/")):
            objects.get(info.key)
        return clock.figures()

    return _after_warm_up(run, table)


def sluice_open(table: str) -> Figures:
    tables = Tables()

    def run(name: str) -> Figures:
        storage, clock = tables.open(name), Clock()
        snapshot = DeltaTables().snapshot(storage)
        return clock.figures() | {"files": snapshot.num_files, "requests": tables.requests}

    return _after_warm_up(run, table)


def sluice_list(table: str) -> Figures:
    tables = Tables()

    def run(name: str) -> Figures:
        storage, clock = tables.open(name), Clock()
        snapshot = DeltaTables().snapshot(storage)
        lines = chain.from_iterable(map(_lines, snapshot.batches(None)))
        return _written(lines, clock)

    return _after_warm_up(run, table)


def sluice_query(table: str) -> Figures:
    """A full query without HTTP: authentication, catalog, log, signed URLs, lines."""
    query = query_function()

    def run(name: str) -> Figures:
        clock = Clock()
        return _written(query(name, {}).body, clock)

    return _after_warm_up(run, table)


def sluice_warm(table: str, body: str, upload_url: str, commit: str) -> Figures:
    """Query a table that is not cached, then query it again after one more commit."""
    query = query_function()
    query(WARM_UP, json.loads(body))

    def seconds() -> float:
        clock = Clock()
        return _written(query(table, json.loads(body)).body, clock)["seconds"]

    cold = seconds()
    request = urllib.request.Request(upload_url, data=commit.encode(), method="PUT")
    urllib.request.urlopen(request).close()
    return {"cold": cold, "warm": seconds()}


def deltalake_open(table: str) -> Figures:
    tables = Tables()

    def run(name: str) -> Figures:
        options, clock = storage_options(tables.open(name)), Clock()
        _delta_table(name, options)
        return clock.figures()

    return _after_warm_up(run, table)


def deltalake_list(table: str) -> Figures:
    return _deltalake_listing(table, _by_values)


def deltalake_list_by_json(table: str) -> Figures:
    return _deltalake_listing(table, _by_json)


def deltalake_list_by_columns(table: str) -> Figures:
    return _deltalake_listing(table, _by_columns)


def _after_warm_up(case: Callable[[str], Figures], table: str) -> Figures:
    case(WARM_UP)
    return case(table)


def storage_options(storage: StorageSession) -> dict[str, str]:
    credentials = storage.credentials
    return {
        "AWS_ACCESS_KEY_ID": credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
        "AWS_SESSION_TOKEN": credentials.session_token or "",
        "AWS_REGION": storage.region,
        "AWS_ENDPOINT_URL": storage.endpoint_url or "",
        "AWS_ALLOW_HTTP": "true",
    }


def _delta_table(table: str, options: dict[str, str]) -> "DeltaTable":
    from deltalake import DeltaTable

    return DeltaTable(f"s3://{DATA_BUCKET}/{table}", storage_options=options)


def _deltalake_listing(table: str, lines: Callable[["Table"], Iterator[bytes]]) -> Figures:
    tables = Tables()

    def run(name: str) -> Figures:
        options, clock = storage_options(tables.open(name)), Clock()
        return _written(lines(_delta_table(name, options).get_add_actions()), clock)

    return _after_warm_up(run, table)


def _by_values(actions: "Table") -> Iterator[bytes]:
    """The straightforward way: build the statistics of each file from the Python values of its row."""
    names = ("path", "partition", "size_bytes", "num_records", "min", "max", "null_count")
    for batch in _batches(actions):
        for path, partition, size, rows, minimum, maximum, nulls in zip(
            *(batch[name].to_pylist() for name in names), strict=True
        ):
            stats = {"numRecords": rows, "minValues": minimum, "maxValues": maximum, "nullCount": nulls}
            yield _line(path, {name: str(value) for name, value in partition.items()}, size, _dumped(stats))


def _by_json(actions: "Table") -> Iterator[bytes]:
    """Let Arrow write each row as JSON and parse that, which is faster than converting rows to Python values."""
    for batch in _batches(actions):
        for row in map(orjson.loads, _json_lines({name: batch[name] for name in batch.schema.names})):
            stats = {
                "numRecords": row["num_records"],
                "minValues": row["min"],
                "maxValues": row["max"],
                "nullCount": row["null_count"],
            }
            yield _line(row["path"], row["partition"], row["size_bytes"], _dumped(stats))


def _by_columns(actions: "Table") -> Iterator[bytes]:
    """The fastest known way: Arrow writes the statistics as JSON, and each distinct partition is parsed once."""
    partitions: dict[bytes, Mapping[str, str | None]] = {}
    for batch in _batches(actions):
        stats = {
            "numRecords": batch["num_records"],
            "minValues": batch["min"],
            "maxValues": batch["max"],
            "nullCount": batch["null_count"],
        }
        values = _json_lines({"partition": batch["partition"]})
        for line in set(values).difference(partitions):
            partitions[line] = orjson.loads(line)["partition"]
        columns = (batch["path"].to_pylist(), values, batch["size_bytes"].to_pylist(), _json_lines(stats))
        for path, partition, size, text in zip(*columns, strict=True):
            yield _line(path, partitions[partition], size, text.decode())


def _batches(actions: "Table") -> list["RecordBatch"]:
    return actions.rechunk(max_chunksize=BATCH_ROWS).to_batches()


def _dumped(stats: Mapping[str, object]) -> str:
    return orjson.dumps(stats).decode()


def _json_lines(columns: dict[str, "Array"]) -> list[bytes]:
    from arro3.core import RecordBatch
    from arro3.io import write_ndjson

    lines = BytesIO()
    write_ndjson(RecordBatch.from_arrays(list(columns.values()), names=list(columns)), lines)
    return lines.getvalue().splitlines()


def _lines(files: "FileBatch") -> Iterator[bytes]:
    fields = files.add_fields(parquet_answer.FIELDS)
    framed = parquet_files("file", files.paths, [_id(path) for path in files.paths], fields, EXPIRES_AT)
    return file_lines(framed, files.num_files)


def _line(path: str, partition_values: Mapping[str, str | None], size: int, stats: str | None) -> bytes:
    file = {"url": path, "id": _id(path), "partitionValues": partition_values, "size": size}
    if stats is not None:
        file["stats"] = stats
    file["expirationTimestamp"] = EXPIRES_AT
    return dump_line({"file": file})


def _id(path: str) -> str:
    return hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()


def _written(lines: Iterable[bytes], clock: Clock) -> Figures:
    """Consume the lines, and return the times of the first and the last byte."""
    first = None
    size = 0
    for line in lines:
        first = first or clock.seconds()
        size += len(line)
    return clock.figures() | {"first_byte": first or clock.seconds(), "megabytes": size / 1e6}
