"""Runs a function with the Lambda runtime for Python and the Runtime Interface Emulator, which is part of SAM CLI.

Like Lambda, the emulator kills functions that time out and rejects answers over 6 MB.
"""

import contextlib
import json
import os
import platform
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from cli.embedded.environment import tool_python
from tests.server import ROOT

START_SECONDS = 120


@dataclass(frozen=True)
class Invoked:
    """The answer of a function, or the error message of the runtime."""

    text: str

    @property
    def answer(self) -> dict[str, Any]:
        return dict(json.loads(self.text))


@dataclass(frozen=True)
class RunningFunction:
    port: int

    def invoke(self, event: Mapping[str, Any]) -> Invoked:
        url = f"http://127.0.0.1:{self.port}/2015-03-31/functions/function/invocations"
        return Invoked(requests.post(url, json=event, timeout=120).text)


@contextlib.contextmanager
def running_function(
    folder: Path, handler: str, environment: Mapping[str, str], *, timeout_seconds: int = 28
) -> Iterator[RunningFunction]:
    """Runs the function of an unpacked package with only the given environment variables."""
    invoke_port, api_port = _free_ports()
    # By default, the emulator listens on all interfaces.
    addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{invoke_port}"]
    addresses += ["--runtime-api-address", f"127.0.0.1:{api_port}"]
    python = tool_python(Path(__file__).with_name("awslambdaric.txt"))
    process = subprocess.Popen(
        [str(_emulator()), *addresses, str(python), "-m", "awslambdaric", handler],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
            "AWS_LAMBDA_FUNCTION_NAME": handler.split(".")[1],
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(timeout_seconds),
            "LAMBDA_TASK_ROOT": str(folder),
            **environment,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for_port(process, invoke_port)
        yield RunningFunction(invoke_port)
    finally:
        process.terminate()
        process.wait(60)


def _emulator() -> Path:
    environment = tool_python(ROOT / "infra" / "sam.txt").parents[1]
    machine = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return next(environment.glob(f"lib/*/site-packages/samcli/local/rapid/aws-lambda-rie-{machine}"))


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait_for_port(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "the runtime interface emulator exited"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "the runtime interface emulator does not listen"
        time.sleep(0.02)
