"""Conversion of API Gateway events to requests and of responses to proxy answers, with the size limit of Lambda."""

import base64
import gzip
import itertools
import json
import random
import zlib
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.api.json import dump_line
from core.api.requests.request import Request
from core.api.response import Response, ndjson_response
from core.api.room import PageRoom
from core.errors import AnswerTooLargeError
from core.runtime import events
from core.runtime.events import (
    MAX_ANSWER_BYTES,
    PAGE_END_BYTES,
    ProxyResponse,
    accepts_gzip,
    buffered_response,
    gzip_compressor,
    request_from_event,
)
from core.runtime.function import function
from tests.examples import examples


def test_an_event_can_have_only_a_method() -> None:
    event = {
        "httpMethod": "GET",
        "headers": None,
        "queryStringParameters": None,
        "pathParameters": None,
        "body": None,
    }
    assert request_from_event(event) == Request("GET")


def test_path_parameters_are_percent_decoded_once() -> None:
    event = {
        "httpMethod": "GET",
        "pathParameters": {"share": "a%2Fb%2520c", "schema": "%C3%A9", "table": "%FF"},
    }
    assert request_from_event(event).path == {"share": "a/b%20c", "schema": "é", "table": "\udcff"}


def test_header_names_become_lower_case() -> None:
    assert request_from_event({"httpMethod": "GET", "headers": {"X-A": "B"}}).headers == {"x-a": "B"}


def test_a_base64_body_is_decoded() -> None:
    event = {"httpMethod": "POST", "body": base64.b64encode(b"\x00{}").decode(), "isBase64Encoded": True}
    assert request_from_event(event).body == b"\x00{}"
    assert request_from_event({"httpMethod": "POST", "body": "é"}).body == "é".encode()


@given(st.lists(st.text(st.characters(max_codepoint=127))))
def test_a_gzipped_answer_decompresses_to_the_plain_one(chunks: list[str]) -> None:
    def answer(encoding: str) -> dict[str, object]:
        body = (chunk.encode() for chunk in chunks)
        return dict(buffered_response(Response(200, {}, body), Request("GET", headers={"accept-encoding": encoding})))

    plain, compressed = answer("identity"), answer("gzip, deflate")
    if not "".join(chunks):
        assert compressed == plain == {"statusCode": 200, "headers": {}, "body": "", "isBase64Encoded": False}
        return
    assert plain["body"] == "".join(chunks)
    assert compressed["headers"] == {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    assert gzip.decompress(base64.b64decode(str(compressed["body"]))).decode() == plain["body"]


@pytest.mark.parametrize("header", ["gzip", "deflate, GZIP;q=0.5", "*", "*;q=0, gzip", "br;q=1.0, gzip ; q=1"])
def test_gzip_is_accepted_if_offered(header: str) -> None:
    assert accepts_gzip(header)


@pytest.mark.parametrize(
    "header", ["", "identity", "br", "gzip;q=0", "gzip; q=0.000, br", "gzipped", "*, gzip;q=0", "*;q=0"]
)
def test_gzip_is_not_accepted_otherwise(header: str) -> None:
    assert not accepts_gzip(header)


def test_the_answer_to_head_has_headers_but_no_body() -> None:
    answer = buffered_response(Response(404, {"A": "b"}, iter([b"body"])), Request("HEAD"))
    assert answer == {"statusCode": 404, "headers": {"A": "b"}, "body": "", "isBase64Encoded": False}


def serialized_size(answer: ProxyResponse) -> int:
    """Returns the size of an answer as the Lambda runtime serializes it."""
    return len(json.dumps(answer, ensure_ascii=False).encode())


def answer_of(body: Iterable[bytes], *, encoding: str = "identity") -> ProxyResponse:
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    return buffered_response(Response(200, headers, iter(body)), Request("GET", headers={"accept-encoding": encoding}))


def text_that_fills_an_answer() -> bytes:
    """Includes characters that JSON writes as one, two and six characters."""
    room = MAX_ANSWER_BYTES - serialized_size(answer_of([]))
    line = b'{"url":"\\\\x"}\x01\n'
    lines = line * (room // (len(json.dumps(line.decode())) - 2))
    return lines + b"x" * (room - (len(json.dumps(lines.decode())) - 2))


def test_an_answer_of_exactly_the_limit_is_sent() -> None:
    answer = answer_of([text_that_fills_an_answer()])
    assert serialized_size(answer) == MAX_ANSWER_BYTES
    one_less = answer_of([text_that_fills_an_answer()[:-1]])
    assert serialized_size(one_less) == MAX_ANSWER_BYTES - 1


def test_an_answer_one_byte_over_the_limit_is_rejected() -> None:
    with pytest.raises(AnswerTooLargeError, match="maxFiles.*predicate.*limitHint.*gzip.*temporary table credentials"):
        answer_of([text_that_fills_an_answer(), b"x"])


def incompressible(size: int) -> bytes:
    return random.Random(4).randbytes(size)


def gzip_room() -> int:
    """Returns the largest size of gzipped content that fits. Base64 grows in steps of four characters."""
    one = answer_of([b"x"], encoding="gzip")
    return (MAX_ANSWER_BYTES - serialized_size(one) + len(one["body"])) // 4 * 3


def compressed_fast(content: bytes) -> bytes:
    compressor = gzip_compressor()
    return compressor.compress(content) + compressor.flush()


def noise_that_compresses_to(room: int) -> bytes:
    """Returns incompressible content whose gzipped size is exactly `room`, or just below it."""
    noise = incompressible(room)
    while (excess := min(len(compressed_fast(noise)), len(zlib.compress(noise, 6, 31))) - room) > 0:
        noise = noise[:-excess]
    return noise


def test_a_gzipped_answer_of_exactly_the_limit_is_sent_and_a_larger_one_is_rejected() -> None:
    noise = noise_that_compresses_to(gzip_room())
    answer = answer_of([noise], encoding="gzip")
    assert MAX_ANSWER_BYTES - 3 <= serialized_size(answer) <= MAX_ANSWER_BYTES
    assert gzip.decompress(base64.b64decode(answer["body"])) == noise
    with pytest.raises(AnswerTooLargeError):
        answer_of([noise, b"xxx"], encoding="gzip")


def test_an_answer_that_fits_only_at_a_higher_level_is_compressed_again() -> None:
    words = [b"%08x" % number for number in random.Random(4).sample(range(2**32), 4000)]
    text = b" ".join(random.Random(5).choices(words, k=1_275_000))
    chunks = [text[start : start + 100_000] for start in range(0, len(text), 100_000)]
    assert len(zlib.compress(text, 6)) < gzip_room() < len(compressed_fast(text)), "the assumption of this test"
    answer = answer_of(chunks, encoding="gzip")
    assert serialized_size(answer) <= MAX_ANSWER_BYTES
    assert gzip.decompress(base64.b64decode(answer["body"])) == text


def page_of(lines: Iterable[bytes], end: bytes, encoding: str) -> ProxyResponse:
    """Returns the answer with the lines that the page has room for, and a last line."""
    room = PageRoom()

    def body() -> Iterator[bytes]:
        for line in lines:
            if not room.take(line):
                break
            yield line
        yield end

    response = ndjson_response(body(), headers={}, room=room)
    return buffered_response(response, Request("GET", headers={"accept-encoding": encoding}))


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@settings(max_examples=examples(25), deadline=None)
@given(
    limit=st.integers(600_000, 700_000),
    sizes=st.lists(st.integers(500, 4_000), min_size=1, max_size=20),
    variety=st.sampled_from([10, 1_000_000]),
)
def test_a_page_of_any_lines_fits_with_its_last_line(encoding: str, limit: int, sizes: list[int], variety: int) -> None:
    """`variety` is the number of different lines, which decides how well they compress."""
    noise = random.Random(limit)
    texts = [noise.randbytes(size).hex() + '"\\\x00' for size in sizes]
    lines = (dump_line([number % variety, texts[number % len(texts)]]) for number in itertools.count())
    end = dump_line(incompressible(PAGE_END_BYTES // 2 - 100).hex())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "MAX_ANSWER_BYTES", limit)
        answer = page_of(lines, end, encoding)
    assert limit - 400_000 < serialized_size(answer) <= limit
    content = gzip.decompress(base64.b64decode(answer["body"])) if encoding == "gzip" else answer["body"].encode()
    assert content.endswith(b"\n" + end)


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_an_endless_answer_is_rejected_without_reading_all_of_it(encoding: str) -> None:
    noise = incompressible(100_000)
    with pytest.raises(AnswerTooLargeError):
        answer_of(itertools.repeat(noise.hex().encode()), encoding=encoding)


def test_the_error_for_a_too_large_answer_has_the_form_of_the_protocol() -> None:
    answer = function("a_route", lambda _: Response(200, {}, itertools.repeat(b"x" * 100_000)))(
        {"httpMethod": "GET"}, object()
    )
    assert answer["statusCode"] == 400
    assert json.loads(answer["body"])["errorCode"] == "RESOURCE_LIMIT_EXCEEDED"
