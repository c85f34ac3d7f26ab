"""Runs one invocation and shows its answer."""

import gzip
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from rich.text import Text

from cli.common.account import Account, environment_restored
from cli.common.errors import CommandError
from cli.common.output import Output, console
from cli.common.signals import until_stopped
from cli.invoke import emulator
from cli.invoke.event import find_function, load_event, with_token
from cli.invoke.variables import ROOT, function_variables, load_env_file
from cli.serve.gateway import http_response
from cli.serve.routes import read_routes

GZIP = ("content-encoding", "gzip")


@dataclass(frozen=True, slots=True)
class Answer:
    function: str
    status: int
    headers: dict[str, str]
    body: str
    """Decoded and decompressed."""


def invoke_event(
    account: Account, path: Path, name: str | None, env_file: Path | None, profile: Path | None, output: Output
) -> Answer | None:
    """Returns the answer of the event's function, or None if a signal stopped it."""
    event = load_event(path)
    function = find_function(read_routes(), event, name, path)
    if profile:
        event = with_token(event, profile)
    with environment_restored():
        if env_file:
            load_env_file(env_file)
        variables = function_variables(account, function)
    _install(output)
    result = None
    with (
        until_stopped(),
        emulator.running_function(
            ROOT, function.handler, variables, timeout_seconds=function.timeout_seconds, log=sys.stderr
        ) as running,
    ):
        result = running.invoke(event).text
    return None if result is None else answer_of(function.name, result)


def _install(output: Output) -> None:
    if not emulator.is_installed():
        output.note("Installing AWS's runtime emulator, which is part of SAM CLI, for this and later invocations.")
    with console(sys.stderr).status("Installing"):
        emulator.install()


def answer_of(function: str, text: str) -> Answer:
    """Returns the HTTP response, as API Gateway would send it. Raises if the function failed or timed out."""
    try:
        result = json.loads(text)
    except ValueError:
        raise CommandError(f"The function {function} failed: {text.strip().rstrip('.')}.") from None
    if not isinstance(result, Mapping) or "statusCode" not in result:
        raise CommandError(f"The function {function} failed: {_reason(result)}. Its log says where.")
    response = http_response(result)
    headers = dict(response.headers)
    zipped = any((key.lower(), value) == GZIP for key, value in response.headers)
    body = gzip.decompress(response.body) if zipped and response.body else response.body
    return Answer(function, response.status, headers, body.decode())


def _reason(result: Any) -> str:
    if isinstance(result, Mapping) and "errorMessage" in result:
        return f"{result.get('errorType', 'Error')}: {result['errorMessage']}".rstrip(".")
    return "it returned no HTTP response"


def show_answer(answer: Answer, output: Output, *, with_profile: bool) -> None:
    if output.as_json:
        output.document(
            {"function": answer.function, "status": answer.status, "headers": answer.headers, "body": answer.body}
        )
    else:
        output.print(Text(f"{answer.function} answers {answer.status}", style="bold"))
        for name, value in answer.headers.items():
            output.print(Text(f"{name}: {value}"))
        if answer.body:
            output.print("")
            sys.stdout.write(answer.body.removesuffix("\n") + "\n")
    if answer.status == HTTPStatus.UNAUTHORIZED and not with_profile:
        output.note("Sample events hold a placeholder instead of a token. Use --profile FILE.share to send a token.")
