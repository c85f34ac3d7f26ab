"""`sluice serve` in its own process: its output, the tables that it follows, how it ends, and its errors."""

import contextlib
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.session
import pytest
from arro3.core import Array, DataType, Table
from deltalake import write_deltalake

from cli.embedded.environment import OVERRIDE
from cli.embedded.setup import catalog_admin, owner_environment
from tests.integration.conftest import admin_variables
from tests.server import ROOT, START_SECONDS

SECONDS = START_SECONDS
SHARES = """
version: 1
port: 0
shares:
- name: sales
  schemas:
  - name: public
    tables:
    - name: numbers
      location: numbers
"""


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-c", "from cli.main import main; main()", "serve", *map(str, arguments)]


def environment(**changes: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SLUICE_"))}
    return {**inherited, "PYTHONPATH": str(ROOT), **changes}


@dataclass
class Serving:
    process: subprocess.Popen[str]
    folder: Path

    @property
    def profile(self) -> dict[str, str]:
        return json.loads((self.folder / "sluice.share").read_text())

    def get(self, path: str) -> http.client.HTTPResponse:
        profile = self.profile
        endpoint = urlsplit(profile["endpoint"])
        connection = http.client.HTTPConnection(endpoint.hostname, endpoint.port, timeout=SECONDS)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {profile['bearerToken']}"}
            connection.request("GET", endpoint.path + path, headers=headers)
            response = connection.getresponse()
            response.read()
        return response

    @property
    def table_version(self) -> str | None:
        return self.get("/shares/sales/schemas/public/tables/numbers/version").headers["Delta-Table-Version"]

    def emulator(self) -> tuple[str, int]:
        endpoint = urlsplit(admin_variables(self.folder / "admin.env")["AWS_ENDPOINT_URL"])
        return endpoint.hostname, endpoint.port

    def end(self, *signals: signal.Signals) -> int:
        for number in signals:
            self.process.send_signal(number)
        return self.process.wait(SECONDS)


@contextlib.contextmanager
def serving(folder: Path, *arguments: str | Path, **changes: str) -> Iterator[Serving]:
    process = subprocess.Popen(
        command("--json", *arguments),
        cwd=folder,
        env=environment(**changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            printed = ""
            for line in process.stdout:
                printed += line
                if line == "}\n":
                    break
            assert printed, process.stderr.read()
            running = Serving(process, folder)
            assert json.loads(printed) == {
                "endpoint": running.profile["endpoint"],
                "profile": str(folder / "sluice.share"),
            }
            yield running
        finally:
            process.terminate()
            process.wait(SECONDS)


def append(table: Path, number: int) -> None:
    rows = Table.from_pydict({"number": Array([number], type=DataType.int64())})
    write_deltalake(str(table), rows, mode="append")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    append(tmp_path / "numbers", 1)
    (tmp_path / "shares.yaml").write_text(SHARES)
    return tmp_path


def refuses_connections(address: tuple[str, int]) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(address, timeout=60).close()
        return False
    return True


def test_it_serves_a_local_table_and_follows_its_commits(folder):
    with serving(folder, "--shares", "shares.yaml") as running:
        assert stat.S_IMODE((folder / "sluice.share").stat().st_mode) == 0o600
        assert running.table_version == "0"
        append(folder / "numbers", 2)
        while running.table_version != "1":
            assert running.process.poll() is None


@pytest.mark.parametrize(
    "signals",
    [
        [signal.SIGTERM],
        [signal.SIGINT],
        [signal.SIGINT, signal.SIGINT, signal.SIGTERM],
    ],
    ids=["SIGTERM", "Ctrl-C", "repeated"],
)
def test_a_signal_ends_the_server_and_the_emulator(tmp_path, signals):
    with serving(tmp_path, "--port", "0", "--admin-env-out", "admin.env") as running:
        endpoint = urlsplit(running.profile["endpoint"])
        emulator = running.emulator()
        assert not refuses_connections(emulator)
        assert running.end(*signals) == 0
        assert refuses_connections(emulator)
        assert refuses_connections((endpoint.hostname, endpoint.port))
        assert running.process.stderr.read() == ""


def test_a_signal_while_the_emulator_starts_also_ends_the_emulator(tmp_path):
    """The emulator is a script that signals the command that started it and never becomes ready."""
    script = tmp_path / "python"
    script.write_text('#!/bin/sh\necho $$ > "$PIDFILE"\nkill -TERM $PPID\nexec sleep 600\n')
    script.chmod(0o755)
    result = subprocess.run(
        command("--port", "0"),
        cwd=tmp_path,
        env=environment(PIDFILE=str(tmp_path / "pid"), **{OVERRIDE: str(script)}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_kept_state_survives_a_restart_but_the_old_token_does_not(folder):
    with serving(folder, "--shares", "shares.yaml", "--data", "kept"):
        old_profile = (folder / "sluice.share").read_text()
    with serving(folder, "--port", "0", "--data", "kept") as running:
        assert running.get("/shares/sales").status == 200
        profile = {**json.loads(old_profile), "endpoint": running.profile["endpoint"]}
        (folder / "sluice.share").write_text(json.dumps(profile))
        assert running.get("/shares/sales").status == 401


def sluice(folder: Path, *arguments: str) -> str:
    """Runs a command next to the server, as after `source admin.env`. Returns its output."""
    program = [sys.executable, "-c", "from cli.main import main; main()", *arguments]
    result = subprocess.run(
        program,
        cwd=folder,
        env=environment(**admin_variables(folder / "admin.env")),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return result.stdout


def test_an_index_stays_usable_across_a_restart_and_follows_the_table(folder):
    options = ("--shares", "shares.yaml", "--data", "kept", "--admin-env-out", "admin.env")

    def status() -> dict[str, Any]:
        (status,) = json.loads(sluice(folder, "index", "status", "--json"))
        return status

    with serving(folder, *options):
        sluice(folder, "index", "sales.public.numbers")
        copies = {path: path.read_bytes() for path in (folder / "kept" / "s3").rglob("*.meta.json")}
        assert len(copies) >= 2
    with serving(folder, *options):
        assert {path: path.read_bytes() for path in copies} == copies
        assert (status()["lag"], status()["usable"]) == (0, True)
        assert "From the index of version 0" in sluice(folder, "explain", "sales.public.numbers")
    append(folder / "numbers", 2)
    with serving(folder, *options):
        assert (status()["lag"], status()["usable"]) == (1, True)


def test_kept_state_is_accessible_only_to_its_owner(folder):
    with serving(folder, "--shares", "shares.yaml", "--data", "kept"):
        pass
    kept = [folder / "kept", *(folder / "kept" / "state").rglob("*")]
    assert len(kept) > 2
    assert [path for path in kept if path.stat().st_mode & 0o077] == []


def test_kept_state_is_used_by_one_server_at_a_time(folder):
    with serving(folder, "--port", "0", "--data", "kept"):
        (folder / "second").mkdir()
        message = error_of(folder / "second", "--port", "0", "--data", "../kept")
        assert message == "Error: ../kept is in use by another embedded AWS. Choose another folder."


@pytest.mark.skipif(sys.platform != "linux", reason="finds the emulator's process through /proc")
def test_a_crash_of_the_embedded_aws_ends_the_command_and_a_restart_recovers(folder):
    with serving(folder, "--shares", "shares.yaml", "--data", "kept") as running:
        children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text()
        os.kill(int(children.split()[0]), signal.SIGKILL)
        assert running.process.wait(SECONDS) == 1
    with serving(folder, "--shares", "shares.yaml", "--data", "kept") as running:
        assert running.table_version == "0"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_refused_request_is_one_line_without_a_token(folder, log_format):
    """The table has no commits, so the function knows a cause that the recipient does not see."""
    (folder / "empty" / "_delta_log").mkdir(parents=True)
    (folder / "shares.yaml").write_text(SHARES.replace("location: numbers", "location: empty"))
    path = "/shares/sales/schemas/public/tables/numbers/version"
    with serving(folder, "--shares", "shares.yaml", "--log-format", log_format) as running:
        assert running.get(path).status == 400
        assert running.get("/shares/gone").status == 404
        assert running.get("/shares").status == 200
        running.end(signal.SIGTERM)
        printed = running.process.stderr.read()
    assert running.profile["bearerToken"] not in printed
    lines = printed.splitlines()
    if log_format == "json":
        refused = [line for line in map(json.loads, lines) if line["message"] == "refused"]
        assert [line["status"] for line in refused] == [400, 404]
        return
    assert len(lines) == 2
    assert lines[0].startswith(f"GET /delta-sharing{path} 400 ")
    assert lines[1].startswith("GET /delta-sharing/shares/gone 404 ")
    assert all(len(line) < 400 for line in lines)


def test_the_admin_file_sets_the_endpoint_so_that_tokens_can_be_issued(folder):
    with serving(folder, "--shares", "shares.yaml", "--admin-env-out", "admin.env") as running:
        assert admin_variables(folder / "admin.env")["SLUICE_ENDPOINT"] == running.profile["endpoint"]
        sluice(folder, "recipient", "add", "acme")
        sluice(folder, "token", "issue", "acme", "--out", "acme.share")
        issued = json.loads((folder / "acme.share").read_text())
        assert issued["endpoint"] == running.profile["endpoint"]


def test_the_endpoint_path_of_the_reference_servers_file_is_used(folder):
    (folder / "shares.yaml").write_text(SHARES + "endpoint: /elsewhere/v2/\n")
    with serving(folder, "--shares", "shares.yaml") as running:
        assert running.profile["endpoint"].endswith("/elsewhere/v2")
        assert running.get("/shares").status == 200


def test_the_catalog_of_an_account_is_served_and_the_token_is_revoked_at_the_end(aws, tmp_path):
    admin = catalog_admin(aws)
    admin.create_catalog()
    admin.put_share("in-the-account")
    iam = botocore.session.Session().create_client("iam", **aws.client_arguments())
    iam.create_user(UserName="provider")
    allow = '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"dynamodb:*","Resource":"*"}}'
    iam.put_user_policy(UserName="provider", PolicyName="p", PolicyDocument=allow)
    key = iam.create_access_key(UserName="provider")["AccessKey"]
    variables = {
        **owner_environment(aws),
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }
    with serving(tmp_path, "--aws", "env", "--port", "0", **variables) as running:
        assert running.get("/shares/in-the-account").status == 200
        assert len(admin.recipient("local").tokens) == 1
        assert running.end(signal.SIGTERM) == 0
    assert admin.recipient("local").tokens == ()


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def error_of(folder: Path, *arguments: str | Path, **changes: str) -> str:
    """Runs a command that must end with exit code 1. Returns its error message."""
    result = subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    assert result.stdout == ""
    assert not (folder / "sluice.share").exists()
    return result.stderr.strip()


def test_a_taken_port_is_a_one_line_error(tmp_path, taken_port):
    message = error_of(tmp_path, "--port", str(taken_port), **{OVERRIDE: "/must/not/be/started"})
    assert message == f"Error: Port {taken_port} on 127.0.0.1 is already in use. Choose another with --port."


def test_an_emulator_that_does_not_start_is_a_one_line_error(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no module named ministack\nexit 1\n")
    broken.chmod(0o755)
    message = error_of(tmp_path, "--port", "0", **{OVERRIDE: str(broken)})
    assert message == "Error: The embedded AWS did not start: no module named ministack"


def test_a_missing_emulator_is_a_one_line_error(tmp_path):
    message = error_of(tmp_path, "--port", "0", **{OVERRIDE: str(tmp_path / "missing")})
    assert message.startswith("Error: The embedded AWS did not start: ")
    assert "\n" not in message


def test_missing_credentials_are_a_one_line_error(tmp_path):
    nowhere = str(tmp_path / "none")
    message = error_of(
        tmp_path,
        "--aws",
        "env",
        "--port",
        "0",
        AWS_REGION="us-east-1",
        AWS_CONFIG_FILE=nowhere,
        AWS_SHARED_CREDENTIALS_FILE=nowhere,
        AWS_EC2_METADATA_DISABLED="true",
        SLUICE_STORAGE_ROLE_ARN="arn:aws:iam::000000000000:role/storage",
    )
    assert message.startswith("Error: No AWS credentials found")
    assert "\n" not in message


def test_a_local_directory_is_refused_for_an_account(folder):
    message = error_of(folder, "--aws", "env", "--shares", "shares.yaml")
    assert "shares.yaml:10: shares[0].schemas[0].tables[0].location: 'numbers' is not an S3 location" in message


def test_a_bucket_that_the_embedded_aws_does_not_have_is_refused(folder):
    (folder / "shares.yaml").write_text(SHARES.replace("location: numbers", "location: s3://mine/numbers"))
    message = error_of(folder, "--shares", "shares.yaml")
    assert "s3://mine/numbers is not in the embedded AWS" in message


def test_state_that_cannot_be_kept_is_a_one_line_error(tmp_path):
    (tmp_path / "file").touch()
    message = error_of(tmp_path, "--port", "0", "--data", "file")
    assert message == "Error: The embedded AWS cannot keep its state in file: File exists."


def test_a_profile_that_cannot_be_written_is_a_one_line_error(tmp_path):
    message = error_of(tmp_path, "--port", "0", "--profile-out", tmp_path / "missing" / "sluice.share")
    assert message == f"Error: {tmp_path}/missing/sluice.share cannot be written: No such file or directory."
