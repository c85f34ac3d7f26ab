"""The routes of `infra/template.yaml`, the one list of them, and which of them a request means.

Paths are matched segment by segment while still percent-encoded, as a REST API does: a `%2F` stays inside its
segment.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from core.errors import MethodNotAllowedError, NotFoundError

TEMPLATE = Path(__file__).parents[2] / "infra" / "template.yaml"
PREFIX = "/delta-sharing"


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    handler: str
    """As Lambda names it: `handlers.list_shares.lambda_handler`."""
    memory_mb: int
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    resource: str
    """The path with its variables: `/delta-sharing/shares/{share}`."""
    function: Function

    def match(self, path: str) -> dict[str, str] | None:
        """The path's variables, still encoded, or None if this is another route's path."""
        pattern, segments = self.resource.split("/"), path.split("/")
        if len(pattern) != len(segments):
            return None
        variables = {}
        for expected, segment in zip(pattern, segments, strict=True):
            if _is_variable(expected) and segment:
                variables[expected[1:-1]] = segment
            elif expected != segment:
                return None
        return variables


@dataclass(frozen=True, slots=True)
class Match:
    route: Route
    path_parameters: dict[str, str]


class Routes:
    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = tuple(sorted(routes, key=_exact_segments_first))

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def match(self, method: str, path: str) -> Match:
        matches = [Match(route, variables) for route in self._routes if (variables := route.match(path)) is not None]
        if not matches:
            raise NotFoundError("There is no such route.")
        resource = matches[0].route.resource
        allowed = [match for match in matches if match.route.resource == resource]
        for match in allowed:
            if match.route.method == method:
                return match
        methods = tuple(sorted(match.route.method for match in allowed))
        raise MethodNotAllowedError(f"{method} is not allowed here.", allowed=methods)


def read_routes(template: Path = TEMPLATE, *, prefix: str = PREFIX) -> Routes:
    """The routes of a SAM template; another `prefix` takes the place of the template's own."""
    document = yaml.load(template.read_text(), Loader=_TemplateLoader)  # noqa: S506 - a safe loader with more tags
    defaults = document["Globals"]["Function"]
    return Routes(
        Route(
            event["Properties"]["Method"].upper(),
            prefix + event["Properties"]["Path"].removeprefix(PREFIX),
            _function(name, {**defaults, **resource["Properties"]}),
        )
        for name, resource in document["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
        for event in resource["Properties"]["Events"].values()
        if event["Type"] == "Api"
    )


def _exact_segments_first(route: Route) -> list[bool]:
    return [_is_variable(segment) for segment in route.resource.split("/")]


def _is_variable(segment: str) -> bool:
    return segment.startswith("{")


def _function(name: str, properties: dict[str, Any]) -> Function:
    return Function(name, properties["Handler"], properties["MemorySize"], properties["Timeout"])


class _TemplateLoader(yaml.SafeLoader):
    """Reads CloudFormation's short forms (`!Ref`, `!Sub` …) as the text they stand before."""


_TemplateLoader.add_multi_constructor("!", lambda loader, _, node: loader.construct_scalar(node))
