"""The real `sluice serve`, as a process: what it writes and prints, what it follows, and what it leaves behind."""

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
from urllib.parse import urlsplit

import botocore.session
import pytest
from arro3.core import Array, DataType, Table
from deltalake import write_deltalake

from cli.embedded.environment import OVERRIDE
from cli.embedded.setup import catalog_admin, owner_environment

PROJECT = Path(__file__).parents[2]
SECONDS = 120
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
    return {**inherited, "PYTHONPATH": str(PROJECT), **changes}


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
        lines = (self.folder / "admin.env").read_text().splitlines()
        exports = dict(line[7:].split("=", 1) for line in lines if line.startswith("export "))
        endpoint = urlsplit(exports["AWS_ENDPOINT_URL"])
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


def refuses(address: tuple[str, int]) -> bool:
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
    ids=["SIGTERM", "Ctrl-C", "impatience"],
)
def test_a_signal_ends_everything_it_started(tmp_path, signals):
    with serving(tmp_path, "--port", "0", "--admin-env-out", "admin.env") as running:
        endpoint = urlsplit(running.profile["endpoint"])
        emulator = running.emulator()
        assert not refuses(emulator)
        assert running.end(*signals) == 0
        assert refuses(emulator)
        assert refuses((endpoint.hostname, endpoint.port))
        assert running.process.stderr.read() == ""


def test_a_signal_while_the_emulator_starts_ends_that_too(tmp_path):
    """The emulator here is a script that stops the command which started it, and never gets ready."""
    pretender = tmp_path / "python"
    pretender.write_text('#!/bin/sh\necho $$ > "$PIDFILE"\nkill -TERM $PPID\nexec sleep 600\n')
    pretender.chmod(0o755)
    done = subprocess.run(
        command("--port", "0"),
        cwd=tmp_path,
        env=environment(PIDFILE=str(tmp_path / "pid"), **{OVERRIDE: str(pretender)}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_kept_state_is_there_at_the_next_run_and_the_old_token_is_not(folder):
    with serving(folder, "--shares", "shares.yaml", "--data", "kept") as running:
        old_profile = (folder / "sluice.share").read_text()
    with serving(folder, "--port", "0", "--data", "kept") as running:
        assert running.get("/shares/sales").status == 200
        profile = {**json.loads(old_profile), "endpoint": running.profile["endpoint"]}
        (folder / "sluice.share").write_text(json.dumps(profile))
        assert running.get("/shares/sales").status == 401


def test_kept_state_holds_secrets_and_is_for_its_owner_alone(folder):
    with serving(folder, "--shares", "shares.yaml", "--data", "kept"):
        pass
    kept = [folder / "kept", *(folder / "kept" / "state").rglob("*")]
    assert len(kept) > 2
    assert [path for path in kept if path.stat().st_mode & 0o077] == []


def test_kept_state_is_used_by_one_server_at_a_time(folder):
    with serving(folder, "--port", "0", "--data", "kept"):
        (folder / "second").mkdir()
        said = fails(folder / "second", "--port", "0", "--data", "../kept")
        assert said == "Error: ../kept is in use by another embedded AWS. Choose another folder for it."


@pytest.mark.skipif(sys.platform != "linux", reason="finds the emulator's process through /proc")
def test_after_a_crash_of_the_embedded_aws_the_command_ends_and_can_be_started_again(folder):
    with serving(folder, "--shares", "shares.yaml", "--data", "kept") as running:
        children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text()
        os.kill(int(children.split()[0]), signal.SIGKILL)
        assert running.process.wait(SECONDS) == 1
    with serving(folder, "--shares", "shares.yaml", "--data", "kept") as running:
        assert running.table_version == "0"


def test_the_endpoint_path_of_the_reference_servers_file_is_used(folder):
    (folder / "shares.yaml").write_text(SHARES + "endpoint: /elsewhere/v2/\n")
    with serving(folder, "--shares", "shares.yaml") as running:
        assert running.profile["endpoint"].endswith("/elsewhere/v2")
        assert running.get("/shares").status == 200


def test_an_account_in_the_environment_is_served_with_its_catalog_and_the_token_goes_with_the_server(aws, tmp_path):
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


def fails(folder: Path, *arguments: str | Path, **changes: str) -> str:
    """What a command says that ends with exit code 1, as one line."""
    done = subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert not (folder / "sluice.share").exists()
    return done.stderr.strip()


def test_a_taken_port_is_one_sentence(tmp_path, taken_port):
    said = fails(tmp_path, "--port", str(taken_port), **{OVERRIDE: "/must/not/be/started"})
    assert said == f"Error: Port {taken_port} on 127.0.0.1 is already in use. Choose another with --port."


def test_an_emulator_that_does_not_start_is_one_sentence(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no module named ministack\nexit 1\n")
    broken.chmod(0o755)
    said = fails(tmp_path, "--port", "0", **{OVERRIDE: str(broken)})
    assert said == "Error: The embedded AWS did not start: no module named ministack"


def test_an_emulator_that_is_not_there_is_one_sentence(tmp_path):
    said = fails(tmp_path, "--port", "0", **{OVERRIDE: str(tmp_path / "missing")})
    assert said.startswith("Error: The embedded AWS did not start: ")
    assert "\n" not in said


def test_no_credentials_are_one_sentence(tmp_path):
    nowhere = str(tmp_path / "none")
    said = fails(
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
    assert said.startswith("Error: There are no AWS credentials")
    assert "\n" not in said


def test_a_local_directory_is_refused_for_an_account(folder):
    said = fails(folder, "--aws", "env", "--shares", "shares.yaml")
    assert "shares.yaml:10: shares[0].schemas[0].tables[0].location: 'numbers' is not an S3 location" in said


def test_a_bucket_that_the_embedded_aws_does_not_have_is_refused(folder):
    (folder / "shares.yaml").write_text(SHARES.replace("location: numbers", "location: s3://mine/numbers"))
    said = fails(folder, "--shares", "shares.yaml")
    assert "s3://mine/numbers is not in the embedded AWS" in said


def test_state_that_cannot_be_kept_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    said = fails(tmp_path, "--port", "0", "--data", "file")
    assert said == "Error: The embedded AWS cannot keep its state in file: File exists."


def test_a_profile_that_cannot_be_written_is_one_sentence_and_nothing_is_left(tmp_path):
    said = fails(tmp_path, "--port", "0", "--profile-out", tmp_path / "missing" / "sluice.share")
    assert said == f"Error: {tmp_path}/missing/sluice.share cannot be written: No such file or directory."
