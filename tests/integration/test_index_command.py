"""`sluice index` beside a running `sluice serve`: a provider's two terminals."""

import json
import os
import re
import shlex
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
from tests.server import ROOT, Server, running_server
from tests.tables import events, many_files

SECONDS = 240
SLUICE = ["-m", "cli.main"]

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("indexed")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    events(folder / "events")
    many_files(folder / "many")
    people = pa.table({"id": [1, 2, 3]})
    write_deltalake(folder / "followed", people)
    names = ("events", "many", "followed")
    tables = [{"name": name, "location": str(folder / name), "historyShared": True} for name in names]
    shares = {"version": 1, "shares": [{"name": "own", "schemas": [{"name": "t", "tables": tables}]}]}
    with running_server(folder, shares, "--admin-env-out", str(folder / "admin.env")) as running:
        yield running


@pytest.fixture(scope="module")
def environment(server: Server, folder: Path) -> dict[str, str]:
    """In which a command reaches the server's embedded AWS."""
    lines = (shlex.split(line) for line in (folder / "admin.env").read_text().splitlines())
    exports = dict(line[1].split("=", 1) for line in lines if line[0] == "export")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | exports


@pytest.fixture(scope="module")
def sluice(environment: dict[str, str]) -> Command:
    def call(*arguments: str, by: list[str] = SLUICE) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, *by, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    return call


@pytest.fixture(scope="module")
def dynamodb(environment: dict[str, str]) -> Any:
    return botocore.session.Session().create_client(
        "dynamodb",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )


def keys(dynamodb: Any) -> list[dict[str, dict[str, str]]]:
    items = dynamodb.get_paginator("scan").paginate(TableName="sluice-index").search("Items")
    return [{name: item[name] for name in ("pk", "sk")} for item in items]


def paths(server: Server, table: str, **body: Any) -> list[str]:
    """The files that a recipient gets, without their signatures."""
    answer = server.call("POST", f"/shares/own/schemas/t/tables/{table}/query", json=body, headers=HEADERS[DELTA])
    assert answer.status_code == 200, answer.text
    lines = map(json.loads, answer.text.splitlines())
    adds = (line["file"]["deltaSingleAction"]["add"] for line in lines if "file" in line)
    return sorted(add["path"].partition("?")[0] for add in adds)


def test_a_running_server_reads_an_index_that_was_built_beside_it(server, sluice, dynamodb):
    built = sluice("index", "own.t.events", "--json")
    assert built.returncode == 0, built.stderr
    assert [(told["outcome"], told["files"]) for told in json.loads(built.stdout)] == [("built", 10)]

    hint = "day >= '2024-01-04' AND value > 30"
    explained = json.loads(sluice("explain", "own.t.events", "--where", hint, "--output", "json").stdout)
    assert explained["index"]["version"] == 0
    for key in keys(dynamodb):
        if "#C" in key["pk"]["S"]:
            dynamodb.delete_item(TableName="sluice-index", Key=key)
    assert "The index of a table cannot be used" not in server.log.read_text()

    listed = paths(server, "events", predicateHints=[hint])

    assert len(listed) == explained["listed"]["files"] > 0
    assert "The index of a table cannot be used; reading its log instead: an item is missing" in server.log.read_text()


def test_status_follows_the_log_and_a_later_build_catches_up(server, sluice, folder):
    def status() -> dict[str, Any]:
        (told,) = json.loads(sluice("index", "status", "own.t.followed", "--json").stdout)
        return told

    assert (status()["index"], status()["logVersion"]) == (None, 0)
    assert sluice("index", "own.t.followed").returncode == 0
    assert status()["lag"] == 0
    write_deltalake(folder / "followed", pa.table({"id": [4]}), mode="append")
    while status()["logVersion"] == 0:  # until the server has copied the commit
        assert server.process.poll() is None
    assert status()["lag"] == 1

    assert "was brought up to version 1" in sluice("index", "own.t.followed").stdout
    assert (status()["lag"], status()["index"]["files"]) == (0, 2)
    assert len(paths(server, "followed")) == 2


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_build_that_is_stopped_says_so_and_leaves_no_index(sluice, environment, dynamodb, stop):
    before = keys(dynamodb)
    command = [sys.executable, *SLUICE, "index", "own.t.many", "--write-rate", "1"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while keys(dynamodb) == before:  # until it has begun to write, which will take it a minute
            assert process.poll() is None
        process.send_signal(stop)
        out, err = process.communicate(timeout=120)

    assert (process.returncode, out) == (130, "")
    assert re.fullmatch(r"Stopped\. Readers keep the index that they have; .*\n", err)
    (told,) = json.loads(sluice("index", "status", "own.t.many", "--json").stdout)
    assert told["index"] is None
