"""Runs `sluice serve` in its own process, on the embedded AWS of a benchmark."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    endpoint: str
    token: str = field(repr=False)
    pid: int


@contextlib.contextmanager
def running_server(environment: Mapping[str, str]) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as scratch:
        profile = Path(scratch) / "profile.share"
        command = [sys.executable, "-m", "cli.main", "serve", "--aws", "env", "--port", "0", "--json"]
        command += ["--profile-out", str(profile)]
        with subprocess.Popen(command, env=dict(environment), stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                while process.stdout.readline() != "}\n":  # the last line that it prints when it is ready
                    if process.poll() is not None:
                        raise ChildProcessError("sluice serve did not start")
                document = json.loads(profile.read_text())
                yield Server(document["endpoint"].rstrip("/"), document["bearerToken"], process.pid)
            finally:
                process.send_signal(signal.SIGTERM)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far, in all threads."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = after_name[11:13]
    return (int(user) + int(system)) / TICKS_PER_SECOND
