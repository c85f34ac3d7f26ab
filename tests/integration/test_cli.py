"""The `sluice` command in its own process, run by an IAM user with access to the catalog only."""

import json
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.embedded.ministack import EmbeddedAws
from tests.integration.iam import allow, create_user

NAME = f"cli-{uuid.uuid4().hex[:8]}"
SHARES = """\
version: 1
shares:
- name: sales
  schemas:
  - name: retail
    tables:
    - {name: orders, location: s3://warehouse/orders}
recipients:
- {name: acme, shares: [sales]}
"""


@dataclass(frozen=True)
class Cli:
    environment: dict[str, str]

    def start(self, *arguments: str, **options: object) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "cli.main", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


@pytest.fixture(scope="module")
def cli(aws: EmbeddedAws) -> Cli:
    _, user = create_user(aws, NAME, allow("dynamodb:*", f"arn:aws:dynamodb:*:*:table/{NAME}"))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SLUICE_"))}
    return Cli(
        inherited
        | {
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "AWS_ACCESS_KEY_ID": user.access_key_id,
            "AWS_SECRET_ACCESS_KEY": user.secret_access_key,
            "AWS_REGION": aws.region,
            "AWS_ENDPOINT_URL": aws.endpoint_url,
            "SLUICE_CATALOG_TABLE": NAME,
        }
    )


def test_a_provider_gets_from_an_empty_account_to_a_recipients_profile(cli, tmp_path):
    shares, profile = tmp_path / "shares.yaml", tmp_path / "acme.share"
    shares.write_text(SHARES)
    endpoint = "https://sharing.example/delta-sharing"

    missing = cli("share", "list")
    assert cli("init")[0] == 0
    applied = cli("apply", str(shares))
    again = cli("apply", str(shares), "--prune", "--json")
    issued = cli("token", "issue", "acme", "--endpoint", endpoint, "--out", str(profile))

    assert (missing[0], missing[1]) == (1, "")
    assert "Run `sluice init` to create it" in missing[2]
    assert (applied[0], applied[2]) == (0, "")
    assert "+ table sales.retail.orders\n    location: s3://warehouse/orders" in applied[1]
    assert json.loads(again[1]) == {"applied": True, "changes": []}
    assert (issued[0], issued[2]) == (0, "")
    assert json.loads(profile.read_text())["endpoint"] == endpoint
    assert profile.stat().st_mode & 0o777 == 0o600


def test_stdout_is_one_json_document_even_if_the_command_fails(cli):
    code, out, err = cli("table", "show", "no.such.table", "--json")

    assert (code, err) == (1, "")
    assert set(json.loads(out)) == {"error"}


def test_wrong_usage_is_reported_on_stderr_with_exit_code_2(cli):
    code, out, err = cli("share", "remove")

    assert (code, out) == (2, "")
    assert "Missing argument" in err


def test_an_interrupt_ends_the_command_without_a_traceback(cli, tmp_path):
    pipe = tmp_path / "shares.yaml"
    os.mkfifo(pipe)
    process = cli.start("apply", str(pipe))
    with pipe.open("w"):  # returns when the command has opened the pipe; it then waits for input
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)

    assert (process.returncode, out, err) == (130, "", "")


def test_the_shell_completes_the_names_of_commands(cli):
    completing = {**cli.environment, "_SLUICE_COMPLETE": "complete_bash", "COMP_WORDS": "sluice tok", "COMP_CWORD": "1"}

    _, out, _ = Cli(completing)()

    assert out.split() == ["token"]
