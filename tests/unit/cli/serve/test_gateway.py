"""HTTP requests as events of API Gateway, and results of functions as HTTP responses."""

import base64
import json
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.serve.gateway import HttpRequest, LambdaContext, http_response, proxy_event
from cli.serve.routes import Function, read_routes
from core.runtime.events import request_from_event
from tests.examples import examples

EVENTS = sorted((Path(__file__).parents[4] / "events").glob("*.json"))
NOW = 1_763_251_200.5
ROUTES = read_routes()


def event_of(request: HttpRequest):
    return proxy_event(request, ROUTES.match(request.method, request.path), now=NOW)


def test_an_event_has_the_request_in_the_form_of_a_rest_api():
    event = event_of(
        HttpRequest(
            "POST",
            "/delta-sharing/shares/a%2Fb/schemas/d/tables/t%20t/query",
            query="x=1&x=%C3%A9+2&empty",
            headers=(("Accept", "a"), ("Accept", "b"), ("User-Agent", "test/1")),
            body=b'{"limitHint": 1}',
            source_ip="192.0.2.7",
            request_id="id-1",
        )
    )
    assert event["resource"] == "/shares/{share}/schemas/{schema}/tables/{table}/query"
    assert event["path"] == "/shares/a%2Fb/schemas/d/tables/t%20t/query"
    assert event["httpMethod"] == "POST"
    assert event["pathParameters"] == {"share": "a%2Fb", "schema": "d", "table": "t%20t"}
    assert event["queryStringParameters"] == {"x": "é 2", "empty": ""}
    assert event["multiValueQueryStringParameters"] == {"x": ["1", "é 2"], "empty": [""]}
    assert event["headers"] == {"Accept": "b", "User-Agent": "test/1"}
    assert event["multiValueHeaders"] == {"Accept": ["a", "b"], "User-Agent": ["test/1"]}
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == b'{"limitHint": 1}'
    context = event["requestContext"]
    assert context["requestId"] == "id-1"
    assert context["resourcePath"] == event["resource"]
    assert context["stage"] == "delta-sharing"
    assert context["path"] == "/delta-sharing" + event["path"]
    assert context["identity"]["sourceIp"] == "192.0.2.7"
    assert context["identity"]["userAgent"] == "test/1"
    assert context["requestTime"] == "16/Nov/2025:00:00:00 +0000"
    assert context["requestTimeEpoch"] == 1_763_251_200_500


def test_missing_parts_of_a_request_are_null():
    event = event_of(HttpRequest("GET", "/delta-sharing/shares"))
    assert event["body"] is None
    assert event["isBase64Encoded"] is False
    for absent in (
        "queryStringParameters",
        "multiValueQueryStringParameters",
        "pathParameters",
        "stageVariables",
    ):
        assert event[absent] is None


@settings(deadline=None, max_examples=examples(100))
@given(body=st.binary(max_size=200), query=st.dictionaries(st.text(), st.text(), max_size=4))
def test_a_handler_reads_from_the_event_what_the_client_sent(body, query):
    encoded = urlencode(query)
    path = "/delta-sharing/shares/s/schemas/d/tables/t/query"
    request = request_from_event(event_of(HttpRequest("POST", path, encoded, body=body)))
    assert request.body == body
    assert request.query == query


def test_an_event_is_json():
    event = event_of(HttpRequest("GET", "/delta-sharing/shares", "a=1", (("Host", "h"),), b"\xff\x00"))
    assert json.loads(json.dumps(event)) == event


def test_multi_value_headers_override_single_ones():
    answer = http_response(
        {
            "statusCode": 200,
            "headers": {"A": "1", "B": "2", "Content-Type": "text/plain"},
            "multiValueHeaders": {"A": ["3", "4"]},
            "body": "é",
        }
    )
    assert [value for name, value in answer.headers if name == "A"] == ["3", "4"]
    assert ("B", "2") in answer.headers
    assert ("Content-Length", "2") in answer.headers
    assert answer.body == "é".encode()


def test_a_base64_body_is_decoded_and_content_length_counts_its_bytes():
    answer = http_response(
        {
            "statusCode": 200,
            "headers": {"content-length": "999"},
            "body": base64.b64encode(b"\x1f\x8b\x00").decode(),
            "isBase64Encoded": True,
        }
    )
    assert answer.body == b"\x1f\x8b\x00"
    assert [value for name, value in answer.headers if name.lower() == "content-length"] == ["3"]


def test_a_response_without_a_media_type_is_json_as_on_api_gateway():
    assert ("Content-Type", "application/json") in http_response({"statusCode": 204}).headers


def test_the_context_names_the_function_and_its_remaining_time():
    context = LambdaContext.of(Function("ListShares", "handlers.list_shares.lambda_handler", 512, 28), "id-1")
    assert context.aws_request_id == "id-1"
    assert context.memory_limit_in_mb == "512"
    assert context.invoked_function_arn.endswith(":function:ListShares")
    assert 27_000 < context.get_remaining_time_in_millis() <= 28_000
    assert LambdaContext("F", "id", "1", deadline=0.0).get_remaining_time_in_millis() == 0


@pytest.mark.parametrize("file", EVENTS, ids=lambda file: file.stem)
def test_a_sample_event_equals_the_event_of_its_request(file):
    sample = json.loads(file.read_text())
    context = sample["requestContext"]
    request = HttpRequest(
        sample["httpMethod"],
        context["path"],
        urlencode(sample["multiValueQueryStringParameters"] or {}, doseq=True),
        tuple((name, value) for name, values in sample["multiValueHeaders"].items() for value in values),
        base64.b64decode(sample["body"] or ""),
        context["identity"]["sourceIp"],
        context["requestId"],
    )
    match = ROUTES.match(request.method, request.path)
    assert proxy_event(request, match, now=context["requestTimeEpoch"] / 1000) == sample
