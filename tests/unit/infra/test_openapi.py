"""`docs/openapi.yaml` is valid, up to date and covers every route and every field of the request models."""

import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from cli.serve.routes import ANY, read_routes
from infra.openapi import OPERATIONS, OUTPUT, PARTS, render

DOCUMENT = yaml.safe_load(OUTPUT.read_text())
ROUTES = [route for route in read_routes() if route.method != ANY]


def test_the_description_is_up_to_date():
    assert render() == OUTPUT.read_text(), "Run `make openapi`."


def test_the_description_is_valid():
    validate(DOCUMENT, cls=OpenAPIV31SpecValidator)


def test_every_route_has_an_operation_and_every_operation_a_route():
    described = {(method.upper(), path) for path, operations in DOCUMENT["paths"].items() for method in operations}
    assert described == {(route.method, route.resource) for route in ROUTES}
    assert OPERATIONS.keys() == {route.function.name for route in ROUTES}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.resource}")
def test_every_operation_documents_missing_tokens_and_throttling(route):
    responses = DOCUMENT["paths"][route.resource][route.method.lower()]["responses"]
    assert {"400", "401", "429", "500", "504"} <= responses.keys()


def test_the_body_of_a_query_has_the_fields_of_the_protocol():
    assert DOCUMENT["components"]["schemas"]["QueryRequest"]["properties"].keys() == {
        "predicateHints",
        "jsonPredicateHints",
        "limitHint",
        "version",
        "timestamp",
        "startingVersion",
        "endingVersion",
        "includeHistoricalProtocol",
        "maxFiles",
        "pageToken",
        "includeRefreshToken",
        "refreshToken",
        "idempotencyKey",
    }


def test_the_change_data_feed_has_the_parameters_of_the_protocol():
    parameters = DOCUMENT["paths"]["/shares/{share}/schemas/{schema}/tables/{table}/changes"]["get"]["parameters"]
    assert {parameter["name"] for parameter in parameters if parameter.get("in") == "query"} == {
        "startingVersion",
        "startingTimestamp",
        "endingVersion",
        "endingTimestamp",
        "includeHistoricalMetadata",
        "includeHistoricalProtocol",
        "maxFiles",
        "pageToken",
    }


def test_every_field_description_and_every_schema_is_used():
    parts = yaml.safe_load(PARTS.read_text())
    text = OUTPUT.read_text()
    assert all(f"#/components/schemas/{name}" in text for name in parts["schemas"])
    properties = {
        name
        for model in ("QueryRequest", "QueryStatusRequest", "CredentialsRequest")
        for name in DOCUMENT["components"]["schemas"][model]["properties"]
    }
    query_parameters = {
        parameter["name"]
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if "name" in parameter
    }
    assert parts["fields"].keys() == properties | query_parameters
