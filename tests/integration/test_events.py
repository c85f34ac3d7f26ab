"""Runs the sample events through the functions of the template, unchanged and with a valid token."""

import base64
import gzip
import importlib
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from jsonschema import Draft202012Validator

from cli.embedded.ministack import embedded_aws
from cli.embedded.mirror import Mirror
from cli.embedded.setup import DATA_BUCKET, catalog_admin, s3_client, set_up
from cli.serve.routes import read_routes
from core.sharing.services import process_services
from infra.openapi import OUTPUT

OPENAPI = yaml.safe_load(OUTPUT.read_text())
ROUTES = read_routes()
EVENTS = {path.stem: path.read_text() for path in (Path(__file__).parents[2] / "events").glob("*.json")}
PLACEHOLDER = "slc_a-placeholder-and-no-token"

WITHOUT_TOKEN = {name for name, text in EVENTS.items() if PLACEHOLDER not in text}
UNKNOWN = {"unknown_route": 404, "unknown_route_method": 405, "unknown_route_head": 405}
NOT_FOUND = {"query_status"}  # no query has the id of the sample event


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Sets up an embedded AWS with the tables of the events. Returns a token that can read them."""
    trips = tmp_path_factory.mktemp("trips")
    write_deltalake(
        trips,
        pa.table({"date": [date(2024, 12, 31), date(2025, 1, 1)], "km": [3, 4]}),
        partition_by=["date"],
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    with embedded_aws() as aws, pytest.MonkeyPatch.context() as patch:
        environment = set_up(aws)
        location = Mirror(s3_client(aws), DATA_BUCKET).add(trips)
        admin = catalog_admin(aws)
        admin.put_recipient("reader")
        for share, table in (("sales", "trips"), ("sales&marketing", "münchen")):
            admin.put_share(share)
            admin.put_schema(share, "public")
            admin.put_table(share, "public", table, location=location, access_modes=("url", "dir"), history_shared=True)
            admin.grant("reader", share)
        for name, value in environment.items():
            patch.setenv(name, value)
        process_services.cache_clear()
        yield admin.issue_token("reader", lifetime_seconds=3600)[1]
    process_services.cache_clear()


def answer_of(text: str) -> dict[str, object]:
    event = json.loads(text)
    route = ROUTES.match(event["httpMethod"], event["requestContext"]["path"]).route
    module, _, attribute = route.function.handler.rpartition(".")
    answer = getattr(importlib.import_module(module), attribute)(event, object())
    assert json.loads(json.dumps(answer)) == answer, "Lambda serializes the answer as JSON"
    return answer


def check_against_openapi(name: str, answer, body: bytes) -> None:
    """Checks status, media type, headers and body against the description of the route in `docs/openapi.yaml`."""
    event = json.loads(EVENTS[name])
    operation = OPENAPI["paths"][event["resource"]][event["httpMethod"].lower()]
    described = operation["responses"][str(answer["statusCode"])]
    if "$ref" in described:
        described = OPENAPI["components"]["responses"][described["$ref"].rpartition("/")[2]]
    assert answer["headers"].keys() >= described.get("headers", {}).keys() - {"fileidhash"}
    if "content" not in described:
        assert body == b""
        return
    media_type = answer["headers"]["Content-Type"].partition(";")[0]
    schema = {**described["content"][media_type]["schema"], "components": OPENAPI["components"]}
    documents = body.splitlines() if media_type == "application/x-ndjson" else [body]
    for document in documents:
        Draft202012Validator(schema).validate(json.loads(document))


def body_of(name: str, answer) -> bytes:
    """Returns the body. Checks that it is gzipped if and only if it is not empty and the request accepts gzip."""
    headers = json.loads(EVENTS[name])["headers"]
    body = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"].encode()
    zipped = answer["headers"].get("Content-Encoding") == "gzip"
    assert zipped == answer["isBase64Encoded"] == (bool(body) and "gzip" in headers["Accept-Encoding"])
    return gzip.decompress(body) if zipped else body


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_without_a_valid_token_gets_an_error_in_the_form_of_the_protocol(name):
    answer = answer_of(EVENTS[name])
    assert answer["statusCode"] == UNKNOWN.get(name, 401)
    body = body_of(name, answer)
    if json.loads(EVENTS[name])["httpMethod"] == "HEAD":
        assert body == b""
    else:
        assert list(json.loads(body)) == ["errorCode", "message"]
        assert answer["headers"]["Content-Type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("name", "allowed"), [("unknown_route_method", "GET"), ("unknown_route_head", "GET"), ("unknown_route", None)]
)
def test_the_response_to_a_wrong_method_lists_the_allowed_ones(name, allowed):
    assert answer_of(EVENTS[name])["headers"].get("Allow") == allowed


@pytest.mark.parametrize("name", sorted(EVENTS.keys() - WITHOUT_TOKEN - UNKNOWN.keys()))
def test_an_event_with_a_valid_token_gets_the_response_that_openapi_describes(name, token):
    answer = answer_of(EVENTS[name].replace(PLACEHOLDER, token))
    body = body_of(name, answer)
    assert answer["statusCode"] == (404 if name in NOT_FOUND else 200), body
    check_against_openapi(name, answer, body)
    if name.startswith("table_version"):
        assert (answer["headers"]["Delta-Table-Version"], body) == ("0", b"")
    elif "ndjson" in answer["headers"]["Content-Type"]:
        assert [next(iter(json.loads(line))) for line in body.splitlines()[:2]] == ["protocol", "metaData"]
    else:
        assert isinstance(json.loads(body), dict)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("query_table_json_predicate", 1),
        ("query_table_plain", 2),
        ("query_table_version", 2),
        ("query_table_encoded_names", 2),
        ("query_table_delta", 2),
        ("query_table_starting_version", 2),
        ("table_changes", 2),
        ("table_changes_delta", 2),
    ],
)
def test_the_response_lists_the_requested_files(name, files, token):
    body = body_of(name, answer_of(EVENTS[name].replace(PLACEHOLDER, token)))
    assert len(body.splitlines()) == 2 + files


TABLE_ROUTES = ["table_version", "table_metadata", "query_table", "table_changes", "temporary_table_credentials"]


@pytest.mark.parametrize("name", TABLE_ROUTES)
def test_a_server_without_a_storage_role_answers_400_without_the_name_of_the_setting(name, token, monkeypatch):
    monkeypatch.delenv("SLUICE_STORAGE_ROLE_ARN")
    process_services.cache_clear()
    answer = answer_of(EVENTS[name].replace(PLACEHOLDER, token))
    process_services.cache_clear()
    body = body_of(name, answer)
    assert answer["statusCode"] == 400
    assert json.loads(body)["errorCode"] == "RESOURCE_DOES_NOT_EXIST"
    assert b"contact your share provider" in body
    assert b"SLUICE" not in body
