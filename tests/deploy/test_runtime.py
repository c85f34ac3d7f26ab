"""Runs every function from its built package in the Lambda runtime."""

import base64
import gzip
import json
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.embedded.ministack import EmbeddedAws
from cli.embedded.setup import DATA_BUCKET, catalog_admin, s3_client, set_up
from cli.invoke.emulator import RunningFunction, running_function
from core.runtime.events import MAX_ANSWER_BYTES
from infra.build import OTHER_STACKS, READ_TABLES, WORKERS
from tests.deploy.shared_tables import share_trips
from tests.server import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the runtime interface emulator requires Linux")

ROUTES = sorted({path.stem for path in (ROOT / "handlers").glob("[!_]*.py")} - OTHER_STACKS - WORKERS)
STATUS = {"query_status": 404, "unknown_route": 404}


@dataclass(frozen=True)
class Environment:
    packages: Path
    environment: Mapping[str, str]
    token: str

    def run(
        self, route: str, *, timeout_seconds: int = 28, **environment: str
    ) -> AbstractContextManager[RunningFunction]:
        folder = self.packages / "host" / ("full" if route in READ_TABLES else "thin")
        handler, environment = f"handlers.{route}.lambda_handler", {**self.environment, **environment}
        return running_function(folder, handler, environment, timeout_seconds=timeout_seconds)

    def event(self, name: str, **path: str) -> dict[str, Any]:
        """Returns a sample event with a valid token. `path` replaces path parameters."""
        event = json.loads((ROOT / "events" / f"{name}.json").read_text())
        event["headers"]["Authorization"] = f"Bearer {self.token}"
        event["pathParameters"] = {**(event["pathParameters"] or {}), **path}
        return dict(event)


@pytest.fixture(scope="module")
def env(aws: EmbeddedAws, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = set_up(aws)
    folder = tmp_path_factory.mktemp("tables")
    token = share_trips(catalog_admin(aws), s3_client(aws), DATA_BUCKET, folder)
    return Environment(packages, environment, token)


@pytest.mark.parametrize("route", ROUTES)
def test_a_function_responds_to_its_sample_event(env: Environment, route: str) -> None:
    with env.run(route) as function:
        answer = function.invoke(env.event(route)).answer
        assert answer["statusCode"] == STATUS.get(route, 200), answer
        again = function.invoke(env.event(route)).answer
        assert again["statusCode"] == answer["statusCode"]


@pytest.fixture(scope="module")
def query_table(env: Environment) -> Iterator[RunningFunction]:
    with env.run("query_table") as function:
        yield function


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_query_with_a_too_large_answer_is_a_400_that_suggests_a_fix(
    env: Environment, query_table: RunningFunction, encoding: str
) -> None:
    event = env.event("query_table", table="many")
    event |= {"body": "{}", "isBase64Encoded": False}
    event["headers"]["Accept-Encoding"] = encoding
    answer = query_table.invoke(event).answer
    assert answer["statusCode"] == 400, str(answer)[:500]
    body = answer["body"]
    document = json.loads(gzip.decompress(base64.b64decode(body)) if encoding == "gzip" else body)
    assert document["errorCode"] == "RESOURCE_LIMIT_EXCEEDED"
    assert "jsonPredicateHints" in document["message"]
    event["body"] = '{"maxFiles": 10000}'
    assert query_table.invoke(event).answer["statusCode"] == 200, "a page is never too large"
    event["body"] = '{"limitHint": 10}'
    assert query_table.invoke(event).answer["statusCode"] == 200, "the function must keep working"


# A function that returns an answer of a given size.
PROBE = """
from core.api.requests.request import Request
from core.api.response import Response
from core.runtime import events
def lambda_handler(event, context):
    if event.get("unchecked"):
        events.MAX_ANSWER_BYTES *= 2
    body = b'"\\\\\\n' * 10_000 + b"x" * event["more"]
    return events.buffered_response(Response(200, {}, iter([body])), Request("GET"))
"""


def test_our_size_limit_equals_the_limit_of_the_runtime(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    environment = {"PYTHONPATH": str(env.packages / "host" / "thin")}
    with running_function(tmp_path, "probe.lambda_handler", environment) as function:
        smallest = len(function.invoke({"more": 0}).text.encode())
        more = MAX_ANSWER_BYTES - smallest
        assert len(function.invoke({"more": more}).text.encode()) == MAX_ANSWER_BYTES
        assert "AnswerTooLargeError" in function.invoke({"more": more + 1}).text
        assert "ResponseSizeTooLarge" in function.invoke({"more": more + 1, "unchecked": True}).text


def test_a_function_answers_before_it_times_out_and_the_next_request_succeeds(env: Environment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # Accepts connections but never responds.
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with env.run("list_shares", timeout_seconds=10, AWS_ENDPOINT_URL=endpoint) as function:
            event = env.event("list_shares")
            event["headers"]["Accept-Encoding"] = "identity"
            late = function.invoke(event).answer
            assert late["statusCode"] == 400, late
            assert json.loads(late["body"])["errorCode"] == "DEADLINE_EXCEEDED"
            no_token = json.loads((ROOT / "events" / "list_shares_no_token.json").read_text())
            assert function.invoke(no_token).answer["statusCode"] == 401
