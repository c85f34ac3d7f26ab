"""The protocol over plain HTTP: headers, the order of checks, and the texts that clients look for."""

import gzip
import hashlib
import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import requests

from tests.integration.conftest import Served
from tests.server import ANSWER_SECONDS, Server

PEOPLE = "/shares/Sales/schemas/Core/tables/People"
EVENTS = "/shares/Sales/schemas/Core/tables/events"
MANY = "/shares/Sales/schemas/Core/tables/many"
LATE = "/shares/Sales/schemas/Core/tables/late"


@pytest.fixture
def server(served: Served) -> Server:
    return served.server


def lines(response: requests.Response) -> list[dict[str, dict[str, object]]]:
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "application/x-ndjson; charset=utf-8"
    assert response.content.endswith(b"\n")
    return [json.loads(line) for line in response.content.splitlines()]


def error(response: requests.Response) -> tuple[int, str, str]:
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    document = response.json()
    assert document.keys() == {"errorCode", "message"}
    return response.status_code, document["errorCode"], document["message"]


class TestDiscovery:
    def test_a_share_shows_its_id_and_display_name(self, server: Server) -> None:
        share = server.call("GET", "/shares/sALES").json()["share"]
        assert share["name"] == "Sales"
        assert share["displayName"] == "All sales"
        assert share["comment"] == "Since 2024"
        assert share["properties"] == {"owner": "sales team"}
        assert len(share["id"]) == 36

    def test_a_table_is_shown_as_in_listings_with_its_format_and_the_id_of_its_share(self, server: Server) -> None:
        table = server.call("GET", PEOPLE).json()
        assert table.pop("format") == "delta"
        listed = server.call("GET", "/shares/Sales/schemas/Core/tables").json()["items"]
        assert table in listed
        assert table["shareId"] == server.call("GET", "/shares/Sales").json()["share"]["id"]

    def test_an_empty_list_has_no_items_and_no_token(self, server: Server) -> None:
        assert server.call("GET", "/shares/other/schemas").json() == {"items": []}

    @pytest.mark.parametrize(
        "path",
        ["/shares", "/shares/Sales/schemas", "/shares/Sales/schemas/Core/tables", "/shares/Sales/all-tables"],
    )
    def test_pages_of_one_item_together_are_the_whole_list(self, server: Server, path: str) -> None:
        whole = server.call("GET", path).json()["items"]
        paged, token = [], None
        while True:
            parameters = {"maxResults": "1"} | ({"pageToken": token} if token else {})
            page = server.call("GET", path, params=parameters).json()
            assert len(page["items"]) <= 1
            paged += page["items"]
            token = page.get("nextPageToken")
            if token is None:
                break
            assert token == requests.utils.quote(token, safe=""), "a page token needs no encoding in a URL"
        assert paged == whole

    def test_a_page_of_zero_results_has_a_token_for_the_rest(self, server: Server) -> None:
        page = server.call("GET", "/shares", params={"maxResults": "0"}).json()
        assert page["items"] == []
        rest = server.call("GET", "/shares", params={"pageToken": page["nextPageToken"]}).json()
        assert len(rest["items"]) == 2

    @pytest.mark.parametrize("value", ["-1", "501", "99999999999999999"])
    def test_max_results_outside_its_bounds_is_a_400(self, server: Server, value: str) -> None:
        assert error(server.call("GET", "/shares", params={"maxResults": value})) == (
            400,
            "INVALID_PARAMETER_VALUE",
            "Acceptable values of 'maxResults' are 0 to 500, inclusive. (Default: 500)",
        )

    @pytest.mark.parametrize("value", ["", "ten", "1.5", "9" * 5000])
    def test_max_results_that_is_not_a_number_is_a_400(self, server: Server, value: str) -> None:
        assert error(server.call("GET", "/shares", params={"maxResults": value})) == (
            400,
            "INVALID_PARAMETER_VALUE",
            "expected a number but the string didn't have the appropriate format",
        )

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("/shares/absent", "share 'absent' not found"),
            ("/shares/absent/schemas", "share 'absent' not found"),
            ("/shares/absent/all-tables", "share 'absent' not found"),
            ("/shares/absent/schemas/Core/tables", "share 'absent' not found"),
            ("/shares/Sales/schemas/absent/tables", "schema 'absent' not found"),
        ],
    )
    def test_a_missing_entry_is_named_as_requested(self, server: Server, path: str, message: str) -> None:
        assert error(server.call("GET", path)) == (404, "RESOURCE_DOES_NOT_EXIST", message)


class TestVersion:
    def test_the_version_is_a_header_and_the_body_is_empty(self, server: Server) -> None:
        response = server.call("GET", f"{PEOPLE}/version")
        assert (response.status_code, response.content, response.headers["Delta-Table-Version"]) == (
            200,
            b"",
            "2",
        )

    def test_head_of_a_table_returns_the_same(self, server: Server) -> None:
        response = server.call("HEAD", PEOPLE)
        assert (response.status_code, response.content, response.headers["Delta-Table-Version"]) == (
            200,
            b"",
            "2",
        )

    def test_head_of_a_missing_table_is_a_404_without_a_body(self, server: Server) -> None:
        response = server.call("HEAD", "/shares/Sales/schemas/Core/tables/absent")
        assert (response.status_code, response.content) == (404, b"")

    def test_an_early_timestamp_returns_the_first_version(self, server: Server) -> None:
        response = server.call("GET", f"{PEOPLE}/version", params={"startingTimestamp": "2000-01-01T00:00:00Z"})
        assert response.headers["Delta-Table-Version"] == "0"

    def test_a_timestamp_before_the_shared_history_says_where_it_starts(self, server: Server) -> None:
        timestamp = "2000-01-01T00:00:00Z"
        response = server.call("GET", f"{LATE}/version", params={"startingTimestamp": timestamp})
        status, code, message = error(response)
        assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
        assert message.startswith(
            f"You can only query table data since version 1.The provided timestamp({timestamp}) is before the earliest "
            "available version 1. Please use a timestamp greater than or equal to "
        )

    @pytest.mark.parametrize(
        ("path", "timestamp", "message"),
        [
            (EVENTS, "nonsense", "history sharing is not enabled on table: Sales.Core.events"),
            (PEOPLE, "nonsense", "Invalid startingTimestamp"),
            (PEOPLE, "2999-01-01T00:00:00Z", "is after the latest available version"),
        ],
    )
    def test_a_bad_timestamp_is_a_400(self, server: Server, path: str, timestamp: str, message: str) -> None:
        status, _, text = error(server.call("GET", f"{path}/version", params={"startingTimestamp": timestamp}))
        assert status == 400
        assert message in text


class TestMetadata:
    def test_metadata_is_two_lines_with_headers_for_version_and_format(self, server: Server) -> None:
        response = server.call("GET", f"{EVENTS}/metadata")
        protocol, metadata = lines(response)
        assert protocol == {"protocol": {"minReaderVersion": 1}}
        assert metadata["metaData"]["partitionColumns"] == ["day", "kind"]
        assert metadata["metaData"]["numFiles"] == 10
        assert response.headers["Delta-Table-Version"] == "0"
        assert response.headers["delta-sharing-capabilities"] == "responseformat=parquet"

    def test_a_client_of_both_formats_gets_parquet_for_a_plain_table(self, server: Server) -> None:
        header = {"delta-sharing-capabilities": "responseformat=delta,parquet;readerfeatures=deletionvectors"}
        response = server.call("GET", f"{EVENTS}/metadata", headers=header)
        assert response.headers["delta-sharing-capabilities"] == "responseformat=parquet"

    def test_delta_format_relays_the_actions_of_the_log(self, server: Server) -> None:
        header = {"delta-sharing-capabilities": "responseformat=delta"}
        response = server.call("GET", f"{EVENTS}/metadata", headers=header)
        protocol, metadata = lines(response)
        assert protocol == {"protocol": {"deltaProtocol": {"minReaderVersion": 1, "minWriterVersion": 2}}}
        assert metadata["metaData"]["deltaMetadata"]["partitionColumns"] == ["day", "kind"]  # type: ignore[index]
        assert metadata["metaData"]["numFiles"] == 10
        assert response.headers["delta-sharing-capabilities"] == "responseformat=delta"

    def test_an_older_version_has_its_own_metadata(self, server: Server) -> None:
        response = server.call("GET", f"{PEOPLE}/metadata", params={"version": "0"})
        assert lines(response)[1]["metaData"]["numFiles"] == 1
        assert response.headers["Delta-Table-Version"] == "0"

    @pytest.mark.parametrize(
        ("path", "parameters", "message"),
        [
            (PEOPLE, {"version": "-1", "timestamp": "x"}, "Please only provide one of: version,timestamp"),
            (PEOPLE, {"version": "-1"}, "version cannot be negative."),
            (PEOPLE, {"version": "x"}, "expected a number but"),
            (EVENTS, {"version": "0"}, "history sharing is not enabled on table: Sales.Core.events"),
            (LATE, {"version": "0"}, "You can only query table data since version 1."),
            (PEOPLE, {"version": "99"}, "Cannot load table version 99 as it does not exist."),
            (PEOPLE, {"timestamp": "nonsense"}, "Invalid startingTimestamp: 'nonsense'"),
            (PEOPLE, {"timestamp": "2000-01-01T00:00:00Z"}, "greater than or equal to"),
        ],
    )
    def test_a_bad_version_or_timestamp_is_a_400(
        self, server: Server, path: str, parameters: dict[str, str], message: str
    ) -> None:
        status, _, text = error(server.call("GET", f"{path}/metadata", params=parameters))
        assert status == 400
        assert message in text


class TestQuery:
    def test_every_url_opens_a_file_that_matches_its_line(self, server: Server) -> None:
        _, _, *files = lines(server.call("POST", f"{EVENTS}/query", json={}))
        assert len(files) == 10
        for line in files:
            file = line["file"]
            with urllib.request.urlopen(str(file["url"]), timeout=ANSWER_SECONDS) as answer:
                content = answer.read()
            assert len(content) == file["size"]
            assert content[:4] == content[-4:] == b"PAR1"
            assert json.loads(str(file["stats"]))["numRecords"] == 4

    def test_file_ids_are_hashes_of_the_path_in_the_log(self, server: Server, served: Served) -> None:
        def ids(**headers: str) -> set[object]:
            response = server.call("POST", f"{EVENTS}/query", json={}, headers=headers)
            assert response.headers.get("fileidhash") == headers.get("fileidhash")
            return {line["file"]["id"] for line in lines(response)[2:]}

        log = served.server.log.parent / "events" / "_delta_log" / "00000000000000000000.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        paths = [action["add"]["path"].encode() for action in actions if "add" in action]
        assert ids() == {hashlib.md5(path).hexdigest() for path in paths}
        assert ids(fileidhash="delta") == {hashlib.sha256(path).hexdigest() for path in paths}

    def test_urls_are_valid_for_at_least_20_minutes_and_the_line_has_their_expiry(self, server: Server) -> None:
        asked_at = time.time()
        file = lines(server.call("POST", f"{PEOPLE}/query", json={}))[2]["file"]
        parameters = parse_qs(urlsplit(str(file["url"])).query)
        signed_at = datetime.strptime(parameters["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        expires_at = signed_at.timestamp() + int(parameters["X-Amz-Expires"][0])
        assert file["expirationTimestamp"] == expires_at * 1000
        assert expires_at >= asked_at + 20 * 60
        assert "X-Amz-Security-Token" in parameters, "signed by an assumed role"

    def test_a_url_only_reads_its_own_object(self, server: Server) -> None:
        url = str(lines(server.call("POST", f"{PEOPLE}/query", json={}))[2]["file"]["url"])
        assert requests.put(url, data=b"x", timeout=60).status_code == 403
        assert requests.get(url.replace("/part-", "/_delta_log/part-"), timeout=60).status_code == 403
        assert requests.get(url, headers={"Range": "bytes=0-3"}, timeout=60).content == b"PAR1"

    def test_the_answer_is_gzipped_if_the_client_accepts_it(self, server: Server) -> None:
        zipped = server.call("POST", f"{EVENTS}/query", json={}, headers={"Accept-Encoding": "gzip"}, stream=True)
        assert zipped.headers["Content-Encoding"] == "gzip"
        assert len(gzip.decompress(zipped.raw.read()).splitlines()) == 12
        plain = server.call("POST", f"{EVENTS}/query", json={}, headers={"Accept-Encoding": "identity"})
        assert "Content-Encoding" not in plain.headers

    def test_an_end_stream_action_is_sent_only_on_request(self, server: Server) -> None:
        assert "endStreamAction" not in lines(server.call("POST", f"{EVENTS}/query", json={}))[-1]
        header = {"delta-sharing-capabilities": "responseformat=parquet;includeendstreamaction=true"}
        response = server.call("POST", f"{EVENTS}/query", json={}, headers=header)
        *_, file, end = lines(response)
        assert end == {"endStreamAction": {"minUrlExpirationTimestamp": file["file"]["expirationTimestamp"]}}
        assert response.headers["delta-sharing-capabilities"].endswith(";includeendstreamaction=true")
        for body in ({"includeRefreshToken": True}, {"maxFiles": 100}):
            assert "endStreamAction" in lines(server.call("POST", f"{EVENTS}/query", json=body))[-1]

    def test_time_travel_marks_each_file_with_its_version(self, server: Server) -> None:
        response = server.call("POST", f"{PEOPLE}/query", json={"version": 1})
        files = [line["file"] for line in lines(response)[2:]]
        assert [file["version"] for file in files] == [1, 1]
        assert response.headers["Delta-Table-Version"] == "1"
        moment = datetime.fromtimestamp(int(str(files[0]["timestamp"])) / 1000, tz=UTC).isoformat()
        again = server.call("POST", f"{PEOPLE}/query", json={"timestamp": moment})
        assert again.headers["Delta-Table-Version"] in ("1", "2")

    def test_a_limit_stops_at_the_first_file_that_fills_it(self, server: Server) -> None:
        assert len(lines(server.call("POST", f"{EVENTS}/query", json={"limitHint": 5}))) == 2 + 2
        assert len(lines(server.call("POST", f"{EVENTS}/query", json={"limitHint": 0}))) == 2

    @pytest.mark.parametrize(("hint", "files"), [("value >= 0", 1), ("value = 39", 1), ("abs(value) = 39", 10)])
    def test_a_limit_counts_only_rows_that_certainly_match_the_hint(
        self, server: Server, hint: str, files: int
    ) -> None:
        body = {"limitHint": 1, "predicateHints": [hint]}
        assert len(lines(server.call("POST", f"{EVENTS}/query", json=body))) == 2 + files

    def test_statistics_are_relayed_as_in_the_log_even_if_invalid(self, served: Served) -> None:
        _, _, *files = lines(served.server.call("POST", f"{MANY}/query", json={}))
        expected = {add["size"]: add.get("stats") for add in served.many_files}
        assert {line["file"]["size"]: line["file"].get("stats") for line in files} == expected

    def test_a_file_without_a_row_count_does_not_count_toward_a_limit(self, served: Served) -> None:
        """Of every six files, one has 2 rows, one has 1, and four have no row count: 4 rows need seven files."""
        response = served.server.call("POST", f"{MANY}/query", json={"limitHint": 4})
        assert [line["file"]["size"] for line in lines(response)[2:]] == list(range(7))

    @pytest.mark.parametrize("body", [{"jsonPredicateHints": "nonsense"}, {"predicateHints": ["DROP TABLE x;"]}])
    def test_a_hint_that_cannot_be_parsed_skips_nothing(self, server: Server, body: dict[str, object]) -> None:
        assert len(lines(server.call("POST", f"{EVENTS}/query", json=body))) == 2 + 10

    @pytest.mark.parametrize(
        ("path", "body", "code", "message"),
        [
            (EVENTS, {"version": 0}, "INVALID_PARAMETER_VALUE", "history sharing is not enabled on table"),
            (
                EVENTS,
                {"startingVersion": 0},
                "INVALID_PARAMETER_VALUE",
                "history sharing is not enabled on table",
            ),
            (
                LATE,
                {"version": 0},
                "INVALID_PARAMETER_VALUE",
                "You can only query table data since version 1.",
            ),
            (
                PEOPLE,
                {"startingVersion": 3, "endingVersion": 2},
                "INVALID_PARAMETER_VALUE",
                "startingVersion(3) must be smaller than or equal to endingVersion(2).",
            ),
            (
                PEOPLE,
                {"version": 99},
                "MALFORMED_REQUEST",
                "Cannot load table version 99 as it does not exist.",
            ),
            (PEOPLE, {"pageToken": "p"}, "INVALID_PARAMETER_VALUE", "Error decoding the page token: p."),
            (PEOPLE, {"refreshToken": "r"}, "INVALID_PARAMETER_VALUE", "Error decoding refresh token: r."),
            (
                "/shares/Sales/schemas/Core/tables/nothing",
                {},
                "RESOURCE_DOES_NOT_EXIST",
                "table files missing",
            ),
        ],
    )
    def test_a_query_that_cannot_be_answered_is_a_400(
        self, server: Server, path: str, body: dict[str, object], code: str, message: str
    ) -> None:
        status, found_code, text = error(server.call("POST", f"{path}/query", json=body))
        assert (status, found_code) == (400, code)
        assert message in text

    def test_the_token_is_checked_before_the_body_and_the_body_before_the_table(self, server: Server) -> None:
        absent = "/shares/Sales/schemas/Core/tables/absent/query"
        assert error(server.call("POST", absent, json={"maxFiles": 0}))[2] == "maxFiles must be positive."
        assert error(server.call("POST", absent, json={}))[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
        assert server.call("POST", absent, data=b"{", token="slc_wrong").status_code == 401

    def test_a_body_does_not_need_a_content_type(self, server: Server) -> None:
        response = server.call("POST", f"{PEOPLE}/query", data=b"{}", headers={"Content-Type": ""})
        assert len(lines(response)) == 3


class TestAsynchronousQueries:
    def test_an_unknown_query_is_a_404_in_the_protocols_form(self, server: Server) -> None:
        assert error(server.call("POST", f"{PEOPLE}/queries/some-id"))[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
        assert server.call("POST", f"{PEOPLE}/queries/some-id", token=None).status_code == 401
        assert server.call("POST", "/shares/x/schemas/y/tables/z/queries/some-id").status_code == 404


def test_concurrent_requests_get_the_right_answers(server: Server) -> None:
    def one(number: int) -> bool:
        if number % 3 == 0:
            return len(lines(server.call("POST", f"{EVENTS}/query", json={}))) == 12
        if number % 3 == 1:
            return server.call("GET", f"{PEOPLE}/version").headers["Delta-Table-Version"] == "2"
        return len(server.call("GET", "/shares").json()["items"]) == 2

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(96)))


def test_signed_urls_contain_the_key_of_the_object_encoded_once(server: Server) -> None:
    """The log percent-encodes partition values in paths. S3 keys have them decoded once, and URLs encode them again."""
    files = [line["file"] for line in lines(server.call("POST", f"{EVENTS}/query", json={}))[2:]]
    keys = {unquote(urlsplit(str(file["url"])).path) for file in files if file["partitionValues"]["kind"] == "a b"}  # type: ignore[index]
    assert keys
    assert all("kind=a%20b" in key or "kind=a b" in key for key in keys)
