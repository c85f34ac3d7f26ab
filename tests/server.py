"""Runs `sluice serve` in its own process, as a provider would start it."""

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
# Generous: they only end a test that hangs. A busy machine is several times slower.
START_SECONDS = 240
ANSWER_SECONDS = 120
STOP_SECONDS = 60
READY = "Press Ctrl-C to stop."


@dataclass(frozen=True)
class Server:
    endpoint: str
    token: str
    profile: Path
    process: "subprocess.Popen[str]"
    log: Path

    def table_url(self, name: str) -> str:
        """Returns the URL of `share.schema.table` for the published client."""
        return f"{self.profile}#{name}"

    def call(self, method: str, path: str, *, token: str | None = "", **arguments: object) -> requests.Response:
        """Sends a request with the recipient's token by default, with another `token`, or without one (None)."""
        headers = dict(arguments.pop("headers", {}))  # type: ignore[call-overload]
        bearer = self.token if token == "" else token
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        return requests.request(method, self.endpoint + path, headers=headers, timeout=ANSWER_SECONDS, **arguments)  # type: ignore[arg-type]


@contextlib.contextmanager
def running_server(folder: Path, shares: dict[str, object], *options: str) -> Iterator[Server]:
    """Serves `shares`, the content of a shares file, on a free port until the block ends."""
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
            process.wait(STOP_SECONDS)


def _when_ready(process: "subprocess.Popen[str]", profile: Path, log: Path) -> Server:
    """Waits for the last line that the server prints at its start: it accepts requests, and the profile is complete."""
    deadline = time.monotonic() + START_SECONDS
    while READY not in log.read_text():
        assert process.poll() is None, f"sluice serve ended: {log.read_text()}"
        assert time.monotonic() < deadline, f"sluice serve is not ready: {log.read_text()}"
        time.sleep(0.05)
    document = json.loads(profile.read_text())
    return Server(document["endpoint"].rstrip("/"), document["bearerToken"], profile, process, log)
