"""Error texts that the tests of the reference server and of clients assert.

Within a route, the cases are in the order of the reference server's checks.
"""

from datetime import UTC, datetime
from typing import Any

import pytest
import requests

from tests.integration.wire.conftest import DELTA, Wire, error, lines

INVALID, MALFORMED, UNSUPPORTED = "INVALID_PARAMETER_VALUE", "MALFORMED_REQUEST", "UNSUPPORTED_OPERATION"
ABSENT, UNREADABLE = "RESOURCE_DOES_NOT_EXIST", "TABLE_UNREADABLE"
NOT_A_NUMBER = "expected a number but the string didn't have the appropriate format"
NO_HISTORY = (
    "Reading table by version or timestamp is not supported because history sharing is not enabled on table: "
    "modern.tables.private"
)
FILE_ID_HASH = "Unsupported fileidhash: '{}'. Supported: parquet, delta"
EARLY, LATE, NOT_A_TIME = "2000-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "yesterday"


def check(response: requests.Response, code: str, text: str, status: int = 400) -> None:
    found_status, found_code, message = error(response)
    assert (found_status, found_code) == (status, code), message
    assert text in message


class TestDiscovery:
    @pytest.mark.parametrize("token", [None, "", "slc_wrong"])
    def test_a_wrong_or_missing_token_is_a_401(self, wire: Wire, token: str | None) -> None:
        assert wire.server.call("GET", "/shares", token=token or None).status_code == 401

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("/shares/Nowhere", "share 'Nowhere' not found"),
            ("/shares/Nowhere/schemas", "share 'Nowhere' not found"),
            ("/shares/Nowhere/all-tables", "share 'Nowhere' not found"),
            ("/shares/Nowhere/schemas/x/tables", "share 'Nowhere' not found"),
            ("/shares/modern/schemas/Nowhere/tables", "schema 'Nowhere' not found"),
        ],
    )
    def test_a_missing_entry_is_named_as_requested(self, wire: Wire, path: str, text: str) -> None:
        check(wire.server.call("GET", path), ABSENT, text, status=404)

    @pytest.mark.parametrize("names", ["x/y/z", "modern/y/z", "modern/tables/z"])
    @pytest.mark.parametrize(
        ("method", "route"), [("GET", "version"), ("GET", "metadata"), ("POST", "query"), ("GET", "changes")]
    )
    def test_the_error_for_a_missing_table_does_not_reveal_whether_its_share_exists(
        self, wire: Wire, names: str, method: str, route: str
    ) -> None:
        share, schema, table = names.split("/")
        path = f"/shares/{share}/schemas/{schema}/tables/{table}/{route}"
        text = (
            f"[Share/Schema/Table] '{names}' does not exist, "
            "please contact your share provider for further information."
        )
        check(wire.server.call(method, path, json={} if method == "POST" else None), ABSENT, text, status=404)

    @pytest.mark.parametrize(
        ("parameters", "text"),
        [
            ({"maxResults": "string"}, NOT_A_NUMBER),
            ({"maxResults": "501"}, "Acceptable values of 'maxResults' are 0 to 500, inclusive. (Default: 500)"),
            ({"maxResults": "-1"}, "Acceptable values of 'maxResults' are 0 to 500, inclusive. (Default: 500)"),
            ({"pageToken": "abc"}, "invalid 'nextPageToken'"),
            ({"pageToken": ""}, "invalid 'nextPageToken'"),
        ],
    )
    def test_an_invalid_page_parameter_is_rejected(self, wire: Wire, parameters: dict[str, str], text: str) -> None:
        check(wire.server.call("GET", "/shares", params=parameters), INVALID, text)


class TestVersion:
    @pytest.mark.parametrize(
        ("table", "timestamp", "code", "text"),
        [
            ("private", EARLY, INVALID, NO_HISTORY),
            ("private", NOT_A_TIME, INVALID, NO_HISTORY),
            ("feed", NOT_A_TIME, INVALID, f"Invalid startingTimestamp: '{NOT_A_TIME}'"),
            ("feed", LATE, INVALID, "The provided timestamp "),
            ("feed", LATE, INVALID, "is after the latest available version 4. Please use a timestamp less than or"),
            ("late", EARLY, INVALID, f"You can only query table data since version 2.The provided timestamp({EARLY})"),
            ("late", EARLY, INVALID, "is before the earliest available version 2. Please use a timestamp greater"),
        ],
    )
    def test_an_invalid_timestamp_is_rejected(
        self, wire: Wire, table: str, timestamp: str, code: str, text: str
    ) -> None:
        check(wire.call("GET", table, "version", params={"startingTimestamp": timestamp}), code, text)

    def test_a_damaged_log_is_a_4xx_instead_of_the_reference_servers_500(self, wire: Wire) -> None:
        for table in ("incomplete", "nothing"):
            assert error(wire.call("GET", table, "version"))[0] == 400


class TestMetadata:
    @pytest.mark.parametrize(
        ("table", "parameters", "code", "text"),
        [
            ("private", {"version": -1, "timestamp": EARLY}, INVALID, "Please only provide one of: version,timestamp"),
            ("feed", {"version": 1, "timestamp": EARLY}, INVALID, "Please only provide one of: version,timestamp"),
            ("private", {"version": -1}, INVALID, "version cannot be negative."),
            ("feed", {"version": "x"}, INVALID, NOT_A_NUMBER),
            ("private", {"version": 1}, INVALID, NO_HISTORY),
            ("private", {"timestamp": EARLY}, INVALID, NO_HISTORY),
            ("feed", {"version": 99}, MALFORMED, "Cannot load table version 99 as it does not exist. The latest avail"),
            (
                "cleaned_up",
                {"version": 1},
                MALFORMED,
                (
                    "Cannot load table version 1 as the transaction log has been truncated due to manual deletion or "
                    "the log/checkpoint retention policy. The earliest available version is 3."
                ),
            ),
            ("feed", {"timestamp": NOT_A_TIME}, INVALID, f"Invalid startingTimestamp: '{NOT_A_TIME}'"),
            (
                "feed",
                {"timestamp": EARLY},
                INVALID,
                "is before the earliest available version 0. Please use a timestam",
            ),
            ("feed", {"timestamp": EARLY}, INVALID, "greater than or equal to"),
            ("feed", {"timestamp": LATE}, INVALID, "is after the latest available version"),
            ("feed", {"timestamp": LATE}, INVALID, "Please use a timestamp less"),
            ("late", {"version": 1}, INVALID, "You can only query table data since version 2."),
            (
                "late",
                {"timestamp": EARLY},
                INVALID,
                "is before the earliest available version 2. Please use a timestam",
            ),
            ("nothing", {}, ABSENT, "table files missing"),
            ("vectors", {}, UNSUPPORTED, "Unsupported Delta Table Properties"),
            ("mapped", {}, UNSUPPORTED, "Unsupported Delta Table Properties"),
        ],
    )
    def test_an_invalid_request_is_rejected(
        self, wire: Wire, table: str, parameters: dict[str, Any], code: str, text: str
    ) -> None:
        check(wire.metadata(table, **parameters), code, text)


class TestFileIdHash:
    @pytest.mark.parametrize("value", ["sha1", "", "parquet,delta"])
    def test_an_invalid_hash_is_rejected_on_each_route(self, wire: Wire, value: str) -> None:
        text, headers = FILE_ID_HASH.format(value), {"fileidhash": value}
        check(wire.call("GET", "feed", "metadata", headers=headers), INVALID, text)
        check(wire.call("POST", "feed", "query", headers=headers, json={}), INVALID, text)
        parameters = {"startingVersion": 0}
        check(wire.call("GET", "feed", "changes", headers=headers, params=parameters), INVALID, text)

    def test_the_hash_is_checked_in_the_order_of_the_reference_server(self, wire: Wire) -> None:
        headers = {"fileidhash": "x"}
        check(wire.call("GET", "private", "metadata", headers=headers, params={"version": 0}), INVALID, NO_HISTORY)
        check(wire.call("GET", "private", "changes", headers=headers), INVALID, "cdf is not enabled on table")
        check(wire.call("POST", "absent", "query", headers=headers, json={}), INVALID, FILE_ID_HASH.format("x"))
        body = {"maxFiles": 0}
        check(wire.call("POST", "feed", "query", headers=headers, json=body), INVALID, "maxFiles must be positive.")


class TestQuery:
    @pytest.mark.parametrize(
        ("body", "text"),
        [
            (b"", "No content to map due to end-of-input"),
            (
                b'{"predicateHints": {}}',
                "Expected an array for repeated field predicateHints of QueryTableRequest",
            ),
            (b'{"version": "x3"}', "Not a numeric value: x3"),
            (b'{"limitHint": "x3"}', "Not a numeric value: x3"),
            (b'{"maxFiles": 3000000000}', "Not an int32 value"),
        ],
    )
    def test_an_invalid_body_is_rejected(self, wire: Wire, body: bytes, text: str) -> None:
        response = wire.call("POST", "feed", "query", data=body, headers={"Content-Type": "application/json"})
        check(response, MALFORMED, text)

    @pytest.mark.parametrize(
        ("table", "body", "text"),
        [
            ("absent", {"version": 1, "timestamp": EARLY}, "Please only provide one of: version,timestamp,startingVer"),
            ("absent", {"version": 1, "startingVersion": -1}, "Please only provide one of: version,timestamp,starting"),
            ("absent", {"version": -1}, "table version cannot be negative."),
            ("absent", {"startingVersion": -1}, "startingVersion cannot be negative."),
            ("absent", {"maxFiles": 0}, "maxFiles must be positive."),
            (
                "absent",
                {"version": 1, "includeRefreshToken": True},
                "includeRefreshToken cannot be used when querying a specific version.",
            ),
            (
                "absent",
                {"pageToken": "x", "includeRefreshToken": True},
                "includeRefreshToken must be used in the first page request.",
            ),
            (
                "absent",
                {"timestamp": EARLY, "refreshToken": "x"},
                "refreshToken cannot be used when querying a specific version.",
            ),
            (
                "absent",
                {"pageToken": "x", "refreshToken": "x"},
                "refreshToken must be used in the first page request.",
            ),
            ("private", {"version": 0}, NO_HISTORY),
            ("private", {"timestamp": EARLY}, NO_HISTORY),
            ("private", {"startingVersion": 0}, NO_HISTORY),
            ("late", {"version": 1}, "You can only query table data since version 2."),
            ("late", {"startingVersion": 1}, "You can only query table data since version 2."),
            (
                "feed",
                {"startingVersion": 3, "endingVersion": 2},
                "startingVersion(3) must be smaller than or equal to endingVersion(2).",
            ),
            (
                "feed",
                {"startingVersion": 0, "endingVersion": 10},
                (
                    "Provided end version(10) is invalid. End version cannot be greater than the latest version of the "
                    "table(4)."
                ),
            ),
            ("feed", {"timestamp": NOT_A_TIME}, f"Invalid startingTimestamp: '{NOT_A_TIME}'"),
            (
                "feed",
                {"timestamp": EARLY},
                "is before the earliest available version 0. Please use a timestamp greater",
            ),
            ("feed", {"timestamp": LATE}, "Please use a timestamp less"),
            ("late", {"timestamp": EARLY}, "You can only query table data since version 2."),
            (
                "late",
                {"timestamp": EARLY},
                "is before the earliest available version 2. Please use a timestamp greater",
            ),
            ("feed", {"startingVersion": 9}, "Cannot time travel Delta table to version 9. Available versions: [0, 4]"),
            ("feed", {"pageToken": "randomPageToken"}, "Error decoding the page token: randomPageToken."),
            ("feed", {"refreshToken": "randomRefreshToken"}, "Error decoding refresh token: randomRefreshToken."),
        ],
    )
    def test_an_invalid_request_is_rejected(self, wire: Wire, table: str, body: dict[str, Any], text: str) -> None:
        check(wire.query(table, **body), INVALID, text)

    def test_an_asynchronous_query_requires_an_idempotency_key(self, wire: Wire) -> None:
        text = "idempotency_key is required for async query."
        check(wire.query("feed", "responseformat=parquet;asyncquery=true"), INVALID, text)

    def test_a_timestamp_before_the_shared_history_is_rejected(self, wire: Wire) -> None:
        history = lines(wire.query("feed", startingVersion=1, endingVersion=1))
        committed_at = next(line["add"]["timestamp"] for line in history if "add" in line)
        moment = datetime.fromtimestamp(committed_at / 1000, UTC).isoformat()
        check(wire.query("late", timestamp=moment), INVALID, "You can only query table data since version 2.")

    def test_an_ending_version_without_a_starting_version_is_ignored(self, wire: Wire) -> None:
        assert len(lines(wire.query("feed", endingVersion=99))) == len(lines(wire.query("feed")))

    @pytest.mark.parametrize("capabilities", [None, DELTA])
    def test_a_protocol_upgrade_within_the_range_is_rejected(self, wire: Wire, capabilities: str | None) -> None:
        assert len(lines(wire.query("too_new", capabilities, startingVersion=0, endingVersion=0))) == 3
        body = {"startingVersion": 0, "endingVersion": 1}
        check(wire.query("too_new", capabilities, **body), UNSUPPORTED, "Delta protocol version (4,7) is too new")
        check(wire.query("too_new", capabilities), UNSUPPORTED, "Delta protocol version (4,7) is too new")

    def test_the_error_names_features_that_the_client_does_not_announce(self, wire: Wire) -> None:
        for table in ("vectors", "mapped"):
            for capabilities in (None, "responseformat=delta", "responseformat=delta,parquet"):
                check(wire.query(table, capabilities), UNSUPPORTED, "Unsupported Delta Table Properties")
        check(wire.query("leftover_vectors", version=0), UNSUPPORTED, "Deletion Vector property disabled")

    def test_missing_files_are_reported(self, wire: Wire) -> None:
        check(wire.query("nothing"), ABSENT, "table files missing")


class TestChanges:
    @pytest.mark.parametrize(
        ("table", "parameters", "text"),
        [
            ("absent", {"maxFiles": 0}, "maxFiles must be positive."),
            ("absent", {"maxFiles": "x"}, NOT_A_NUMBER),
            ("private", {}, "cdf is not enabled on table modern.tables.private"),
            (
                "feed",
                {"startingVersion": 0, "startingTimestamp": EARLY},
                (
                    "Multiple starting arguments provided for CDF read. "
                    "Please provide one of either startingTimestamp or startingVersion."
                ),
            ),
            (
                "feed",
                {"startingVersion": 0, "endingVersion": 1, "endingTimestamp": EARLY},
                (
                    "Multiple ending arguments provided for CDF read. Please provide one of either endingTimestamp or "
                    "endingVersion."
                ),
            ),
            ("feed", {}, "No startingVersion or startingTimestamp provided for CDF read."),
            ("feed", {"endingVersion": 1}, "No startingVersion or startingTimestamp provided for CDF read."),
            ("feed", {"startingVersion": "x"}, "startingVersion is not a valid number."),
            ("feed", {"startingVersion": 0, "endingVersion": "x"}, "endingVersion is not a valid number."),
            ("feed", {"startingVersion": 0, "pageToken": "x"}, "Error decoding the page token: x."),
            ("feed", {"startingTimestamp": NOT_A_TIME}, f"Invalid startingTimestamp: '{NOT_A_TIME}'"),
            ("feed", {"startingVersion": 0, "endingTimestamp": NOT_A_TIME}, "Invalid endingTimestamp"),
            ("feed", {"startingTimestamp": EARLY}, "The provided timestamp ("),
            ("feed", {"startingTimestamp": EARLY}, "is before the earliest version available"),
            ("feed", {"startingTimestamp": LATE}, "The provided timestamp ("),
            ("feed", {"startingTimestamp": EARLY}, "Please use a timestamp greater"),
            ("feed", {"startingTimestamp": LATE}, "is after the latest version available"),
            ("feed", {"startingTimestamp": LATE}, "Please use a timestamp less"),
            ("feed", {"startingVersion": 0, "endingTimestamp": LATE}, "The provided timestamp ("),
            ("feed", {"startingVersion": 0, "endingTimestamp": LATE}, "Please use a timestamp less"),
            ("late", {"startingTimestamp": EARLY}, "You can only query table changes since version 2."),
            ("late", {"startingTimestamp": EARLY}, "Please use a timestamp greater"),
            (
                "feed",
                {"startingVersion": 6},
                (
                    "Provided Start version(6) for reading change data is invalid. "
                    "Start version cannot be greater than the latest version of the table(4)."
                ),
            ),
            (
                "feed",
                {"startingVersion": 2, "endingVersion": 1},
                "CDF range from start 2 to end 1 was invalid. End cannot be before start.",
            ),
            ("late", {"startingVersion": 1}, "You can only query table changes since version 2."),
            ("feed", {"startingVersion": -1}, "You can only query table changes since version 0."),
            (
                "switched_off",
                {"startingVersion": 0},
                "Error getting change data for range [0, 5] as change data was not recorded for version [4]",
            ),
            (
                "switched_off",
                {"startingVersion": 5, "endingVersion": 99},
                "Error getting change data for range [5, 5] as change data was not recorded for version [5]",
            ),
        ],
    )
    @pytest.mark.parametrize("capabilities", [None, DELTA])
    def test_an_invalid_request_is_rejected(
        self, wire: Wire, table: str, parameters: dict[str, Any], text: str, capabilities: str | None
    ) -> None:
        check(wire.changes(table, capabilities, **parameters), INVALID, text)

    def test_the_feed_before_it_was_disabled_is_available(self, wire: Wire) -> None:
        assert len(lines(wire.changes("switched_off", startingVersion=0, endingVersion=3))) == 2 + 4

    def test_a_version_that_the_log_no_longer_has_is_rejected(self, wire: Wire) -> None:
        text = "Cannot load table version 1 as the transaction log has been truncated"
        check(wire.changes("cleaned_up", startingVersion=1), MALFORMED, text)
        check(wire.query("cleaned_up", startingVersion=1), MALFORMED, text)

    def test_a_log_with_a_missing_commit_is_rejected(self, wire: Wire) -> None:
        check(wire.changes("incomplete", startingVersion=0), UNREADABLE, "Please contact the provider of the table.")
        check(wire.query("incomplete", startingVersion=0), UNREADABLE, "Please contact the provider of the table.")
