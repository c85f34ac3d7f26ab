"""Bad input over HTTP gets a 4xx in the protocol's form, never a 5xx, and no answer reveals the storage."""

import base64
import json
import random
import socket
import time
from datetime import UTC, datetime
from urllib.parse import urlsplit

import boto3
import pytest
import requests

from cli.embedded.setup import CATALOG_TABLE
from core.api.requests.request import Request
from core.catalog.reader import Catalog
from tests.integration.conftest import Served
from tests.server import Server

QUERY = "/shares/Sales/schemas/Core/tables/People/query"


@pytest.fixture
def server(served: Served) -> Server:
    return served.server


def assert_refused(response: requests.Response, *statuses: int) -> None:
    assert response.status_code in statuses, response.text
    document = response.json()
    assert document.keys() == {"errorCode", "message"}
    assert_shows_no_storage(response.text)


def assert_shows_no_storage(text: str) -> None:
    for secret in (
        "s3://",
        "s3a://",
        "sluice-data",
        "_delta_log",
        "/tmp",
        "Traceback",
        "botocore",
        "arn:aws",
    ):
        assert secret not in text


class TestTokens:
    @pytest.mark.parametrize(
        "authorization",
        [
            None,
            "",
            "Bearer",
            "Bearer ",
            "Bearer slc_",
            "Bearer nonsense",
            "Bearer slc_" + "A" * 43,
            "Bearer slc_" + "é" * 43,
            "Bearer " + "x" * 5000,
            "Basic dXNlcjpwYXNz",
            "slc_" + "A" * 43,
        ],
    )
    @pytest.mark.parametrize("path", ["/shares", "/shares/Sales/schemas/Core/tables/People/metadata"])
    def test_a_missing_or_wrong_token_is_a_401_that_says_how_to_authenticate(
        self, server: Server, path: str, authorization: str | None
    ) -> None:
        headers = {} if authorization is None else {"Authorization": authorization.encode()}
        response = requests.get(server.endpoint + path, headers=headers, timeout=60)  # type: ignore[arg-type]
        assert_refused(response, 401)
        assert response.headers["WWW-Authenticate"].startswith("Bearer realm=")

    def test_a_token_that_differs_in_one_letter_is_a_401(self, server: Server) -> None:
        changed = server.token[:-1] + ("A" if server.token[-1] != "A" else "B")
        assert_refused(server.call("GET", "/shares", token=changed), 401)
        assert_refused(server.call("GET", "/shares", token=server.token.upper()), 401)
        assert_refused(server.call("GET", "/shares", token=server.token + "A"), 401)

    def test_an_expired_token_is_a_401_that_says_when_it_expired(self, served: Served) -> None:
        admin = served.admin(now=lambda: time.time() - 7200)
        admin.put_recipient("late")
        token, secret = admin.issue_token("late", lifetime_seconds=3600)
        response = served.server.call("GET", "/shares", token=secret)
        assert_refused(response, 401)
        expired_at = datetime.fromtimestamp(token.expires_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert f"The bearer token expired at {expired_at}." in response.text

    def test_a_revoked_token_is_a_401_within_the_catalogs_cache_time(self, served: Served) -> None:
        admin = served.admin()
        admin.put_recipient("former")
        token, secret = admin.issue_token("former", lifetime_seconds=3600)
        assert served.server.call("GET", "/shares", token=secret).json() == {"items": []}
        admin.revoke_token("former", token.id)
        revoked_at = asked_at = time.monotonic()
        while served.server.call("GET", "/shares", token=secret).status_code == 200:
            assert asked_at < revoked_at + 5, "the catalog cache time is 5 seconds"
            asked_at = time.monotonic()
        assert_refused(served.server.call("GET", "/shares", token=secret), 401)

    def test_a_share_that_is_not_granted_is_answered_as_one_that_does_not_exist(self, served: Served) -> None:
        admin = served.admin()
        admin.put_recipient("outsider")
        _, secret = admin.issue_token("outsider", lifetime_seconds=3600)
        for path in (
            "/shares/{}",
            "/shares/{}/schemas",
            "/shares/{}/all-tables",
            "/shares/{}/schemas/Core/tables/People",
        ):
            hidden = served.server.call("GET", path.format("Sales"), token=secret)
            absent = served.server.call("GET", path.format("Absent"), token=secret)
            assert_refused(hidden, 404)
            assert hidden.text.replace("Sales", "Absent") == absent.text

    def test_the_scheme_is_case_insensitive(self, server: Server) -> None:
        header = {"Authorization": f"bearer {server.token}"}
        assert requests.get(f"{server.endpoint}/shares", headers=header, timeout=60).status_code == 200


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "..",
            "%2E%2E",
            "%2F",
            "Sales%2Fschemas",
            "%00",
            "%0A",
            "%FF",
            "%F0%9F%98%80",
            "é",
            "x" * 300,
            "a%20b",
            "%25",
            "'--",
            "*",
            "~",
        ],
    )
    def test_an_invalid_name_is_not_found(self, server: Server, name: str) -> None:
        for path in (
            f"/shares/{name}/schemas",
            f"/shares/Sales/schemas/{name}/tables",
            f"/shares/Sales/schemas/Core/tables/{name}/metadata",
        ):
            response = raw_get(server, path)
            assert_refused(response, 404)

    def test_a_path_with_dot_segments_is_not_found(self, server: Server) -> None:
        assert_refused(raw_get(server, "/shares/../../etc/passwd"), 404)


def raw_get(server: Server, path: str) -> requests.Response:
    """Requests the path exactly as written. `requests` itself would resolve dots."""
    session = requests.Session()
    prepared = session.prepare_request(
        requests.Request("GET", server.endpoint, headers={"Authorization": f"Bearer {server.token}"})
    )
    prepared.url = server.endpoint + (path if path.isascii() else requests.utils.quote(path))
    return session.send(prepared, timeout=60)


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b"\xff\xfe\x00",
            b'{"version": "x3"}',
            b'{"version": 1e400}',
            b'{"version": -1}',
            b'{"version": 99999999999999999999999}',
            b'{"limitHint": -1}',
            b'{"maxFiles": 3000000000}',
            b'{"predicateHints": "a"}',
            b'{"predicateHints": [null]}',
            b'{"timestamp": 5}',
            b'{"timestamp": "\\u0000"}',
            b"[" * 200_000,
        ],
    )
    def test_a_malformed_body_is_a_400(self, server: Server, body: bytes) -> None:
        assert_refused(server.call("POST", QUERY, data=body, headers={"Content-Type": "application/json"}), 400)

    @pytest.mark.parametrize(
        "fields",
        [
            {"unknown": 1, "queryDeltaLog": True, "requestedColumns": ["a"]},
            {"filler": "x" * 1_000_000},
            {"predicateHints": ["x = '" + "y" * 1_000_000 + "'"]},
            {"jsonPredicateHints": "[" * 500_000},
            {"jsonPredicateHints": json.dumps({"op": "equal", "children": []})},
            {"limitHint": 2**62},
            {"predicateHints": ["\0", "'; DROP TABLE people; --", "🦆"]},
        ],
    )
    def test_an_odd_but_harmless_body_is_answered_in_full(self, server: Server, fields: dict[str, object]) -> None:
        response = server.call("POST", QUERY, json=fields)
        assert response.status_code == 200, response.text
        assert len(response.content.splitlines()) == 3

    def test_random_bytes_are_answered_or_refused(self, server: Server) -> None:
        rng = random.Random(7)
        for _ in range(60):
            body = rng.randbytes(rng.randrange(200))
            assert server.call("POST", QUERY, data=body).status_code in (200, 400)


class TestHeaders:
    @pytest.mark.parametrize("value", ["responseformat=csv", "responseformat=", "includeendstreamaction=abc"])
    def test_invalid_capabilities_are_a_400(self, server: Server, value: str) -> None:
        assert_refused(server.call("POST", QUERY, json={}, headers={"delta-sharing-capabilities": value}), 400)

    @pytest.mark.parametrize("value", ["", "md5"])
    def test_an_unknown_file_id_hash_is_a_400(self, server: Server, value: str) -> None:
        response = server.call("POST", QUERY, json={}, headers={"fileidhash": value})
        assert_refused(response, 400)
        assert "Supported: parquet, delta" in response.text


class TestChanges:
    @pytest.mark.parametrize(
        "parameters",
        [
            {},
            {"startingVersion": ""},
            {"startingVersion": "9" * 5000},
            {"startingVersion": "-9223372036854775809"},
            {"startingVersion": "0", "endingVersion": "1e3"},
            {"startingTimestamp": ""},
            {"startingTimestamp": "9999-12-31T23:59:59.999-23:59"},
            {"startingTimestamp": "0001-01-01T00:00:00+23:59"},
            {"startingVersion": "0", "endingTimestamp": "0001-01-01T00:00:00+23:59"},
            {"startingVersion": "0", "maxFiles": "99999999999999999999"},
            {"startingVersion": "0", "pageToken": "é" * 3000},
        ],
    )
    def test_parameters_that_are_not_a_valid_range_are_a_400(self, server: Server, parameters: dict[str, str]) -> None:
        assert_refused(server.call("GET", QUERY.replace("query", "changes"), params=parameters), 400)


class TestPageTokens:
    def first_token(self, server: Server, path: str) -> str:
        return str(server.call("GET", path, params={"maxResults": "1"}).json()["nextPageToken"])

    def test_a_token_is_valid_only_for_its_own_list(self, server: Server) -> None:
        lists = [
            "/shares",
            "/shares/Sales/schemas",
            "/shares/Sales/schemas/Core/tables",
            "/shares/Sales/all-tables",
        ]
        for own in lists:
            token = self.first_token(server, own)
            for path in lists:
                response = server.call("GET", path, params={"pageToken": token})
                if path == own:
                    assert response.status_code == 200
                else:
                    assert_refused(response, 400)

    def test_a_truncated_or_altered_token_is_refused(self, server: Server) -> None:
        token = self.first_token(server, "/shares")
        altered = [token[:cut] for cut in range(0, len(token), 7)]
        altered += [
            token + "A",
            token[1:],
            "",
            "====",
            "\0",
            token.swapcase(),
            base64.b64encode(b"{}").decode(),
        ]
        for bad in altered:
            assert_refused(server.call("GET", "/shares", params={"pageToken": bad}), 400)

    def test_an_expired_token_says_to_start_again(self, served: Served) -> None:
        arguments = served.client_arguments
        long_ago = Catalog(
            boto3.client("dynamodb", **arguments), CATALOG_TABLE, cache_seconds=0, now=lambda: time.time() - 5 * 86_400
        )
        first = long_ago.list_shares(served.server.token, Request("GET", query={"maxResults": "1"}))
        response = served.server.call("GET", "/shares", params={"pageToken": first.next_page_token})
        assert_refused(response, 400)
        assert "expired" in response.text

    def test_a_token_of_another_recipient_is_refused(self, served: Served) -> None:
        admin = served.admin()
        admin.put_recipient("neighbour")
        admin.grant("neighbour", "Sales")
        _, secret = admin.issue_token("neighbour", lifetime_seconds=3600)
        token = self.first_token(served.server, "/shares/Sales/schemas")
        own = served.server.call("GET", "/shares/Sales/schemas", params={"pageToken": token})
        assert own.status_code == 200
        assert_refused(
            served.server.call("GET", "/shares/Sales/schemas", params={"pageToken": token}, token=secret), 400
        )


class TestRoutes:
    @pytest.mark.parametrize(
        "path", ["", "/", "/nothing", "/shares/", "/shares/Sales/", "/shares/Sales/tables", "/SHARES"]
    )
    def test_an_unknown_route_is_a_json_404(self, server: Server, path: str) -> None:
        assert_refused(server.call("GET", path), 404)

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("POST", "/shares", "GET"),
            ("DELETE", "/shares/Sales", "GET"),
            ("GET", QUERY, "POST"),
            ("PUT", QUERY, "POST"),
        ],
    )
    def test_an_unknown_method_is_a_json_405_that_names_the_right_one(
        self, server: Server, method: str, path: str, allowed: str
    ) -> None:
        response = server.call(method, path)
        assert_refused(response, 405)
        assert allowed in response.headers["Allow"]

    def test_a_request_that_is_not_http_leaves_the_server_running(self, server: Server) -> None:
        address = urlsplit(server.endpoint)
        with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
            connection.sendall(b"\x16\x03\x01\x00 not http\r\n\r\n")
            connection.recv(1000)
        assert server.call("GET", "/shares").status_code == 200


def test_the_log_contains_neither_tokens_nor_signed_urls(server: Server) -> None:
    query = server.call("POST", QUERY, json={})
    server.call("GET", "/shares", token="slc_" + "B" * 43)
    log = server.log.read_text()
    assert "query_table" in log, "requests are logged"
    assert server.token not in log
    assert "slc_" not in log.replace("slc_…", "")
    assert "X-Amz-Signature" not in log
    assert "X-Amz-Signature" in query.text
