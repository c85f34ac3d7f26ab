"""What `sluice serve` logs about a request."""

import gzip
import json
import logging

import pytest

from cli.serve.gateway import HttpRequest, HttpResponse, SentStream
from cli.serve.logs import MAX_REQUESTS, JsonLog, TextLog, functions_logging, root_handler, serve_log
from cli.serve.streams import BROKEN, CLIENT_LEFT, COMPLETE
from core.runtime.observability import SERVICE, logger

QUERY = HttpRequest("POST", "/delta-sharing/shares/s/schemas/d/tables/t/query", "pageToken=secret", request_id="id-1")
LISTING = HttpRequest(
    "GET", "/delta-sharing/shares", "pageToken=secret", (("authorization", "Bearer slc_secret"),), request_id="id-2"
)


def refusal(message: str, status: int = 400) -> HttpResponse:
    body = json.dumps({"errorCode": "MALFORMED_REQUEST", "message": message}).encode()
    return HttpResponse.of(status, (), body)


def raised(error: Exception) -> Exception:
    """Returns the error with a traceback."""
    try:
        raise error
    except type(error) as caught:
        return caught


@pytest.fixture
def text():
    """Logs refused requests as text, and what functions log at INFO."""
    log = TextLog()
    with functions_logging(log, "INFO"):
        yield log


def test_a_line_shows_neither_token_nor_query(capsys):
    serve_log("text", "WARNING", every_request=True).access(LISTING, HttpResponse.of(200, (), b"12345"), 0.0124)
    assert capsys.readouterr().err == "GET /delta-sharing/shares 200 5 B 12 ms\n"


def test_only_refused_requests_are_logged_by_default(capsys):
    log = TextLog()
    log.access(LISTING, HttpResponse.of(200, (), b"12345"), 0.0124)
    log.access(QUERY, refusal("table files missing"), 0.003)
    expected = "POST /delta-sharing/shares/s/schemas/d/tables/t/query 400 68 B 3 ms: table files missing\n"
    assert capsys.readouterr().err == expected


def test_a_refused_request_is_one_line_with_its_cause(text, capsys):
    cause = raised(PermissionError("An error occurred (AccessDenied)\nwhen calling GetObject"))
    logger.warning("permission denied", exc_info=cause, extra={"request_id": "id-1"})
    assert capsys.readouterr().err == ""
    text.access(QUERY, refusal("permission denied"), 0.003)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        " ms: permission denied (PermissionError: An error occurred (AccessDenied) when calling GetObject)"
    )


def test_what_only_the_server_may_know_stands_next_to_what_the_client_got(text, capsys):
    logger.warning("commit 5, line 3: no path", extra={"request_id": "id-1"})
    text.access(QUERY, refusal("The table cannot be read."), 0.003)
    assert capsys.readouterr().err.endswith(": The table cannot be read. (commit 5, line 3: no path)\n")


def test_a_compressed_refusal_is_readable(capsys):
    body = gzip.compress(refusal("too early").body)
    TextLog().access(QUERY, HttpResponse.of(400, (("Content-Encoding", "gzip"),), body), 0.001)
    assert capsys.readouterr().err.endswith(" ms: too early\n")


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{}"])
def test_a_refusal_without_an_error_object_is_a_line_too(capsys, body):
    TextLog().access(HttpRequest("HEAD", "/x"), HttpResponse.of(404, (), body), 0.001)
    assert capsys.readouterr().err == f"HEAD /x 404 {len(body)} B 1 ms\n"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_at_the_level_error_only_failures_are_logged(capsys, log_format):
    log = serve_log(log_format, "ERROR", every_request=False)
    log.access(QUERY, refusal("refused"), 0.001)
    assert capsys.readouterr().err == ""
    log.access(QUERY, refusal("failed", 500), 0.001)
    assert "failed" in capsys.readouterr().err


def test_a_long_path_does_not_hide_the_status(capsys):
    TextLog().access(HttpRequest("GET", "/" + "x" * 5000), refusal("no"), 0.001)
    printed = capsys.readouterr().err
    assert printed.endswith("x… 400 51 B 1 ms: no\n")
    assert len(printed) < 600


def test_a_message_cannot_forge_or_flood_lines(capsys):
    TextLog().access(QUERY, refusal("share 'a\nGET /x 200\x1b[2J\u2028' " + "y" * 10_000), 0.001)
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "\x1b" not in printed
    assert "\u2028" not in printed
    assert len(printed) < 700


def test_a_failure_has_a_readable_traceback_once(text, capsys):
    logger.error("unhandled exception", exc_info=raised(KeyError("boom")), extra={"request_id": "id-1"})
    text.access(QUERY, refusal("The request could not be answered.", 500), 0.001)
    printed = capsys.readouterr().err
    assert printed.startswith("POST /delta-sharing/shares/s/schemas/d/tables/t/query 500 ")
    assert printed.count("Traceback (most recent call last)") == 1
    assert "{" not in printed


def test_a_stream_that_broke_off_is_a_line_with_its_cause_whatever_its_status(text, capsys):
    text.access(QUERY, SentStream(200, 5, COMPLETE), 0.001)
    text.access(QUERY, SentStream(200, 5, CLIENT_LEFT), 0.001)
    assert capsys.readouterr().err == ""
    logger.error("unhandled exception", exc_info=raised(KeyError("boom")), extra={"request_id": "id-1"})
    text.access(QUERY, SentStream(200, 12_345, BROKEN), 0.83)
    line, *trace = capsys.readouterr().err.splitlines()
    assert line.endswith("/query 200 12345 B 830 ms broken off: unhandled exception (KeyError: 'boom')")
    assert trace[0] == "Traceback (most recent call last):"


def test_every_stream_is_logged_on_request_with_how_it_ended(capsys):
    log = serve_log("text", "WARNING", every_request=True)
    log.access(QUERY, SentStream(200, 5, COMPLETE), 0.001)
    log.access(QUERY, SentStream(200, 5, CLIENT_LEFT), 0.001)
    assert [line[-4:] for line in capsys.readouterr().err.splitlines()] == ["1 ms", "left"]


def test_json_lines_of_streams_say_how_they_ended(capsys):
    log = serve_log("json", "ERROR", every_request=False)
    log.access(QUERY, SentStream(200, 5, COMPLETE), 0.001)
    log.access(QUERY, SentStream(200, 7, BROKEN), 0.001)
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["level"], line["message"], line["bytes"], line["ended"]) == ("ERROR", BROKEN, 7, BROKEN)


def test_at_info_a_line_has_the_fields_of_the_request(text, capsys):
    fields = {"request_id": "id-2", "route": "list_shares", "status": 200, "recipient": "acme", "table": None}
    logger.info("request", extra={**fields, "latency_ms": 3.0})
    text.access(LISTING, HttpResponse.of(200, (), b""), 0.003)
    expected = "GET /delta-sharing/shares 200 0 B 3 ms route=list_shares recipient=acme\n"
    assert capsys.readouterr().err == expected


def test_a_line_that_belongs_to_no_request_is_written_at_once(text, capsys):
    logger.warning("something else")
    assert capsys.readouterr().err == "WARNING something else\n"


def test_requests_without_an_answer_do_not_fill_the_memory(text, capsys):
    for number in range(MAX_REQUESTS + 1):
        logger.warning("left", extra={"request_id": f"left-{number}"})
    for number in (0, MAX_REQUESTS):
        text.access(HttpRequest("GET", "/x", request_id=f"left-{number}"), refusal("no"), 0.0)
    assert [line.endswith("(left)") for line in capsys.readouterr().err.splitlines()] == [False, True]


def test_json_lines_have_the_same_values(capsys):
    log = JsonLog()
    log.access(LISTING, HttpResponse.of(200, (), b"12345"), 0.0124)
    log.access(QUERY, refusal("table files missing"), 0.0034)
    serve_log("json", "WARNING", every_request=True).access(LISTING, HttpResponse.of(200, (), b"12345"), 0.0124)
    refused, answered = map(json.loads, capsys.readouterr().err.splitlines())
    assert refused.pop("timestamp")
    assert refused == {
        "level": "WARNING",
        "message": "refused",
        "service": SERVICE,
        "request_id": "id-1",
        "method": "POST",
        "path": QUERY.path,
        "status": 400,
        "bytes": 68,
        "latency_ms": 3.4,
        "error_code": "MALFORMED_REQUEST",
        "error": "table files missing",
    }
    assert (answered["message"], answered["status"], answered["error"]) == ("answered", 200, None)
    assert "secret" not in json.dumps([refused, answered])


def test_in_json_every_line_of_the_functions_and_of_the_rest_is_json(capsys):
    with functions_logging(JsonLog(), "WARNING"):
        logger.warning("from a function", extra={"request_id": "id-1"})
    handler = root_handler("json")
    record = logging.makeLogRecord({"msg": "%s failed", "args": ("copy",), "levelname": "WARNING", "name": "mirror"})
    handler.handle(record)
    function, other = map(json.loads, capsys.readouterr().err.splitlines())
    assert (function["message"], function["request_id"]) == ("from a function", "id-1")
    assert (other["level"], other["message"], other["location"]) == ("WARNING", "copy failed", "mirror")


def test_the_log_of_the_functions_is_restored_at_the_end():
    functions = logging.getLogger(SERVICE)
    before = functions.level, list(functions.handlers)
    with functions_logging(TextLog(), "ERROR"):
        assert functions.handlers != before[1]
    assert (functions.level, functions.handlers) == before
