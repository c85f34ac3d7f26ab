"""A streamed answer that would be too large: reduced statistics, or an error before the first byte."""

import json
import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from core.api import response
from core.api.response import Response, ndjson_response
from core.api.size import AnswerSize
from core.runtime import limit
from core.sharing.answers import table_answer
from core.sharing.call import Call
from tests.unit.delta.builder import PROTOCOL, Action, add, checkpoint, metadata, name
from tests.unit.runtime.streams import Seen, event, query_handle, read, stream
from tests.unit.runtime.test_function import log_lines
from tests.unit.sharing.pages import FEED
from tests.unit.sharing.shared_table import DELTA, SharedTable

__all__ = ["log_lines"]

NUM_FILES = 3000
HEAD = [PROTOCOL, metadata(configuration=FEED, partitionColumns=["p"])]
Lines = list[dict[str, object]]


def files(number: int = NUM_FILES) -> list[Action]:
    """Files with random statistics, half of them in partition `a`. Every tenth file has no number of records."""
    noise = random.Random(5)

    def one(count: int) -> Action:
        values = {"minValues": {"x": noise.randbytes(150).hex()}}
        stats = values if count % 10 == 0 else {"numRecords": count, **values}
        return add(noise.randbytes(16).hex(), stats=json.dumps(stats), partitionValues={"p": "ab"[count % 2]})

    return [one(count) for count in range(number)]


@cache
def table(*, from_checkpoint: bool) -> SharedTable:
    actions = files()
    if from_checkpoint:
        shared = SharedTable([*HEAD, *actions], [])
        shared.lake.put(name(0, "checkpoint.parquet"), checkpoint(*HEAD, *actions))
        return shared
    cuts = [len(actions) * part // 4 for part in range(5)]
    return SharedTable(HEAD, *(actions[begin:end] for begin, end in pairwise(cuts)))


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Any:
    """All sizes are a fraction of the real ones."""
    monkeypatch.setattr(limit, "SAMPLE_BYTES", 300_000)
    monkeypatch.setattr(limit, "WATCH_BYTES", 400_000)
    monkeypatch.setattr(response, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(table_answer, "FILES_PER_WRITE", 16)

    def to(max_bytes: float) -> None:
        monkeypatch.setattr(limit, "LIMIT", int(max_bytes))

    return to


KINDS: dict[str, dict[str, Any]] = {
    "query": {"method": "POST", "body": {}},
    "predicate": {"method": "POST", "body": {"predicateHints": ["p = 'a'"]}},
    "limit": {"method": "POST", "body": {"limitHint": 10**12}},
    "stream": {"method": "POST", "body": {"startingVersion": 0}},
    "changes": {"method": "GET", "query": {"startingVersion": "0"}},
}


def ask(shared: SharedTable, kind: str, encoding: str, capabilities: str = "", **body: object) -> Seen:
    chosen = KINDS[kind]
    asked = event(chosen["method"], encoding, {**chosen.get("body", {}), **body} if "body" in chosen else None)
    asked["headers"]["delta-sharing-capabilities"] = capabilities
    asked["queryStringParameters"] = chosen.get("query")
    return read(stream(query_handle(shared), asked, unthrottled_bytes=0))


def sent_bytes(shared: SharedTable, kind: str, encoding: str, log: Lines) -> int:
    """Returns the size of an answer in an encoding."""
    ask(shared, kind, encoding)
    return int(str(log.pop()["bytes_sent"]))


def statistics(seen: Seen) -> Iterator[str | None]:
    for document in seen.documents:
        for kind in ("file", "add"):
            if kind in document:
                action = document[kind].get("deltaSingleAction", {"add": document[kind]})
                yield action["add"].get("stats")


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("capabilities", ["", DELTA])
@pytest.mark.parametrize(("kind", "from_checkpoint"), [*((kind, False) for kind in KINDS), ("query", True)])
def test_statistics_shrink_only_if_the_answer_would_be_too_large(
    limited: Any, log_lines: Lines, kind: str, from_checkpoint: bool, capabilities: str, encoding: str
) -> None:
    shared = table(from_checkpoint=from_checkpoint)
    whole = ask(shared, kind, encoding, capabilities)
    size = int(str(log_lines.pop()["bytes_sent"]))

    limited(size * 1.1)
    assert ask(shared, kind, encoding, capabilities).body == whole.body
    assert "stats_reduced" not in log_lines.pop()

    limited(size * 0.85)
    reduced = ask(shared, kind, encoding, capabilities)
    (line,) = log_lines
    assert (line["stats_reduced"], line["ended"]) == (True, "complete")
    assert len(reduced.documents) == len(whole.documents)
    for full, small in zip(whole.documents, reduced.documents, strict=True):
        assert _without_stats(full) == _without_stats(small)
    for full_stats, small_stats in zip(statistics(whole), statistics(reduced), strict=True):
        number = json.loads(full_stats or "{}").get("numRecords")
        assert small_stats == (None if number is None else f'{{"numRecords":{number}}}')


def _without_stats(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return {key: _without_stats(value) for key, value in document.items() if key != "stats"}


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_even_then_is_an_error_with_advice(
    limited: Any, log_lines: Lines, kind: str, encoding: str
) -> None:
    limited(100_000)
    seen = ask(table(from_checkpoint=False), kind, encoding)
    (document,) = seen.documents
    assert (seen.status, document["errorCode"]) == (400, "RESOURCE_LIMIT_EXCEEDED")
    for advice in ("200 MB", "maxFiles", "jsonPredicateHints", "gzip", "temporary table credentials"):
        assert advice in document["message"]
    assert [(line["status"], line["error_code"]) for line in log_lines] == [(400, "RESOURCE_LIMIT_EXCEEDED")]


@pytest.mark.parametrize("kind", ["predicate", "limit"])
def test_a_selective_query_of_a_large_table_keeps_its_statistics(limited: Any, log_lines: Lines, kind: str) -> None:
    others = [add(f"other{number}", partitionValues={"p": "c"}) for number in range(20_000)]
    shared = SharedTable([*HEAD, *files(), *others])
    body = {"limitHint": 2000} if kind == "limit" else {}
    whole = ask(shared, kind, "identity", **body)
    limited(len(whole.body) + 600_000)
    assert ask(shared, kind, "identity", **body).body == whole.body
    assert all("stats_reduced" not in line for line in log_lines)
    assert [line["files_listed"] for line in log_lines] == [len(whole.documents) - 2] * 2


def test_a_long_schema_does_not_count_for_every_file(limited: Any) -> None:
    fields = [{"name": f"c{number}", "type": "long", "nullable": True, "metadata": {}} for number in range(3000)]
    schema = json.dumps({"type": "struct", "fields": fields})
    shared = SharedTable([PROTOCOL, metadata(schemaString=schema), *files()])
    whole = ask(shared, "query", "identity")
    limited(len(whole.body) * 1.05)
    assert ask(shared, "query", "identity").body == whole.body


def test_pages_end_early_and_keep_their_statistics(limited: Any, log_lines: Lines) -> None:
    shared = table(from_checkpoint=True)
    limited(400_000)
    page = ask(shared, "query", "identity", maxFiles=NUM_FILES)
    assert 300_000 < len(page.body) <= 400_000
    assert page.documents[-1]["endStreamAction"]["nextPageToken"]
    assert min(len(stats or "") for stats in statistics(page)) > 300
    assert all("stats_reduced" not in line for line in log_lines)


@pytest.mark.parametrize("kind", ["query", "predicate"])
def test_the_rest_after_a_page_is_projected_without_the_page(limited: Any, log_lines: Lines, kind: str) -> None:
    shared = table(from_checkpoint=True)
    page = ask(shared, kind, "identity", maxFiles=NUM_FILES * 4 // 5 if kind == "query" else NUM_FILES * 2 // 5)
    token = page.documents[-1]["endStreamAction"]["nextPageToken"]
    rest = ask(shared, kind, "identity", pageToken=token)
    limited(len(rest.body) * 1.5)
    assert ask(shared, kind, "identity", pageToken=token).body == rest.body
    assert all("stats_reduced" not in line for line in log_lines)


def growing(size: AnswerSize, *, small: int, large: int) -> Iterator[bytes]:
    """Short lines first, then long ones, unless the statistics are reduced."""
    yield b'{"protocol":{}}\n{"metaData":{}}\n'
    noise = random.Random(3)
    for number in range(small + large):
        stats = "" if size.reduced else noise.randbytes(500 if number >= small else 50).hex()
        size.written += 1
        yield b'{"file":{"stats":"%s"}}\n' % stats.encode()


def growing_answer(*, small: int, large: int, ends_with_action: bool = False, total: int | None = None) -> Any:
    def handle(_: Call) -> Response:
        size = AnswerSize()
        exact = small + large
        size.expect(total or exact, count=None if total is None else lambda: exact)
        lines = growing(size, small=small, large=large)
        return ndjson_response(lines, headers={}, size=size, ends_with_action=ends_with_action)

    return handle


def test_an_answer_that_grows_is_reduced_in_mid_stream(limited: Any, log_lines: Lines) -> None:
    limited(4_000_000)
    seen = read(stream(growing_answer(small=8000, large=8000), event(encoding="identity")))
    assert (seen.complete, len(seen.documents)) == (True, 16_002)
    sizes = [len(stats or "") for stats in statistics(seen)]
    assert (sizes[0], sizes[-1]) == (100, 0)
    assert len(seen.body) <= 4_000_000
    assert log_lines[-1]["stats_reduced"] is True


def test_an_upper_bound_is_made_exact_before_an_answer_is_reduced_in_mid_stream(limited: Any, log_lines: Lines) -> None:
    limited(4_000_000)
    handle = growing_answer(small=8000, large=1000, total=20_000)
    seen = read(stream(handle, event(encoding="identity")))
    assert (seen.complete, len(seen.documents)) == (True, 9_002)
    assert "stats_reduced" not in log_lines[-1]


def test_a_failure_to_count_in_mid_stream_is_a_late_failure(limited: Any, log_lines: Lines) -> None:
    def handle(_: Call) -> Response:
        size = AnswerSize()
        size.expect(20_000, count=lambda: 1 // 0)
        return ndjson_response(growing(size, small=8000, large=1000), headers={}, size=size)

    limited(4_000_000)
    seen = read(stream(handle, event(encoding="identity")))
    assert not seen.complete
    assert [(line["ended"], line["error_code"]) for line in log_lines if line["message"] == "request"] == [
        ("failed", "INTERNAL_ERROR")
    ]


@pytest.mark.parametrize("ends_with_action", [False, True])
def test_an_answer_that_outgrows_the_limit_is_a_late_failure(
    limited: Any, log_lines: Lines, ends_with_action: bool
) -> None:
    def handle(_: Call) -> Response:
        size = AnswerSize()
        size.expect(10)  # too few
        lines = growing(size, small=8000, large=8000)
        return ndjson_response(lines, headers={}, size=size, ends_with_action=ends_with_action)

    limited(1_000_000)
    seen = read(stream(handle, event(encoding="identity")))
    assert len(seen.body) < 1_100_000
    assert log_lines[-1]["error_code"] == "RESOURCE_LIMIT_EXCEEDED"
    if ends_with_action:
        assert seen.error["httpStatusErrorCode"] == 400
    else:
        assert not seen.complete
