"""The log line of every route names the recipient and the id of the token, also if the token has expired."""

import importlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.serve.routes import ANY, read_routes
from core.runtime.observability import logger
from core.sharing.services import process_services
from tests.unit.catalog.environment import Environment, moto_client

EVENTS = Path(__file__).parents[3] / "events"
PLACEHOLDER = "slc_a-placeholder-and-no-token"
HANDLERS = sorted({route.function.handler.split(".")[1] for route in read_routes() if route.method != ANY})


@pytest.fixture(scope="module")
def env() -> Iterator[Environment]:
    """A catalog that the functions of this process use."""
    with moto_client() as client, pytest.MonkeyPatch.context() as patch:
        environment = Environment(client)
        environment.admin.put_recipient("acme")
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"):
            patch.delenv(name, raising=False)
        patch.setenv("SLUICE_CATALOG_TABLE", environment.table_name)
        patch.setenv("AWS_REGION", "us-east-1")
        process_services.cache_clear()
        yield environment
    process_services.cache_clear()


@pytest.fixture
def log_lines() -> Iterator[list[str]]:
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(logger.registered_formatter.format(record))

    collector = Collect()
    logger.addHandler(collector)
    logger.setLevel("INFO")
    yield lines
    logger.removeHandler(collector)


@pytest.mark.parametrize("handler", HANDLERS)
def test_every_route_logs_the_id_of_the_token(handler: str, env: Environment, log_lines: list[str]) -> None:
    (event,) = [path.read_text() for path in EVENTS.glob(f"{handler}.json")]
    assert PLACEHOLDER in event
    function = importlib.import_module(f"handlers.{handler}").lambda_handler
    token, secret = env.admin.issue_token("acme", lifetime_seconds=60)
    answer = function(json.loads(event.replace(PLACEHOLDER, secret)), object())
    (line,) = log_lines
    # The recipient has no grants, so every table is a 404.
    assert answer["statusCode"] == (200 if handler == "list_shares" else 404)
    logged = json.loads(line)
    assert (logged["recipient"], logged["token_id"]) == ("acme", token.id)
    assert secret not in line
    assert token.sha256 not in line


def test_the_log_tells_which_expired_token_was_used(env: Environment, log_lines: list[str]) -> None:
    event = (EVENTS / "list_shares_plain.json").read_text()
    env.clock.seconds, now = 1_700_000_000, env.clock.seconds
    token, secret = env.admin.issue_token("acme", lifetime_seconds=60)
    env.clock.seconds = now
    function = importlib.import_module("handlers.list_shares").lambda_handler
    answer = function(json.loads(event.replace(PLACEHOLDER, secret)), object())
    assert "The bearer token expired at 2023-11-14T22:14:20Z." in json.loads(answer["body"])["message"]
    logged = json.loads(log_lines[0])
    assert (logged["status"], logged["recipient"], logged["token_id"]) == (401, "acme", token.id)


def test_the_log_does_not_name_a_recipient_for_an_unknown_token(env: Environment, log_lines: list[str]) -> None:
    event = json.loads((EVENTS / "list_shares.json").read_text())
    importlib.import_module("handlers.list_shares").lambda_handler(event, object())
    logged = json.loads(log_lines[0])
    assert (logged["status"], logged.get("recipient"), logged.get("token_id")) == (401, None, None)
