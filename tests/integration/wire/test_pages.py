"""Pages and refreshes over HTTP: requests, responses, and every error text."""

import json
import re
import time
from typing import Any

import boto3
import pytest
import requests

from cli.embedded.setup import CATALOG_TABLE
from core.api.requests.query import QueryRequest
from core.api.table_tokens import SnapshotPage
from core.catalog.admin import CatalogAdmin
from core.catalog.reader import Catalog
from core.storage.location import S3Location
from tests.integration.wire.conftest import DELTA, Wire, error, lines

MISMATCH = (
    "Query parameter mismatch detected for the next page query. The query parameter\n"
    "cannot change when querying the next page results."
)
OTHER_TABLE = "The table specified in the {} token does not match the table being queried."
EXPIRED = "The {} token has expired. Please restart the query."
RANGE = {"startingVersion": 0}


def ask(wire: Wire, kind: str, table: str = "growing", capabilities: str | None = None, **more: Any) -> Any:
    """Requests the latest version, a streaming read, or a change feed."""
    if kind == "changes":
        return wire.changes(table, capabilities, **RANGE | more)
    return wire.query(table, capabilities, **(RANGE if kind == "stream" else {}) | more)


def end(response: requests.Response) -> dict[str, Any]:
    return lines(response)[-1]["endStreamAction"]


def page_token(wire: Wire, kind: str, **more: Any) -> str:
    return end(ask(wire, kind, maxFiles=2, **more))["nextPageToken"]


def refresh_token(wire: Wire, table: str = "growing") -> str:
    return end(wire.query(table, includeRefreshToken=True))["refreshToken"]


def shown(content: list[bytes]) -> list[Any]:
    """Returns the files without their URLs, which are signed again for each response."""
    texts = [re.sub(rb'"(url|path)":"[^"]*"|"expirationTimestamp":\d+', b'"":0', line) for line in content]
    return [json.loads(text) for text in texts]


def tokens_of(wire: Wire, days_ago: float) -> Any:
    client = boto3.client("dynamodb", **wire.client_arguments)
    catalog = Catalog(client, CATALOG_TABLE, cache_seconds=0, now=lambda: time.time() - days_ago * 86_400)
    return catalog.find_table(wire.server.token, "modern", "tables", "growing").table_tokens()


@pytest.mark.parametrize("capabilities", [None, DELTA])
@pytest.mark.parametrize("kind", ["query", "stream", "changes"])
@pytest.mark.parametrize("size", [1, 3, 7, 8])
def test_all_pages_together_equal_the_unpaged_response(
    wire: Wire, kind: str, capabilities: str | None, size: int
) -> None:
    whole = ask(wire, kind, capabilities=capabilities)
    assert b"endStreamAction" not in whole.content
    head, files = whole.content.splitlines()[:2], whole.content.splitlines()[2:]
    found: list[bytes] = []
    response = ask(wire, kind, capabilities=capabilities, maxFiles=size)
    for number in range(1, 9):
        assert response.headers["Delta-Table-Version"] == whole.headers["Delta-Table-Version"]
        assert response.headers["delta-sharing-capabilities"] == whole.headers["delta-sharing-capabilities"]
        *content, _ = response.content.splitlines()
        assert content[:2] == head
        found += content[2:]
        ending = end(response)
        assert ending["minUrlExpirationTimestamp"] > time.time() * 1000
        assert ("nextPageToken" in ending) == (number * size < 7)
        if "nextPageToken" not in ending:
            break
        response = ask(wire, kind, capabilities=capabilities, maxFiles=size, pageToken=ending["nextPageToken"])
    assert shown(found) == shown(files)


@pytest.mark.parametrize("kind", ["query", "stream", "changes"])
def test_commits_between_pages_do_not_change_the_pages(wire: Wire, kind: str) -> None:
    """Uses a copy of the table, so that other tests are not affected."""
    admin = CatalogAdmin(boto3.client("dynamodb", **wire.client_arguments), CATALOG_TABLE)
    s3 = boto3.client("s3", **wire.client_arguments)
    origin = S3Location.parse(admin.table("modern", "tables", "growing").location)
    copy = S3Location(origin.bucket, f"copies/{kind}")
    for entry in s3.list_objects_v2(Bucket=origin.bucket, Prefix=origin.key(""))["Contents"]:
        relative = entry["Key"].removeprefix(origin.key(""))
        body = s3.get_object(Bucket=origin.bucket, Key=entry["Key"])["Body"].read()
        s3.put_object(Bucket=copy.bucket, Key=copy.key(relative), Body=body)
    admin.put_table("modern", "tables", f"copy_{kind}", location=copy.uri, history_shared=True)

    first = ask(wire, kind, f"copy_{kind}", maxFiles=4, **{} if kind != "query" else {"includeRefreshToken": True})
    removed = {"remove": {"path": "g", "dataChange": True, "size": 1, "partitionValues": {}}}
    s3.put_object(Bucket=copy.bucket, Key=copy.key(f"_delta_log/{3:020d}.json"), Body=json.dumps(removed).encode())
    assert wire.call("GET", f"copy_{kind}", "version").headers["Delta-Table-Version"] == "3"

    second = ask(wire, kind, f"copy_{kind}", maxFiles=4, pageToken=end(first)["nextPageToken"])
    assert "nextPageToken" not in end(second)
    assert second.content.splitlines()[:2] == first.content.splitlines()[:2]
    urls = re.findall(rb"/([a-g])\?", first.content + second.content)
    assert sorted(urls) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
    if kind == "query":
        refreshed = wire.query(f"copy_{kind}", refreshToken=end(first)["refreshToken"])
        assert refreshed.headers["Delta-Table-Version"] == "2"
        assert refreshed.content.splitlines()[:2] == first.content.splitlines()[:2]
        assert len(lines(refreshed)) == 9
        assert len(lines(wire.query(f"copy_{kind}"))) == 8


class TestEndOfStream:
    def test_an_end_stream_action_is_sent_only_on_request(self, wire: Wire) -> None:
        for kind in ("query", "stream", "changes"):
            assert "endStreamAction" not in lines(ask(wire, kind))[-1]
            assert "endStreamAction" not in lines(ask(wire, kind, pageToken=page_token(wire, kind)))[-1]
            asked = ask(wire, kind, capabilities="responseformat=parquet;includeendstreamaction=true")
            assert end(asked).keys() == {"minUrlExpirationTimestamp"}
            assert asked.headers["delta-sharing-capabilities"].endswith(";includeendstreamaction=true")

    def test_a_refresh_token_is_sent_only_on_request(self, wire: Wire) -> None:
        assert end(wire.query("growing", includeRefreshToken=True)).keys() == {
            "refreshToken", "minUrlExpirationTimestamp",
        }  # fmt: skip
        assert end(wire.query("growing", includeRefreshToken=True, maxFiles=1)).keys() == {
            "refreshToken", "nextPageToken", "minUrlExpirationTimestamp",
        }  # fmt: skip
        assert end(wire.query("growing", refreshToken=refresh_token(wire), maxFiles=7)).keys() == {
            "minUrlExpirationTimestamp",
        }  # fmt: skip

    def test_without_urls_there_is_no_expiration_timestamp(self, wire: Wire) -> None:
        assert end(wire.query("growing", maxFiles=1, limitHint=0)) == {}

    def test_a_refreshed_query_returns_the_same_files(self, wire: Wire) -> None:
        for capabilities in (None, DELTA):
            first = wire.query("private", capabilities, includeRefreshToken=True)
            again = wire.query("private", capabilities, refreshToken=end(first)["refreshToken"])
            assert shown(again.content.splitlines()) == shown(first.content.splitlines()[:-1])


class TestTokens:
    @pytest.mark.parametrize("kind", ["query", "stream", "changes"])
    def test_page_tokens_are_url_safe(self, wire: Wire, kind: str) -> None:
        assert re.fullmatch("[A-Za-z0-9_-]+", page_token(wire, kind))

    def test_refresh_tokens_are_url_safe(self, wire: Wire) -> None:
        assert re.fullmatch("[A-Za-z0-9_-]+", refresh_token(wire))

    @pytest.mark.parametrize("kind", ["query", "stream", "changes"])
    def test_a_truncated_or_altered_page_token_cannot_be_decoded(self, wire: Wire, kind: str) -> None:
        token = page_token(wire, kind)
        swapped = "A" if token[40] != "A" else "B"
        for bad in (token[:-1], token[1:], token[:20], token + "A", token[:40] + swapped + token[41:], "", "é", "=="):
            text = f"Error decoding the page token: {bad[:100]}."
            assert error(ask(wire, kind, pageToken=bad)) == (400, "INVALID_PARAMETER_VALUE", text)
        assert lines(ask(wire, kind, pageToken=token))

    def test_a_truncated_or_altered_refresh_token_cannot_be_decoded(self, wire: Wire) -> None:
        token = refresh_token(wire)
        for bad in (token[:-1], token[1:], token.swapcase(), token + "A", ""):
            text = f"Error decoding refresh token: {bad[:100]}."
            assert error(wire.query("growing", refreshToken=bad)) == (400, "INVALID_PARAMETER_VALUE", text)

    @pytest.mark.parametrize("kind", ["query", "stream", "changes"])
    def test_a_token_for_another_purpose_cannot_be_decoded(self, wire: Wire, kind: str) -> None:
        others = [refresh_token(wire)]
        others += [page_token(wire, "changes")] if kind != "changes" else [page_token(wire, "stream")]
        for other in others:
            assert error(ask(wire, kind, pageToken=other))[2].startswith("Error decoding the page token: ")
        assert error(wire.query("growing", refreshToken=page_token(wire, "query")))[2].startswith(
            "Error decoding refresh token: "
        )

    @pytest.mark.parametrize("kind", ["query", "stream", "changes"])
    def test_a_page_token_of_another_table_has_a_specific_error(self, wire: Wire, kind: str) -> None:
        refused = error(ask(wire, kind, "feed", pageToken=page_token(wire, kind)))
        assert refused == (400, "INVALID_PARAMETER_VALUE", OTHER_TABLE.format("page"))

    def test_a_refresh_token_of_another_table_has_a_specific_error(self, wire: Wire) -> None:
        refused = error(wire.query("feed", refreshToken=refresh_token(wire)))
        assert refused == (400, "INVALID_PARAMETER_VALUE", OTHER_TABLE.format("refresh"))

    @pytest.mark.parametrize(
        ("kind", "change"),
        [
            ("query", {"limitHint": 1}),
            ("query", {"predicateHints": ["id = 1"]}),
            ("query", {"startingVersion": 0}),
            ("stream", {"endingVersion": 2}),
            ("changes", {"endingVersion": 2}),
        ],
    )
    def test_a_page_token_of_another_query_has_a_specific_error(
        self, wire: Wire, kind: str, change: dict[str, Any]
    ) -> None:
        refused = error(ask(wire, kind, pageToken=page_token(wire, kind), **change))
        assert refused == (400, "INVALID_PARAMETER_VALUE", MISMATCH)

    def test_a_token_of_another_recipient_cannot_be_decoded(self, wire: Wire) -> None:
        admin = CatalogAdmin(boto3.client("dynamodb", **wire.client_arguments), CATALOG_TABLE)
        admin.put_recipient("neighbour")
        admin.grant("neighbour", "modern")
        _, secret = admin.issue_token("neighbour", lifetime_seconds=3600)
        page, refresh = page_token(wire, "query"), refresh_token(wire)
        path = "/shares/modern/schemas/tables/tables/growing/query"
        for body, text in (({"pageToken": page}, "Error decoding the page"), ({"refreshToken": refresh}, "Error deco")):
            assert wire.server.call("POST", path, json=body).status_code == 200
            assert error(wire.server.call("POST", path, json=body, token=secret))[2].startswith(text)

    def test_an_expired_token_has_a_specific_error(self, wire: Wire) -> None:
        query = QueryRequest()
        page = SnapshotPage(2, "-1:0", "", 1, 0)
        for days_ago, expected in ((0.9, "Table version 2 can no longer"), (1.1, EXPIRED.format("page"))):
            token = tokens_of(wire, days_ago).issue_page(query, page)
            assert error(wire.query("growing", pageToken=token))[2].startswith(expected)
        for hours_ago, expected in ((0.9, "Table version 2 can no longer"), (1.1, EXPIRED.format("refresh"))):
            token = tokens_of(wire, hours_ago / 24).issue_refresh(2, "-1:0", "")
            assert error(wire.query("growing", refreshToken=token))[2].startswith(expected)
