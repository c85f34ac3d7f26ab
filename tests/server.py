"""A real `sluice serve` in a process of its own, as a provider would start it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests

ROOT = Path(__file__).parents[1]
START_SECONDS = 60


@dataclass(frozen=True)
class Server:
    endpoint: str
    token: str
    profile: Path
    process: "subprocess.Popen[str]"
    log: Path

    def table_url(self, name: str) -> str:
        """`share.schema.table` as the client wants it."""
        return f"{self.profile}#{name}"

    def call(self, method: str, path: str, *, token: str | None = "", **arguments: object) -> requests.Response:
        """With the recipient's own token, unless another (or None for none) is given."""
        headers = dict(arguments.pop("headers", {}))  # type: ignore[call-overload]
        bearer = self.token if token == "" else token
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        return requests.request(method, self.endpoint + path, headers=headers, timeout=30, **arguments)  # type: ignore[arg-type]


@contextlib.contextmanager
def running_server(folder: Path, shares: dict[str, object], *options: str) -> Iterator[Server]:
    """Serve `shares` (as in the YAML file) on a free port until the block ends."""
    shares_file, profile, log = folder / "shares.yaml", folder / "profile.share", folder / "serve.log"
    shares_file.write_text(json.dumps(shares))  # JSON is YAML
    command = [sys.executable, "-m", "cli.main", "serve", "--shares", str(shares_file), "--port", "0"]
    command += ["--profile-out", str(profile), *options]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=output,
            stderr=output,
            text=True,
        )
        try:
            yield _when_ready(process, profile, log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _when_ready(process: "subprocess.Popen[str]", profile: Path, log: Path) -> Server:
    """When it has said where it serves: the last thing that it does before it waits for requests."""
    deadline = time.monotonic() + START_SECONDS
    while not (profile.exists() and json.loads(profile.read_text())["endpoint"].rstrip("/") in log.read_text()):
        assert process.poll() is None, f"sluice serve ended: {log.read_text()}"
        assert time.monotonic() < deadline, f"sluice serve is not ready: {log.read_text()}"
        time.sleep(0.05)
    document = json.loads(profile.read_text())
    return Server(document["endpoint"].rstrip("/"), document["bearerToken"], profile, process, log)
