"""Asynchronous queries over HTTP, as the Spark connector sends them: submit, poll, and read the pages.

The server answers no query from the log (`--async-log-mb 0`), so every query on a table without an index has to wait.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from tests import tables
from tests.server import Server, running_server

SECONDS = 60
EVENTS, PEOPLE, MANY = (f"/shares/sales/schemas/core/tables/{name}" for name in ("events", "people", "many"))
PARQUET = "responseformat=parquet"
DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
# As the connector sends it, with asynchronous queries and end-of-stream actions on.
SPARK = ";asyncquery=true;includeendstreamaction=true"


@dataclass(frozen=True)
class Spark:
    """Sends queries and follows answers like the Spark connector: `getNDJsonWithAsync` and `fetchNextPageFiles`."""

    server: Server
    table: str
    capabilities: str

    def post(self, path: str, body: dict[str, Any]) -> requests.Response:
        headers = {"delta-sharing-capabilities": self.capabilities + SPARK}
        response = self.server.call("POST", self.table + path, json=body, headers=headers)
        assert response.status_code == 200, response.text
        assert response.headers["Delta-Table-Version"].isdecimal()
        return response

    def query(self, key: str, max_files: int | None = None, **body: Any) -> tuple[list[list[bytes]], int]:
        """Returns the lines of each page, and the number of times that the query was pending."""
        paging = {} if max_files is None else {"maxFiles": max_files}
        body = {"predicateHints": [], "includeRefreshToken": True, "idempotency_key": key, **paging, **body}
        response = self.post("/query", body)
        polls, query_id = 0, None
        deadline = time.monotonic() + SECONDS
        while (status := json.loads(response.content.splitlines()[0]).get("queryStatus")) is not None:
            assert time.monotonic() < deadline
            assert status["status"] == "pending"
            assert query_id in (None, status["queryId"])
            assert "includeendstreamaction" not in response.headers["delta-sharing-capabilities"]
            assert "asyncquery=true" in response.headers["delta-sharing-capabilities"]
            query_id, polls = status["queryId"], polls + 1
            poll = {"queryId": query_id, **paging}
            response = self.post(f"/queries/{quote(query_id, safe='')}", poll)
        pages = [response]
        while token := self.end(pages[-1]).get("nextPageToken"):
            path = f"/queries/{query_id}" if query_id else "/query"
            pages.append(self.post(path, {**paging, "pageToken": token, **({"queryId": query_id} if query_id else {})}))
        names = ("Delta-Table-Version", "delta-sharing-capabilities")
        firsts = {(*page.content.splitlines()[:2], *(page.headers[name] for name in names)) for page in pages}
        assert len(firsts) == 1
        return [page.content.splitlines() for page in pages], polls

    def end(self, response: requests.Response) -> dict[str, Any]:
        """The last line must be an endStreamAction, because the server confirmed it."""
        assert "includeendstreamaction=true" in response.headers["delta-sharing-capabilities"]
        return dict(json.loads(response.content.splitlines()[-1])["endStreamAction"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("async")
    tables.events(folder / "events")
    tables.people(folder / "people")
    tables.many_files(folder / "many")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    yield from _server(folder, "--async-log-mb", "0")


@pytest.fixture(scope="module")
def synchronous(folder: Path) -> Iterator[Server]:
    """A server of the same tables that answers at once."""
    yield from _server(folder)


def _server(folder: Path, *options: str) -> Iterator[Server]:
    shared = [
        {"name": name, "location": str(folder / name), "historyShared": True} for name in ("events", "people", "many")
    ]
    shares = {"version": 1, "shares": [{"name": "sales", "schemas": [{"name": "core", "tables": shared}]}]}
    scratch = folder / f"server{len(options)}"
    scratch.mkdir()
    with running_server(scratch, shares, *options) as running:
        yield running


def files_of(pages: list[list[bytes]]) -> dict[str, Any]:
    """The files by id, without what differs between two servers: signatures, and when commits were copied."""
    found: dict[str, Any] = {}
    for page in pages:
        for line in map(json.loads, page[2:]):
            if (file := line.get("file")) is not None:
                assert file["id"] not in found
                file.pop("expirationTimestamp")
                file.pop("url", None)
                file.pop("timestamp", None)
                if "deltaSingleAction" in file:
                    file["deltaSingleAction"]["add"].pop("path")
                found[file["id"]] = file
    return found


@pytest.mark.parametrize("capabilities", [PARQUET, DELTA], ids=["parquet", "delta"])
def test_spark_gets_the_pages_of_an_asynchronous_query(server: Server, capabilities: str) -> None:
    """Asks for a version, whose build is not live, so that the query is asynchronous in every run."""
    spark = Spark(server, MANY, capabilities)
    body = {"version": 0, "includeRefreshToken": False}
    pages, polls = spark.query(f"pages {capabilities}", 100, **body)
    assert polls > 0
    assert [len(page) - 3 for page in pages] == [100, 100, 100]
    whole, polls = spark.query(f"whole {capabilities}", **body)
    assert polls > 0
    assert len(whole) == 1
    assert files_of(pages) == files_of(whole)
    assert len(files_of(pages)) == 300


@pytest.mark.parametrize("capabilities", [PARQUET, DELTA], ids=["parquet", "delta"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"predicateHints": ["day = '2024-01-03'"]},
        {"limitHint": 5},
        {"version": 0, "includeRefreshToken": False},
    ],
    ids=["latest", "predicate", "limit", "version"],
)
def test_the_answer_is_that_of_a_synchronous_query(
    server: Server, synchronous: Server, capabilities: str, body: dict[str, Any]
) -> None:
    pages, _ = Spark(server, EVENTS, capabilities).query(f"{capabilities} {body}", **body)
    expected, polls = Spark(synchronous, EVENTS, capabilities).query("unused", **body)
    assert polls == 0
    assert pages[0][:2] == expected[0][:2]
    if "limitHint" in body:  # the order of the files decides which of them reach the limit
        assert len(pages[0]) == len(expected[0])
    else:
        assert files_of(pages) == files_of(expected)
    names = [json.loads(page[0][-1])["endStreamAction"].keys() for page in (pages, expected)]
    assert names[0] == names[1]


def test_submissions_at_once_and_later_get_one_id(server: Server) -> None:
    headers = {"delta-sharing-capabilities": PARQUET + SPARK}
    body = {"version": 1, "idempotencyKey": "several"}

    def submit(_: int) -> str:
        response = server.call("POST", f"{PEOPLE}/query", json=body, headers=headers)
        return str(response.json()["queryStatus"]["queryId"])

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(submit, range(16)))
    assert len(ids) == 1
    assert submit(0) in ids
    other = server.call("POST", f"{PEOPLE}/query", json={**body, "version": 0}, headers=headers).json()["queryStatus"]
    assert other["queryId"] not in ids


def test_a_client_that_cannot_wait_gets_a_400_with_advice(server: Server) -> None:
    response = server.call("POST", f"{PEOPLE}/query", json={"version": 0})
    assert (response.status_code, response.json()["errorCode"]) == (400, "RESOURCE_LIMIT_EXCEEDED")
    assert "asyncquery=true" in response.json()["message"]
    assert "`sluice index`" in response.json()["message"]


def test_ids_of_other_tables_and_unknown_ids_are_the_same_404(server: Server) -> None:
    headers = {"delta-sharing-capabilities": PARQUET + SPARK}
    body = {"version": 1, "idempotencyKey": "foreign"}
    query_id = server.call("POST", f"{PEOPLE}/query", json=body, headers=headers).json()["queryStatus"]["queryId"]
    answers = [
        server.call("POST", f"{table}/queries/{candidate}", json={}, headers=headers)
        for table, candidate in (
            (EVENTS, query_id),
            (PEOPLE, query_id[::-1]),
            (PEOPLE, query_id[:-1]),
            (PEOPLE, "%00"),
            (PEOPLE, "x"),
        )
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert {answer.text for answer in answers} == {answers[0].text}
    assert server.call("POST", f"{PEOPLE}/queries/{query_id}", token=None).status_code == 401
    assert server.call("POST", f"{PEOPLE}/queries/{query_id}", json={}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "not valid JSON"),
        (b'{"maxFiles": 0}', "maxFiles must be positive."),
        (b'{"maxFiles": "x"}', "Not a numeric value"),
        (b'{"queryId": "other"}', "not the one in the path"),
    ],
)
def test_a_malformed_poll_is_a_400(server: Server, body: bytes, text: str) -> None:
    response = server.call("POST", f"{PEOPLE}/queries/some-id", data=body)
    assert response.status_code == 400
    assert text in response.json()["message"]


def test_metadata_is_answered_as_before(server: Server) -> None:
    assert server.call("GET", f"{PEOPLE}/metadata").status_code == 200


def test_changes_and_streaming_reads_are_answered_as_before(server: Server) -> None:
    headers = {"delta-sharing-capabilities": PARQUET + SPARK}
    body = {"startingVersion": 0, "idempotency_key": "range"}
    response = server.call("POST", f"{PEOPLE}/query", json=body, headers=headers)
    assert "protocol" in json.loads(response.content.splitlines()[0])
