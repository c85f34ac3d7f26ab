"""The template after the SAM translator: which routes stream, and that one parameter switches all of them."""

import re
from typing import Any

import pytest

from cli.serve.routes import read_routes
from tests.deploy.transformed import transformed

INTEGRATION = "x-amazon-apigateway-integration"
ANY_METHOD = "x-amazon-apigateway-any-method"
STREAMING = {"QueryTable", "TableChanges", "QueryStatus"}
BUFFERED_URI = "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/${%s.Arn}/invocations"
STREAMED_URI = (
    "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2021-11-15/functions/${%s.Arn}"
    "/response-streaming-invocations"
)


@pytest.fixture(scope="module")
def streamed() -> dict[str, Any]:
    return transformed()


@pytest.fixture(scope="module")
def buffered() -> dict[str, Any]:
    return transformed(ResponseMode="buffered")


def integrations(resources: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Returns the integration of every method and path."""
    paths = resources["Api"]["Properties"]["Body"]["paths"]
    return {
        ("ANY" if method == ANY_METHOD else method.upper(), path): definition[INTEGRATION]
        for path, methods in paths.items()
        for method, definition in methods.items()
    }


def plain(function: str) -> dict[str, Any]:
    return {"type": "aws_proxy", "httpMethod": "POST", "uri": {"Fn::Sub": BUFFERED_URI % function}}


def test_by_default_the_routes_that_list_files_stream_for_up_to_15_minutes(streamed: dict[str, Any]) -> None:
    expected = {}
    for route in read_routes():
        name = route.function.name
        expected[route.method, route.resource] = plain(name)
        if name in STREAMING:
            expected[route.method, route.resource] |= {
                "uri": {"Fn::Sub": STREAMED_URI % name},
                "responseTransferMode": "STREAM",
                "timeoutInMillis": 900_000,
            }
    assert integrations(streamed) == expected


def test_a_parameter_makes_every_route_answer_at_once(buffered: dict[str, Any]) -> None:
    expected = {(route.method, route.resource): plain(route.function.name) for route in read_routes()}
    assert integrations(buffered) == expected


@pytest.mark.parametrize("function", sorted({route.function.name for route in read_routes()}))
def test_only_functions_that_stream_have_the_wrapper_and_the_time_for_it(
    streamed: dict[str, Any], buffered: dict[str, Any], function: str
) -> None:
    def properties(resources: dict[str, Any]) -> tuple[int, str | None, int]:
        deployed = resources[function]["Properties"]
        wrapper = deployed["Environment"]["Variables"].get("AWS_LAMBDA_EXEC_WRAPPER")
        return deployed["Timeout"], wrapper, deployed["MemorySize"]

    if function in STREAMING:
        assert properties(streamed) == (900, "/var/task/stream", 1769)
        assert properties(buffered) == (28, None, 1769)
    else:
        assert properties(streamed) == properties(buffered)
        assert properties(streamed)[0] <= 28


def test_the_alarm_for_slow_answers_does_not_count_the_transfer_of_a_stream(
    streamed: dict[str, Any], buffered: dict[str, Any]
) -> None:
    def watched(resources: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        alarm = resources["SlowAnswers"]["Properties"]
        dimensions = {dimension["Name"]: dimension["Value"] for dimension in alarm["Dimensions"]}
        return alarm["Namespace"], alarm["MetricName"], dimensions

    stack = {"Ref": "AWS::StackName"}
    assert watched(streamed) == ("Sluice", "FirstByte", {"service": stack, "route": "query_table"})
    assert watched(buffered) == ("AWS/ApiGateway", "Latency", {"ApiName": stack, "Stage": {"Ref": "Prefix"}})


def test_api_gateway_can_invoke_the_function_of_every_route(streamed: dict[str, Any]) -> None:
    permissions = {
        (resource["Properties"]["FunctionName"]["Ref"], resource["Properties"]["SourceArn"]["Fn::Sub"][0])
        for resource in streamed.values()
        if resource["Type"] == "AWS::Lambda::Permission"
    }
    prefix = "arn:aws:execute-api:${AWS::Region}:${AWS::AccountId}:${__ApiId__}/${__Stage__}"
    assert permissions == {
        (route.function.name, f"{prefix}/{'*' if route.method == 'ANY' else route.method}{_wildcards(route.resource)}")
        for route in read_routes()
    }


def _wildcards(path: str) -> str:
    return re.sub(r"{[^}]+}", "*", path)


def test_a_change_of_the_mode_deploys_the_api() -> None:
    """API Gateway serves a new definition only after a new deployment, which is a new resource of the stack."""

    def deployments(resources: dict[str, Any]) -> set[str]:
        return {name for name, resource in resources.items() if resource["Type"] == "AWS::ApiGateway::Deployment"}

    before, after = transformed(now=1_000_000), transformed(now=1_000_060, ResponseMode="buffered")
    assert len(deployments(before)) == len(deployments(after)) == 1
    assert deployments(before) != deployments(after)
