"""`sluice index` next to a running `sluice serve`, as in two terminals of a provider."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.golden.expectation import DELTA
from tests.golden.served import HEADERS
from tests.integration.conftest import admin_variables, client_arguments
from tests.server import ROOT, Server, running_server
from tests.tables import events, many_files
from tests.unit.delta.builder import PROTOCOL, add, commit, metadata

SECONDS = 240
LARGE = 8000
SLUICE = [sys.executable, "-m", "cli.main"]

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("indexed")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    events(folder / "events")
    many_files(folder / "many")
    large_log(folder / "large")
    write_deltalake(folder / "followed", pa.table({"id": [1, 2, 3]}))
    names = ("events", "many", "followed", "large")
    tables = [{"name": name, "location": str(folder / name), "historyShared": True} for name in names]
    shares = {"version": 1, "shares": [{"name": "own", "schemas": [{"name": "t", "tables": tables}]}]}
    with running_server(folder, shares, "--admin-env-out", str(folder / "admin.env")) as running:
        yield running


@pytest.fixture(scope="module")
def environment(server: Server, folder: Path) -> dict[str, str]:
    """The environment in which a command reaches the server's embedded AWS."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return inherited | admin_variables(folder / "admin.env")


@pytest.fixture(scope="module")
def sluice(environment: dict[str, str]) -> Command:
    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [*SLUICE, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    return call


@pytest.fixture(scope="module")
def dynamodb(server: Server, folder: Path) -> Any:
    return botocore.session.Session().create_client("dynamodb", **client_arguments(folder / "admin.env"))


def large_log(directory: Path) -> None:
    """A log of many files, without data files."""
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    actions: list[Any] = [PROTOCOL, metadata(schemaString=json.dumps(schema), partitionColumns=[])]
    for number in range(LARGE):
        values = {"id": number}
        stats = json.dumps({"numRecords": 1, "minValues": values, "maxValues": values, "nullCount": {"id": 0}})
        actions.append(add(f"{number}.parquet", stats=stats, partitionValues={}))
    log = directory / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_bytes(commit(*actions))


def keys(dynamodb: Any) -> list[dict[str, dict[str, str]]]:
    items = dynamodb.get_paginator("scan").paginate(TableName="sluice-index").search("Items")
    return [{name: item[name] for name in ("pk", "sk")} for item in items]


def paths(server: Server, table: str, **body: Any) -> list[str]:
    """Returns the URLs that a recipient gets, without their signatures."""
    answer = server.call("POST", f"/shares/own/schemas/t/tables/{table}/query", json=body, headers=HEADERS[DELTA])
    assert answer.status_code == 200, answer.text
    lines = map(json.loads, answer.text.splitlines())
    adds = (line["file"]["deltaSingleAction"]["add"] for line in lines if "file" in line)
    return sorted(add["path"].partition("?")[0] for add in adds)


def test_a_running_server_reads_an_index_that_another_process_builds(server, sluice, dynamodb):
    built = sluice("index", "own.t.events", "--json")
    assert built.returncode == 0, built.stderr
    assert [(report["outcome"], report["files"]) for report in json.loads(built.stdout)] == [("built", 10)]

    hint = "day >= '2024-01-04' AND value > 30"
    explained = json.loads(sluice("explain", "own.t.events", "--where", hint, "--json").stdout)
    assert explained["index"]["version"] == 0
    for key in keys(dynamodb):
        if "#C" in key["pk"]["S"]:
            dynamodb.delete_item(TableName="sluice-index", Key=key)
    assert "The index of a table cannot be used" not in server.log.read_text()

    listed = paths(server, "events", predicateHints=[hint])

    assert len(listed) == explained["listed"]["files"] > 0
    assert "The index of a table cannot be used; reading its log instead: an item is missing" in server.log.read_text()


def test_a_full_listing_reads_no_chunk_and_a_selective_one_does(server, sluice, dynamodb):
    known = keys(dynamodb)
    assert sluice("index", "own.t.large").returncode == 0
    explained = json.loads(sluice("explain", "own.t.large", "--json").stdout)
    assert (explained["source"], explained["index"]) == ("log", None)
    assert "the index about" in explained["sourceBecause"]
    for key in keys(dynamodb):
        if "#C" in key["pk"]["S"] and key not in known:
            dynamodb.delete_item(TableName="sluice-index", Key=key)
    before = server.log.read_text()

    assert len(paths(server, "large")) == LARGE
    assert server.log.read_text() == before
    assert len(paths(server, "large", predicateHints=["id = 4321"])) == 1
    assert "The index of a table cannot be used" in server.log.read_text().removeprefix(before)


def test_the_status_shows_the_lag_and_another_build_catches_up(server, sluice, folder):
    def status() -> dict[str, Any]:
        (report,) = json.loads(sluice("index", "status", "own.t.followed", "--json").stdout)
        return report

    assert (status()["index"], status()["logVersion"]) == (None, 0)
    assert sluice("index", "own.t.followed").returncode == 0
    assert status()["lag"] == 0
    write_deltalake(folder / "followed", pa.table({"id": [4]}), mode="append")
    while status()["logVersion"] == 0:  # wait until the server has copied the commit
        assert server.process.poll() is None
    assert status()["lag"] == 1

    assert "was brought up to version 1" in sluice("index", "own.t.followed").stdout
    assert (status()["lag"], status()["index"]["files"]) == (0, 2)
    assert len(paths(server, "followed")) == 2


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_build_that_is_stopped_says_so_and_leaves_no_index(sluice, environment, dynamodb, stop):
    before = keys(dynamodb)
    command = [*SLUICE, "index", "own.t.many", "--write-rate", "1"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while keys(dynamodb) == before:  # wait for the first write; at this rate the build takes a minute
            assert process.poll() is None
        process.send_signal(stop)
        out, err = process.communicate(timeout=SECONDS)

    assert (process.returncode, out) == (130, "")
    # On a busy machine, progress lines precede it: one every five seconds.
    assert re.fullmatch(r"(own\.t\.many: .*\n)*Stopped\. Queries keep using the existing index\. .*\n", err)
    (report,) = json.loads(sluice("index", "status", "own.t.many", "--json").stdout)
    assert report["index"] is None
