"""`sluice invoke` with the real runtime emulator, next to a running `sluice serve`."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import ANSWER_SECONDS, ROOT, STOP_SECONDS, Server, running_server
from tests.tables import events

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the runtime interface emulator requires Linux")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("invoked")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """Serves the table that the sample events request."""
    events(folder / "trips")
    tables = [{"name": "trips", "location": str(folder / "trips"), "historyShared": True}]
    shares = {"version": 1, "shares": [{"name": "sales", "schemas": [{"name": "public", "tables": tables}]}]}
    with running_server(folder, shares, "--admin-env-out", str(folder / "admin.env")) as running:
        yield running


def invoke(server: Server, event: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "cli.main", "invoke", f"events/{event}.json"]
    variables = ["--env-file", str(server.profile.with_name("admin.env"))]
    return subprocess.run(
        [*command, *variables, *options], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
    )


def test_it_runs_the_function_of_the_event_with_the_token_of_a_profile(server):
    done = invoke(server, "query_table", "--profile", str(server.profile), "--json")

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["function"], answer["status"]) == ("QueryTable", 200)
    lines = [json.loads(line) for line in answer["body"].splitlines()]
    assert [next(iter(line)) for line in lines[:2]] == ["protocol", "metaData"]
    assert '"route":"query_table","status":200' in done.stderr, "the log of the function"
    assert "REPORT RequestId" in done.stderr, "it ran in the Lambda runtime"
    assert server.token not in done.stdout + done.stderr


def test_it_prints_status_headers_and_the_decoded_body(server):
    done = invoke(server, "table_version", "--profile", str(server.profile))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("TableVersion answers 200\n")
    assert "\nDelta-Table-Version: " in done.stdout


def test_an_error_of_the_protocol_is_an_answer_and_a_placeholder_is_explained(server):
    done = invoke(server, "list_shares")

    assert done.returncode == 0
    assert done.stdout.startswith("ListShares answers 401\n")
    assert '"errorCode":"UNAUTHENTICATED"' in done.stdout
    assert "Use --profile FILE.share to send a token." in done.stderr


def test_another_function_can_get_the_event_and_its_failure_is_an_error(server, folder):
    path = folder / "event.json"
    path.write_text('{"nothing": true}')
    command = [sys.executable, "-m", "cli.main", "invoke", str(path), "--function", "ListShares"]
    variables = ["--env-file", str(folder / "admin.env")]

    done = subprocess.run(
        [*command, *variables], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: The function ListShares failed: KeyError: 'httpMethod'. Its log says where." in done.stderr


def test_an_interrupt_ends_the_function_and_the_emulator(server):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections but never responds
        silent.settimeout(ANSWER_SECONDS)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "cli.main", "--endpoint-url", endpoint, "invoke", "events/list_shares.json"]
        options = ["--env-file", str(server.profile.with_name("admin.env")), "--profile", str(server.profile)]
        process = subprocess.Popen(
            [*command, *options], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        connection, _ = silent.accept()  # the function waits for its answer
        with connection:
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=STOP_SECONDS)
            connection.settimeout(ANSWER_SECONDS)
            while connection.recv(65_536):
                pass  # until the function is gone

    assert (process.returncode, out) == (130, "")
