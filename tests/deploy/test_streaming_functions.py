"""Runs the functions that stream from their built package, as Lambda does: with the wrapper, against its Runtime API.

The emulator of the Runtime API checks every byte that the functions send.
"""

import contextlib
import gzip
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.embedded.environment import tool_python
from cli.embedded.ministack import EmbeddedAws, end_with_parent, stop_process
from cli.embedded.setup import DATA_BUCKET, catalog_admin, s3_client, set_up
from cli.invoke.emulator import RUNTIME
from cli.serve.routes import read_routes
from infra.build import WRAPPER
from tests.deploy.shared_tables import MANY_FILES, share_trips
from tests.runtime_api import Invocation, Received, RuntimeApiEmulator, environment
from tests.server import ROOT

STREAMING = sorted({route.function.handler.split(".")[1] for route in read_routes() if route.streams})
STATUS = {"query_status": 404}
END_ACTION = "includeendstreamaction=true"
SECONDS = 120


@dataclass(frozen=True)
class Functions:
    package: Path
    variables: dict[str, str]
    token: str

    @contextlib.contextmanager
    def run(self, handler: str, *, folder: Path | None = None, **variables: str) -> Iterator[RuntimeApiEmulator]:
        """Starts a function as Lambda does, with an interpreter that has no packages of its own."""
        root = str(folder or self.package)
        with RuntimeApiEmulator() as api:
            process = subprocess.Popen(
                [str(self.package / WRAPPER.name), str(tool_python(RUNTIME)), "/var/runtime/bootstrap.py"],
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "AWS_LAMBDA_FUNCTION_NAME": "f",
                    **environment(api, handler, root),
                    **self.variables,
                    **variables,
                },
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=end_with_parent,  # noqa: PLW1509
            )
            try:
                yield api
            finally:
                stop_process(process, SECONDS)

    def event(self, name: str, *, encoding: str = "identity", body: str | None = None, **path: str) -> dict[str, Any]:
        event: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_text())
        event["headers"] |= {"Authorization": f"Bearer {self.token}", "Accept-Encoding": encoding}
        event["pathParameters"] |= path
        return event | ({} if body is None else {"body": body, "isBase64Encoded": False})


@pytest.fixture(scope="module")
def functions(aws: EmbeddedAws, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Functions:
    variables = set_up(aws)
    token = share_trips(catalog_admin(aws), s3_client(aws), DATA_BUCKET, tmp_path_factory.mktemp("tables"))
    return Functions(packages / "host" / "full", variables, token)


def content_of(received: Received) -> bytes:
    """Returns the body of a streamed answer, decompressed."""
    assert received.streamed
    assert received.error is None
    headers = received.prelude["headers"]
    assert "Content-Length" not in headers
    return gzip.decompress(received.body) if headers.get("Content-Encoding") == "gzip" else received.body


@pytest.mark.parametrize("route", STREAMING)
def test_a_function_streams_the_answer_to_its_sample_event(functions: Functions, route: str) -> None:
    with functions.run(f"handlers.{route}.lambda_handler") as api:
        for encoding in ("gzip", "identity"):
            received = api.invoke(Invocation(functions.event(route, encoding=encoding)))
            assert received.status == STATUS.get(route, 200)
            lines = content_of(received).splitlines()
            assert all(json.loads(line) for line in lines)
            if received.status == 200:
                assert "protocol" in json.loads(lines[0])
                assert len(lines) > 2
        unknown = api.invoke(Invocation(functions.event(route, table="missing")))
        assert unknown.status == 404
        assert json.loads(content_of(unknown))["errorCode"] == "RESOURCE_DOES_NOT_EXIST"


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_an_answer_that_is_too_large_to_buffer_is_streamed(functions: Functions, encoding: str) -> None:
    event = functions.event("query_table", table="many", body="{}", encoding=encoding)
    with functions.run("handlers.query_table.lambda_handler") as api:
        received = api.invoke(Invocation(event))
        assert received.status == 200
        paths = [json.loads(line)["file"]["id"] for line in content_of(received).splitlines()[2:]]
        assert len(set(paths)) == len(paths) == MANY_FILES
        assert len(received.chunk_sizes) > 10, "blocks are sent as they are written"


def test_a_handler_that_cannot_be_imported_is_an_error_of_the_init_phase(functions: Functions, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import a_module_that_is_missing\n")
    with functions.run("broken.lambda_handler", PYTHONPATH=str(tmp_path)) as api:
        assert api.init_failed.wait(SECONDS)
        assert api.init_error is not None
        error = json.loads(api.init_error.content)
        assert error["errorType"] == "ModuleNotFoundError"
        assert "a_module_that_is_missing" in error["errorMessage"]
        assert api.init_error.headers["lambda-runtime-function-error-type"] == "ModuleNotFoundError"
