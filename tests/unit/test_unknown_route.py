"""Requests that match no route, from HTTP through the function of the unknown route."""

import json
import re

import pytest

from cli.serve.gateway import HttpRequest, proxy_event
from cli.serve.routes import ANY, read_routes
from handlers.unknown_route import lambda_handler

ROUTES = read_routes()
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW")
RESOURCES = sorted({route.resource for route in ROUTES if route.method != ANY})


def answer_to(method: str, path: str):
    request = HttpRequest(method, path)
    match = ROUTES.match(method, path)
    assert match.route.function.name == "UnknownRoute"
    return lambda_handler(proxy_event(request, match, now=0), object())


@pytest.mark.parametrize("resource", RESOURCES)
def test_another_method_on_a_known_path_is_a_405_that_lists_the_allowed_methods(resource):
    allowed = sorted(route.method for route in ROUTES if route.resource == resource)
    path = "/delta-sharing" + re.sub(r"{\w+}", "n%C3%A4me.1", resource)
    for method in set(METHODS).difference(allowed):
        answer = answer_to(method, path)
        assert (answer["statusCode"], answer["headers"]["Allow"]) == (405, ", ".join(allowed))
        if method == "HEAD":
            assert answer["body"] == ""
        else:
            assert json.loads(answer["body"]) == {
                "errorCode": "METHOD_NOT_ALLOWED",
                "message": f"{method} is not allowed here.",
            }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "path", ["", "/", "/nowhere", "/shares/", "/shares//schemas", "/SHARES", "/shares/s/schemas/d"]
)
def test_an_unknown_path_is_a_404_for_every_method(method, path):
    answer = answer_to(method, f"/delta-sharing{path}")
    assert (answer["statusCode"], "Allow" in answer["headers"]) == (404, False)
    message = {"errorCode": "RESOURCE_DOES_NOT_EXIST", "message": "There is no such route."}
    assert answer["body"] == "" if method == "HEAD" else json.loads(answer["body"]) == message
