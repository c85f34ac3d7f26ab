"""What tests of streamed answers share: tables, a server in this process, and readers that see every byte."""

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
import requests
import urllib3
from deltalake import DeltaTable

from cli.embedded.ministack import stop_process
from cli.serve.app import Front, import_functions
from cli.serve.gateway import HttpRequest, proxy_event
from cli.serve.routes import PREFIX, Routes, read_routes
from cli.serve.server import bind, serving
from core.catalog.admin import CatalogAdmin
from core.sharing.services import process_services
from tests.runtime_api import Invocation, RuntimeApiEmulator
from tests.runtime_api import environment as lambda_environment
from tests.server import ROOT

SECONDS = 120
SHARE, SCHEMA = "large", "public"
COMMIT = re.compile(r"/_delta_log/(\d{20})\.json")


@dataclass(frozen=True)
class Endpoint:
    """A server in this process, and the profile of a recipient."""

    port: int
    token: str
    profile: Path

    def table_url(self, table: str) -> str:
        return f"{self.profile}#{SHARE}.{SCHEMA}.{table}"

    def request(self, method: str, table: str, route: str, body: str = "", **headers: str) -> bytes:
        """Returns a request for a raw socket. It asks for no compression."""
        path = f"{PREFIX}/shares/{SHARE}/schemas/{SCHEMA}/tables/{table}/{route}"
        fields = {"Host": "h", "Authorization": f"Bearer {self.token}", "Content-Length": str(len(body)), **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", body]
        return "\r\n".join(lines).encode()

    def send(self, request: bytes) -> socket.socket:
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        raw.sendall(request)
        return raw


@contextlib.contextmanager
def serving_functions(
    environment: Mapping[str, str], token: str, folder: Path, *, timeout_seconds: int | None = None
) -> Iterator[Endpoint]:
    """Serves all routes over HTTP as `sluice serve` does, with the environment of the functions."""
    routes = read_routes()
    if timeout_seconds is not None:
        shorter = {route: replace(route.function, timeout_seconds=timeout_seconds) for route in routes}
        routes = Routes((replace(route, function=shorter[route]) for route in routes), prefix=PREFIX)
    bound = bind("127.0.0.1", 0)
    with pytest.MonkeyPatch.context() as patch, bound, ThreadPoolExecutor(8) as threads:
        for name in [name for name in os.environ if name.startswith(("AWS_", "SLUICE_"))]:
            patch.delenv(name)
        for name, value in {**environment, "POWERTOOLS_METRICS_DISABLED": "true"}.items():
            patch.setenv(name, value)
        process_services.cache_clear()
        port = bound.getsockname()[1]
        profile = folder / f"{port}.share"
        endpoint = f"http://127.0.0.1:{port}{PREFIX}"
        content = {"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": token}
        profile.write_text(json.dumps(content))
        with serving(Front(routes, import_functions(routes), threads), bound):
            yield Endpoint(port, token, profile)
        process_services.cache_clear()


def share(admin: CatalogAdmin, locations: Mapping[str, str]) -> str:
    """Shares tables by their names. Returns the token of a recipient."""
    admin.put_share(SHARE)
    admin.put_schema(SHARE, SCHEMA)
    for name, location in locations.items():
        admin.put_table(SHARE, SCHEMA, name, location=location, access_modes=("url",), history_shared=True)
    admin.put_recipient("streamer")
    admin.grant("streamer", SHARE)
    return admin.issue_token("streamer", lifetime_seconds=3600)[1]


def write_versions(directory: Path, versions: int, files_each: int) -> None:
    """Writes a log of many commits, each of which adds files, and a checkpoint of the last. Has a change data feed."""
    log = directory / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {
        "id": "00000000-0000-0000-0000-000000000002",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {"delta.enableChangeDataFeed": "true"},
    }
    for version in range(versions):
        actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 1_700_000_000_000 + version}}]
        if version == 0:
            actions += [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}, {"metaData": metadata}]
        for number in range(files_each):
            path = f"part-{version:05}-{number:05}.parquet"
            add = {"path": path, "partitionValues": {}, "size": number, "modificationTime": 0, "dataChange": True}
            actions.append({"add": {**add, "stats": '{"numRecords":1}'}})
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    DeltaTable(directory).create_checkpoint()


def damage_statistics(checkpoint: Path) -> int:
    """Overwrites the statistics of the last row group of a checkpoint. Returns the number of files before them."""
    footer = pq.ParquetFile(checkpoint).metadata
    group = footer.row_group(footer.num_row_groups - 1)
    columns = (group.column(number) for number in range(group.num_columns))
    column = next(column for column in columns if column.path_in_schema == "add.stats")
    offset = column.dictionary_page_offset or column.data_page_offset
    with checkpoint.open("r+b") as file:
        file.seek(offset)
        file.write(bytes(column.total_compressed_size))
    return int(footer.num_rows - group.num_rows)


def version_in(path: str) -> int:
    """Returns the version of the commit that a path of S3 names, or -1."""
    found = COMMIT.search(urlsplit(path).path)
    return int(found[1]) if found else -1


@dataclass(frozen=True)
class RawAnswer:
    head: str
    body: bytes
    """Without the framing of chunks."""
    has_last_chunk: bool

    @property
    def lines(self) -> list[str]:
        return self.body.decode().splitlines()


def read_raw(raw: socket.socket) -> RawAnswer:
    """Reads a chunked answer until its last chunk, or until the server closes the connection."""
    with raw, raw.makefile("rb") as stream:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = stream.readline()
            assert line, head
            head += line
        assert b"transfer-encoding: chunked" in head, head
        blocks = []
        while size := int(stream.readline() or b"-1", 16):
            if size < 0:
                return RawAnswer(head.decode(), b"".join(blocks), has_last_chunk=False)
            blocks.append(stream.read(size))
            stream.readline()
        return RawAnswer(head.decode(), b"".join(blocks), has_last_chunk=True)


@contextlib.contextmanager
def running_loop(handler: str, variables: Mapping[str, str]) -> Iterator[RuntimeApiEmulator]:
    """Runs a function of this checkout in the loop that streams, against an emulator of Lambda's Runtime API."""
    with RuntimeApiEmulator() as api:
        process = subprocess.Popen(
            [sys.executable, "-m", "core.runtime.streaming"],
            cwd=ROOT,
            env={**lambda_environment(api, handler, str(ROOT)), **variables, "AWS_LAMBDA_FUNCTION_NAME": "f"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield api
        finally:
            stop_process(process, SECONDS)


class LambdaAdapter(requests.adapters.HTTPAdapter):
    """Lets a session of `requests` call a function in the place of API Gateway."""

    def __init__(self, api: RuntimeApiEmulator, *, seconds: float = SECONDS) -> None:
        super().__init__()
        self._api = api
        self._seconds = seconds

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:  # type: ignore[override]
        url = urlsplit(request.url or "")
        headers = tuple((name, str(value)) for name, value in request.headers.items())
        body = request.body.encode() if isinstance(request.body, str) else request.body or b""
        sent = HttpRequest(request.method or "", url.path, url.query, headers, body)
        event = proxy_event(sent, read_routes().match(sent.method, sent.path), now=time.time())
        received = self._api.invoke(Invocation(event, seconds=self._seconds))
        if received.error:
            raise requests.exceptions.ChunkedEncodingError(received.error["errorMessage"])
        raw = urllib3.HTTPResponse(
            io.BytesIO(received.body), received.prelude["headers"], received.status, preload_content=False
        )
        return self.build_response(request, raw)
