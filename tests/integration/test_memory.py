"""The resident memory of `sluice serve` stays within its limit for cached tables and a fixed amount for the process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench import tables
from tests.integration.conftest import admin_variables
from tests.server import ROOT, Server, running_server

pytestmark = [
    pytest.mark.slow(reason="lists and indexes a table of 100,000 files"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and only glibc returns freed memory on request"),
]

FILES, FILES_PER_DAY = 100_000, 250
CACHE_MB, MORE_MB = 32, 150
ROUNDS, AT_ONCE = 3, 4
PAGE, PAGES = 10_000, 3
SECONDS = 240
# Freed memory is returned every five seconds.
SETTLE_SECONDS = 60
QUERY = "/shares/own/schemas/t/tables/large/query"
GZIP = {"Accept-Encoding": "gzip"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a table that has an index."""
    folder = tmp_path_factory.mktemp("memory")
    tables.write_table(folder / "large", FILES, tables.Shape(files_per_day=FILES_PER_DAY))
    table = {"name": "large", "location": str(folder / "large")}
    shares = {"version": 1, "shares": [{"name": "own", "schemas": [{"name": "t", "tables": [table]}]}]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_SNAPSHOT_CACHE_MB", str(CACHE_MB))
        with running_server(folder, shares, "--admin-env-out", str(folder / "admin.env")) as running:
            command = [sys.executable, "-m", "cli.main", "index", "own.t.large"]
            environment = os.environ | admin_variables(folder / "admin.env")
            subprocess.run(command, cwd=ROOT, env=environment, timeout=SECONDS, check=True, capture_output=True)
            yield running


def resident_mb(server: Server) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def ask(server: Server, body: dict[str, Any]) -> bytes:
    """Returns the last line of an answer, of which it keeps no more."""
    last = b""
    with server.call("POST", QUERY, json=body, headers=GZIP, stream=True) as response:
        assert response.status_code == 200
        for block in response.iter_content(65_536):
            last = (last + block)[-65_536:]
    return last.splitlines()[-1]


def selective(number: int) -> dict[str, Any]:
    """A query for the files of one day."""
    column = {"op": "column", "name": "pickup_date", "valueType": "date"}
    literal = {"op": "literal", "value": tables.day_of(number % (FILES // FILES_PER_DAY)), "valueType": "date"}
    return {"jsonPredicateHints": json.dumps({"op": "equal", "children": [column, literal]})}


def all_pages(server: Server, pages: int) -> None:
    body: dict[str, Any] = {"maxFiles": PAGE}
    for _ in range(pages):
        end = json.loads(ask(server, body))
        body["pageToken"] = end["endStreamAction"]["nextPageToken"]


def test_memory_is_bounded_after_selective_full_and_paged_queries(server: Server) -> None:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for round_ in range(ROUNDS):
            bodies = [selective(20 * round_ + number) for number in range(20)] + [{}] * AT_ONCE
            list(threads.map(lambda body: ask(server, body), bodies))
            all_pages(server, PAGES)
    deadline = time.monotonic() + SETTLE_SECONDS
    while (resident := resident_mb(server)) > CACHE_MB + MORE_MB:
        assert time.monotonic() < deadline, f"{resident:.0f} MB are resident"
        time.sleep(0.5)
