"""Matches requests to the routes of `infra/template.yaml`.

Like a REST API, matches percent-encoded paths segment by segment: a `%2F` stays inside its segment. The prefix of the
endpoint, which is the stage on AWS, comes before each path and is not part of a route.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from core.errors import NotFoundError

TEMPLATE = Path(__file__).parents[2] / "infra" / "template.yaml"
PREFIX = "/delta-sharing"
ANY = "ANY"
STREAM = "RESPONSE_STREAM"


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    handler: str
    """The handler setting in Lambda, such as `handlers.list_shares.lambda_handler`."""
    memory_mb: int
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    """An HTTP method, or `ANY`."""
    resource: str
    """A path with variables, such as `/shares/{share}`. A final `{proxy+}` matches all remaining segments."""
    function: Function
    streams: bool = False
    """Whether the function sends its answer in parts, as it is made."""

    def match(self, path: str) -> dict[str, str] | None:
        """Returns the encoded variables of a path, or None if it does not match."""
        pattern, segments = self.resource.split("/"), path.split("/")
        if _is_greedy(pattern[-1]):
            last = len(pattern) - 1
            segments[last:] = ["/".join(segments[last:])]
        if len(pattern) != len(segments):
            return None
        variables = {}
        for expected, segment in zip(pattern, segments, strict=True):
            if _is_variable(expected) and segment:
                variables[expected.strip("{+}")] = segment
            elif expected != segment:
                return None
        return variables


@dataclass(frozen=True, slots=True)
class Match:
    route: Route
    path: str
    """Without the prefix."""
    path_parameters: dict[str, str]


class Routes:
    def __init__(self, routes: Iterable[Route], *, prefix: str = "") -> None:
        self._routes = tuple(sorted(routes, key=_precedence))
        self._prefix = prefix

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def match(self, method: str, path: str) -> Match:
        """Returns the first route that matches path and method. Paths outside the prefix match none."""
        if f"{path}/".startswith(f"{self._prefix}/"):
            inside = path[len(self._prefix) :] or "/"
            for route in self._routes:
                variables = route.match(inside) if route.method in (method, ANY) else None
                if variables is not None:
                    return Match(route, inside, variables)
        raise NotFoundError("There is no such route.")


def read_routes(template: Path = TEMPLATE, *, prefix: str = PREFIX) -> Routes:
    """Returns the routes of a SAM template, behind a prefix."""
    document = read_template(template)
    defaults = document["Globals"]["Function"]
    return Routes(
        (
            Route(
                event["Properties"]["Method"].upper(),
                event["Properties"]["Path"],
                _function(name, {**defaults, **resource["Properties"]}),
                streams=event["Properties"].get("ResponseTransferMode") == STREAM,
            )
            for name, resource in document["Resources"].items()
            if resource["Type"] == "AWS::Serverless::Function"
            for event in resource["Properties"]["Events"].values()
            if event["Type"] == "Api"
        ),
        prefix=prefix,
    )


def read_template(template: Path = TEMPLATE) -> dict[str, Any]:
    """Reads a CloudFormation template and expands short forms: `!Ref x` becomes `{"Ref": "x"}`."""
    document: dict[str, Any] = yaml.load(template.read_text(), Loader=_TemplateLoader)  # noqa: S506 - a safe loader
    return document


def _precedence(route: Route) -> tuple[list[int], bool]:
    """Sort key in the order of API Gateway: exact segments, variables, greedy variables; a method before ANY."""
    segments = route.resource.split("/")
    return [_is_variable(segment) + _is_greedy(segment) for segment in segments], route.method == ANY


def _is_variable(segment: str) -> bool:
    return segment.startswith("{")


def _is_greedy(segment: str) -> bool:
    return segment.endswith("+}")


def _function(name: str, properties: dict[str, Any]) -> Function:
    return Function(name, properties["Handler"], properties["MemorySize"], _if_streamed(properties["Timeout"]))


def _if_streamed(value: Any) -> Any:
    """Returns the value that a setting has by default, when answers are streamed (`!If [Streamed, value, other]`)."""
    return value["Fn::If"][1] if isinstance(value, dict) else value


class _TemplateLoader(yaml.SafeLoader):
    pass


def _long_form(loader: _TemplateLoader, tag: str, node: yaml.ScalarNode | yaml.SequenceNode) -> dict[str, Any]:
    name = tag if tag in ("Ref", "Condition") else f"Fn::{tag}"
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    text = loader.construct_scalar(node)
    return {name: text.split(".", 1) if tag == "GetAtt" else text}


_TemplateLoader.add_multi_constructor("!", _long_form)
