"""Runs a function with the Lambda runtime for Python and AWS's Runtime Interface Emulator.

The runtime is the package awslambdaric. The emulator is a program for Linux that comes with SAM CLI. Both are installed
on first use, in environments of their own. Like Lambda, the emulator ends a function that takes too long, and refuses
answers over 6 MB.
"""

import contextlib
import http.client
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cli.common.errors import CommandError
from cli.common.signals import uninterrupted
from cli.embedded import environment
from cli.embedded.ministack import end_with_parent, free_port, stop_process

RUNTIME = Path(__file__).parents[1] / "embedded" / "awslambdaric.txt"
SAM = Path(__file__).parents[2] / "infra" / "sam.txt"
INVOCATIONS = "/2015-03-31/functions/function/invocations"
START_SECONDS = 120.0
STOP_SECONDS = 60.0
EXECUTION_ENVIRONMENT = "AWS_Lambda_python3.13"
MACHINES = {"aarch64": "arm64", "amd64": "x86_64"}


@dataclass(frozen=True, slots=True)
class Invoked:
    """The answer of a function, or the error of the runtime."""

    text: str

    @property
    def answer(self) -> dict[str, Any]:
        return dict(json.loads(self.text))


@dataclass(frozen=True, slots=True)
class RunningFunction:
    port: int
    seconds: float
    """How long an invocation may take, including the start of the runtime."""

    def invoke(self, event: Mapping[str, Any]) -> Invoked:
        # Not with urllib or requests, which would use a proxy of the environment.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.seconds)
        try:
            connection.request("POST", INVOCATIONS, json.dumps(event), {"Content-Type": "application/json"})
            return Invoked(connection.getresponse().read().decode())
        except (http.client.HTTPException, OSError) as error:
            raise CommandError(f"The runtime emulator does not answer: {error}.") from error
        finally:
            connection.close()


def is_installed() -> bool:
    return all(map(environment.is_installed, (SAM, RUNTIME)))


def install() -> tuple[Path, Path]:
    """Returns the emulator, and the interpreter with the Lambda runtime. Installs them on first use."""
    if sys.platform != "linux":
        raise CommandError(
            "AWS's runtime emulator runs on Linux only. Use `sam local invoke`, which needs Docker, or `sluice serve`."
        )
    machine = MACHINES.get(platform.machine().lower(), platform.machine())
    home = environment.tool_python(SAM).parents[1]
    found = next(home.glob(f"lib/*/site-packages/samcli/local/rapid/aws-lambda-rie-{machine}"), None)
    if found is None:
        raise CommandError(f"AWS's runtime emulator does not exist for {machine}. Use `sluice serve`.")
    return found, environment.tool_python(RUNTIME)


@contextlib.contextmanager
def running_function(
    folder: Path,
    handler: str,
    variables: Mapping[str, str],
    *,
    timeout_seconds: int = 28,
    log: IO[Any] | int = subprocess.DEVNULL,
) -> Iterator[RunningFunction]:
    """Runs a function of `folder` with only the given environment variables. What it prints goes to `log`."""
    emulator, python = install()
    invoke_port, api_port = _free_ports()
    # By default, the emulator listens on all interfaces.
    addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{invoke_port}"]
    addresses += ["--runtime-api-address", f"127.0.0.1:{api_port}"]
    with contextlib.ExitStack() as stack:
        with uninterrupted():
            process = subprocess.Popen(
                [str(emulator), "--log-level", "error", *addresses, str(python), "-m", "awslambdaric", handler],
                cwd=folder,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "AWS_EXECUTION_ENV": EXECUTION_ENVIRONMENT,
                    "AWS_LAMBDA_FUNCTION_NAME": handler.split(".")[1],
                    "AWS_LAMBDA_FUNCTION_TIMEOUT": str(timeout_seconds),
                    "LAMBDA_TASK_ROOT": str(folder),
                    **variables,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches only the command, which then stops the emulator
                preexec_fn=end_with_parent,  # noqa: PLW1509
            )
            stack.callback(stop_process, process, STOP_SECONDS)
        _wait_for_port(process, invoke_port)
        yield RunningFunction(invoke_port, timeout_seconds + START_SECONDS)


def _free_ports() -> tuple[int, int]:
    first = second = free_port()
    while first == second:
        second = free_port()
    return first, second


def _wait_for_port(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise CommandError("The runtime emulator did not start.")
