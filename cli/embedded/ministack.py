"""Runs the emulator as a process. It listens on a free port of 127.0.0.1 and ends with the command that started it."""

import contextlib
import ctypes
import fcntl
import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from cli.common.errors import CommandError
from cli.common.signals import uninterrupted
from cli.embedded.environment import ministack_python

REGION = "us-east-1"
ACCOUNT_ID = "000000000000"
PORTS = range(20_000, 32_000)
START_SECONDS = 30.0
# Kept state may have hundreds of thousands of objects, which the emulator reads at its start.
KEPT_START_SECONDS = 600.0
STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class EmbeddedAws:
    """A running emulator and the keys of its root user, which are new in each run."""

    port: int
    access_key_id: str
    secret_access_key: str = field(repr=False)
    region: str = REGION
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False, compare=False)

    def check_running(self) -> None:
        if self.process and self.process.poll() is not None:
            raise CommandError("The embedded AWS stopped unexpectedly. Run the command again.")

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client_arguments(self) -> dict[str, str]:
        return {
            "endpoint_url": self.endpoint_url,
            "region_name": self.region,
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": self.secret_access_key,
        }


@contextlib.contextmanager
def embedded_aws(data: Path | None = None) -> Iterator[EmbeddedAws]:
    """Runs MiniStack with signatures and policies enforced. Keeps its state in `data`, if given."""
    python = ministack_python()
    with contextlib.ExitStack() as stack:
        if data:
            home = stack.enter_context(_kept_home(data))
        else:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-aws-")))
        aws = EmbeddedAws(free_port(), "AKIA" + secrets.token_hex(8).upper(), secrets.token_hex(20))
        log = stack.enter_context((home / "ministack.log").open("wb"))
        with uninterrupted():
            process = _start(python, home, _environment(home, aws, persist=data is not None), log)
            stack.callback(stop_process, process)
        _wait_until_ready(process, aws, home / "ministack.log", KEPT_START_SECONDS if data else START_SECONDS)
        yield replace(aws, process=process)


@contextlib.contextmanager
def _kept_home(data: Path) -> Iterator[Path]:
    """Locks the folder for the state, which holds secrets, for one emulator at a time."""
    home = data.resolve()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (home / "lock").open("w")
    except OSError as error:
        raise CommandError(f"The embedded AWS cannot keep its state in {data}: {error.strerror}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CommandError(f"{data} is in use by another embedded AWS. Choose another folder.") from error
        yield home


def _start(python: Path, home: Path, environment: dict[str, str], log: BinaryIO) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [str(python), "-m", "ministack"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=home,
            umask=0o077,
            start_new_session=True,  # Ctrl-C reaches only the command, which then stops the emulator
            preexec_fn=end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
        )
    except OSError as error:
        raise CommandError(f"The embedded AWS did not start: {error.strerror}.") from error


def _environment(home: Path, aws: EmbeddedAws, *, persist: bool) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    return {
        **inherited,
        "AUTH": "true",
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(aws.port),
        "MINISTACK_HOST": "127.0.0.1",
        "MINISTACK_REGION": aws.region,
        "MINISTACK_ACCOUNT_ID": ACCOUNT_ID,
        "AWS_ACCESS_KEY_ID": aws.access_key_id,
        "AWS_SECRET_ACCESS_KEY": aws.secret_access_key,
        "LOG_LEVEL": "WARNING",
        "PERSIST_STATE": "1" if persist else "0",
        "S3_PERSIST": "1" if persist else "0",
        "STATE_DIR": str(home / "state"),
        "S3_DATA_DIR": str(home / "s3"),
        "TMPDIR": str(home),
    }


def end_with_parent() -> None:
    """Ends the emulator even if the command is killed with SIGKILL (Linux only)."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def free_port() -> int:
    """Returns a free port below the ephemeral range (from 32768), so no outgoing connection can take it."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _wait_until_ready(process: subprocess.Popen[bytes], aws: EmbeddedAws, log: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        # Not with urllib, which would use a proxy of the environment.
        connection = http.client.HTTPConnection("127.0.0.1", aws.port, timeout=1)
        try:
            connection.request("GET", "/_ministack/health")
            connection.getresponse()
        except (http.client.HTTPException, OSError):
            time.sleep(0.05)
        else:
            return
        finally:
            connection.close()
    last_line = log.read_text(errors="replace").strip().rpartition("\n")[2]
    raise CommandError(f"The embedded AWS did not start: {last_line or 'it printed nothing'}")


def stop_process(process: subprocess.Popen[bytes], seconds: float = STOP_SECONDS) -> None:
    """Ends a process. Kills it if it does not end in time."""
    with uninterrupted():
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
