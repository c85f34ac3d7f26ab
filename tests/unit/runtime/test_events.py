"""Events in and answers out, as API Gateway hands them over."""

import base64
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.request import Request
from core.api.response import Response
from core.runtime.events import accepts_gzip, buffered_answer, request_from_event


def test_an_event_with_nothing_but_a_method_is_a_request() -> None:
    event = {
        "httpMethod": "GET",
        "headers": None,
        "queryStringParameters": None,
        "pathParameters": None,
        "body": None,
    }
    assert request_from_event(event) == Request("GET")


def test_names_in_the_path_are_decoded_once() -> None:
    event = {
        "httpMethod": "GET",
        "pathParameters": {"share": "a%2Fb%2520c", "schema": "%C3%A9", "table": "%FF"},
    }
    assert request_from_event(event).path == {"share": "a/b%20c", "schema": "é", "table": "\udcff"}


def test_header_names_are_lowered() -> None:
    assert request_from_event({"httpMethod": "GET", "headers": {"X-A": "B"}}).headers == {"x-a": "B"}


def test_a_body_may_come_in_base64() -> None:
    event = {"httpMethod": "POST", "body": base64.b64encode(b"\x00{}").decode(), "isBase64Encoded": True}
    assert request_from_event(event).body == b"\x00{}"
    assert request_from_event({"httpMethod": "POST", "body": "é"}).body == "é".encode()


@given(st.lists(st.text(st.characters(max_codepoint=127))))
def test_a_gzipped_answer_unpacks_to_the_plain_one(chunks: list[str]) -> None:
    def answer(encoding: str) -> dict[str, object]:
        body = (chunk.encode() for chunk in chunks)
        return dict(buffered_answer(Response(200, {}, body), Request("GET", headers={"accept-encoding": encoding})))

    plain, packed = answer("identity"), answer("gzip, deflate")
    if not "".join(chunks):
        assert packed == plain == {"statusCode": 200, "headers": {}, "body": "", "isBase64Encoded": False}
        return
    assert plain["body"] == "".join(chunks)
    assert packed["headers"] == {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    assert gzip.decompress(base64.b64decode(str(packed["body"]))).decode() == plain["body"]


@pytest.mark.parametrize("header", ["gzip", "deflate, GZIP;q=0.5", "*", "*;q=0, gzip", "br;q=1.0, gzip ; q=1"])
def test_gzip_is_used_when_offered(header: str) -> None:
    assert accepts_gzip(header)


@pytest.mark.parametrize(
    "header", ["", "identity", "br", "gzip;q=0", "gzip; q=0.000, br", "gzipped", "*, gzip;q=0", "*;q=0"]
)
def test_gzip_is_not_used_otherwise(header: str) -> None:
    assert not accepts_gzip(header)


def test_head_has_headers_but_no_body() -> None:
    answer = buffered_answer(Response(404, {"A": "b"}, iter([b"body"])), Request("HEAD"))
    assert answer == {"statusCode": 404, "headers": {"A": "b"}, "body": "", "isBase64Encoded": False}
