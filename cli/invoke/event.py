"""Reads an API Gateway event, finds its function in the template, and puts a token into it."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cli.common.errors import CommandError
from cli.serve.routes import ANY, Function, Route

STDIN = Path("-")


def load_event(path: Path) -> dict[str, Any]:
    """Reads an event from a file, or from stdin if the path is `-`."""
    return _json_object(sys.stdin.read() if path == STDIN else _text(path), path)


def find_function(routes: Iterable[Route], event: dict[str, Any], name: str | None, path: Path) -> Function:
    """Returns the function called `name`, or without a name, the one of the event's resource and method."""
    every = list(routes)
    if name is not None:
        return _named(every, name)
    method, resource = event.get("httpMethod"), event.get("resource")
    if not isinstance(method, str) or not isinstance(resource, str):
        raise CommandError(
            f"{path} is not an API Gateway event: it needs `resource` and `httpMethod`. {_choice(every)}"
        )
    for route in every:  # a route with a method comes before one with any method
        if route.resource == resource and route.method in (method.upper(), ANY):
            return route.function
    raise CommandError(f"The template has no route {method} {resource}. {_choice(every)}")


def with_token(event: dict[str, Any], profile: Path) -> dict[str, Any]:
    """Returns the event with the bearer token of a profile file instead of its own."""
    token = _json_object(_text(profile), profile).get("bearerToken")
    if not isinstance(token, str):
        raise CommandError(f"{profile} is not a profile file: it has no `bearerToken`.")
    bearer = f"Bearer {token}"
    return {
        **event,
        "headers": {**_without_authorization(event.get("headers")), "Authorization": bearer},
        "multiValueHeaders": {**_without_authorization(event.get("multiValueHeaders")), "Authorization": [bearer]},
    }


def _without_authorization(headers: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (headers or {}).items() if name.lower() != "authorization"}


def _named(routes: Iterable[Route], name: str) -> Function:
    """Finds a function by its name in the template or by that of its module: `QueryTable` or `query_table`."""
    wanted = name.replace("_", "").lower()
    for route in routes:
        if route.function.name.lower() == wanted:
            return route.function
    raise CommandError(f"The template has no function '{name}'. {_choice(routes)}")


def _choice(routes: Iterable[Route]) -> str:
    return f"Choose one with --function: {', '.join(sorted({route.function.name for route in routes}))}."


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not a text file.") from error


def _json_object(text: str, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CommandError(f"{path} is not JSON: {error}.") from error
    if not isinstance(document, dict):
        raise CommandError(f"{path} is not a JSON object.")
    return document
