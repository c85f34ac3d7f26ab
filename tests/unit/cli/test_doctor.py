"""How checks run and what the checks of the account find."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from botocore.exceptions import NoCredentialsError

from cli.common.account import Account
from cli.doctor.account import AccountChecks
from cli.doctor.checks import CheckFailedError, CheckWarnedError, Finding, NothingToCheckError, Status, run_checks
from cli.doctor.recipients import RecipientChecks
from core.catalog.admin import CatalogAdmin


@pytest.fixture(autouse=True)
def no_endpoint(sluice, monkeypatch):
    """Removes the endpoint of other tests, which does not exist."""
    monkeypatch.delenv("SLUICE_ENDPOINT")


def fails() -> str:
    raise CheckFailedError("it is broken", "Repair it.")


def warns() -> str:
    raise CheckWarnedError("it is odd", "Inspect it.")


def does_not_apply() -> str:
    raise NothingToCheckError("there is nothing")


def has_no_credentials() -> str:
    raise NoCredentialsError


def test_checks_after_a_failure_do_not_run():
    ran = []

    findings = list(run_checks("it", [("first", lambda: "fine"), ("second", fails), ("third", lambda: ran.append(1))]))

    assert findings == [
        Finding("it", "first", Status.PASSED, "fine"),
        Finding("it", "second", Status.FAILED, "it is broken", "Repair it."),
        Finding("it", "third", Status.NOT_RUN, "because 'second' failed"),
    ]
    assert ran == []


def test_a_check_that_does_not_apply_is_not_run_and_does_not_stop_later_ones():
    findings = list(run_checks("it", [("first", does_not_apply), ("second", lambda: "fine")]))

    assert [(finding.status, finding.detail) for finding in findings] == [
        (Status.NOT_RUN, "there is nothing"),
        (Status.PASSED, "fine"),
    ]


def test_a_warning_has_a_remedy_and_does_not_stop_later_checks():
    findings = list(run_checks("it", [("first", warns), ("second", lambda: "fine")]))

    assert findings == [
        Finding("it", "first", Status.WARNED, "it is odd", "Inspect it."),
        Finding("it", "second", Status.PASSED, "fine"),
    ]


def test_an_aws_error_is_a_finding_with_a_remedy():
    (finding,) = run_checks("it", [("only", has_no_credentials)])

    assert (finding.status, finding.detail[:29]) == (Status.FAILED, "No AWS credentials found: set")
    assert finding.remedy


@pytest.mark.parametrize(
    ("skew", "passes", "detail"),
    [(0, True, "s off"), (45, True, "s off"), (90, False, "ahead of AWS's"), (-3600, False, "behind AWS's")],
)
def test_a_clock_that_is_more_than_a_minute_off_fails(sluice, catalog, skew, passes, detail):
    checks = AccountChecks(Account(), now=lambda: time.time() + skew)

    findings = {finding.check: finding for finding in checks.run()}

    assert (findings["clock"].status is Status.PASSED) is passes
    assert detail in findings["clock"].detail
    assert findings["credentials"].status is (Status.PASSED if passes else Status.NOT_RUN)


def test_a_healthy_account_passes_with_exit_code_0(sluice, catalog):
    result = sluice("doctor", "--json")

    assert result.code == 0
    assert [(finding["check"], finding["status"]) for finding in result.json] == [
        ("region", "passed"),
        ("clock", "passed"),
        ("credentials", "passed"),
        ("catalog", "passed"),
        ("endpoint", "not run"),
        ("tokens", "passed"),
    ]
    assert {tuple(finding) for finding in result.json} == {("subject", "check", "status", "detail", "remedy")}


def test_a_missing_catalog_fails_and_the_remedy_is_init(sluice):
    result = sluice("doctor")

    assert result.code == 1
    assert "\n  ✗ catalog: The catalog table does not exist" in result.out
    assert "sluice init" in result.out
    assert result.out.endswith("\nChecked the account and 0 tables. Failed: account (catalog).\n")


def test_findings_are_grouped_by_table_and_end_with_a_summary_line(sluice, catalog):
    catalog.put_share("sales")
    catalog.put_schema("sales", "retail")
    for table in ("one", "two"):
        catalog.put_table("sales", "retail", table, location="s3://no-such-bucket-here/t")

    lines = sluice("doctor").out.splitlines()

    groups = [line for line in lines if line and not line.startswith(" ")]
    assert groups[:-1] == ["account", "recipients", "sales.retail.one", "sales.retail.two"]
    assert (
        groups[-1]
        == lines[-1]
        == ("Checked the account and 2 tables. Failed: sales.retail.one (bucket), sales.retail.two (bucket).")
    )
    start = lines.index("sales.retail.one")
    assert lines[start - 1] == ""
    assert lines[start + 1] == "  ✓ location: s3://no-such-bucket-here/t"
    assert lines[start + 2].startswith("  ✗ bucket: ")
    assert lines[start + 3].startswith("    → ")


def test_a_summary_without_problems_says_so(sluice, catalog):
    assert sluice("doctor").out.endswith("\nChecked the account and 0 tables. No problems found.\n")


class TestTokens:
    @pytest.fixture
    def finding(self, catalog):
        def check() -> Finding:
            (found,) = (finding for finding in RecipientChecks(Account()).run() if finding.check == "tokens")
            return found

        catalog.put_recipient("acme")
        return check

    def test_a_token_that_expires_soon_is_a_warning(self, catalog, finding, sluice):
        token, secret = catalog.issue_token("acme", lifetime_seconds=3 * 86_400)

        assert finding().status is Status.WARNED
        assert finding().detail.startswith(f"the token {token.id} of acme expires 20")
        assert "sluice token rotate" in finding().remedy
        assert secret not in str(finding())
        result = sluice("doctor")
        assert (result.code, result.out.splitlines()[-1]) == (
            0,
            "Checked the account and 0 tables. Warnings: recipients (tokens).",
        )

    def test_a_token_that_expires_later_is_not(self, catalog, finding):
        catalog.issue_token("acme", lifetime_seconds=60 * 86_400)

        assert (finding().status, finding().detail) == (Status.PASSED, "none expires within 14 days")

    def test_an_expired_token_is_a_warning_only_if_the_recipient_has_no_other(self, catalog, finding):
        yesterday = CatalogAdmin(Account().client("dynamodb"), "sluice-catalog", now=lambda: time.time() - 86_400)
        token, _ = yesterday.issue_token("acme", lifetime_seconds=3600)

        assert finding().status is Status.WARNED
        assert finding().detail.startswith(f"the token {token.id} of acme expired 20")
        catalog.issue_token("acme", lifetime_seconds=60 * 86_400)
        assert finding().status is Status.PASSED

    def test_tokens_of_sluice_serve_are_not_reported(self, catalog, finding):
        catalog.put_recipient("local")
        catalog.issue_token("local", lifetime_seconds=86_400)

        assert finding().status is Status.PASSED

    def test_only_the_next_ones_are_named(self, catalog, finding):
        for days in (9, 8, 7, 6, 5):
            last, _ = catalog.issue_token("acme", lifetime_seconds=days * 86_400)

        assert finding().detail.startswith(f"the token {last.id} of acme")
        assert finding().detail.endswith(" and 2 more")


class TestEndpoint:
    @pytest.fixture
    def check(self, catalog, monkeypatch):
        def call(url: str) -> Finding:
            monkeypatch.setenv("SLUICE_ENDPOINT", url)
            (found,) = (finding for finding in RecipientChecks(Account()).run() if finding.check == "endpoint")
            return found

        return call

    @pytest.mark.parametrize(
        ("status", "body", "expected", "words"),
        [
            (401, b'{"errorCode": "UNAUTHENTICATED", "message": ""}', Status.PASSED, "answers"),
            (401, b"<html>", Status.FAILED, "is not a Delta Sharing server: it answers 401"),
            (200, b"[]", Status.FAILED, "is not a Delta Sharing server: it answers 200"),
            (403, b'{"message": "Missing Authentication Token"}', Status.FAILED, "it answers 403"),
            (429, b"{}", Status.WARNED, "answers 429"),
            (502, b"{}", Status.FAILED, "answers 502"),
        ],
    )
    def test_it_must_refuse_a_request_without_a_token_as_the_protocol_says(
        self, check, web_server, status, body, expected, words
    ):
        with web_server(status, body) as (url, paths):
            finding = check(f"{url}/delta-sharing/")

        assert (finding.status, paths) == (expected, ["/delta-sharing/shares"])
        assert words in finding.detail
        assert (finding.remedy is None) is (expected is Status.PASSED)

    def test_an_endpoint_that_cannot_be_reached_fails_and_tables_are_still_checked(self, check, sluice, catalog):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        catalog.put_share("sales")
        catalog.put_schema("sales", "retail")
        catalog.put_table("sales", "retail", "one", location="s3://no-such-bucket-here/t")

        assert "cannot be reached" in check(url).detail
        result = sluice("doctor", "--json")
        assert result.code == 1
        assert ("sales.retail.one", "bucket") in {(found["subject"], found["check"]) for found in result.json}

    def test_a_value_that_is_no_url_fails(self, check):
        assert check("sharing.example").detail == "'sharing.example' is not a URL"


@pytest.fixture
def web_server():
    """Serves one answer to every request, and records the paths."""

    @contextlib.contextmanager
    def serve(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
        paths = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
                assert "Authorization" not in self.headers
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}", paths
            server.shutdown()
            thread.join()

    return serve


def test_a_bucket_in_another_region_than_its_signed_urls_is_found(sluice, catalog):
    s3 = Account(region_option="ap-south-1").client("s3")
    s3.create_bucket(Bucket="far-away", CreateBucketConfiguration={"LocationConstraint": "ap-south-1"})
    catalog.put_share("sales")
    catalog.put_schema("sales", "retail")
    catalog.put_table("sales", "retail", "wrong", location="s3://far-away/t")
    catalog.put_table("sales", "retail", "right", location="s3://far-away/t", region="ap-south-1")

    findings = {(found["subject"], found["check"]): found for found in sluice("doctor", "--json").json}

    wrong = findings["sales.retail.wrong", "bucket"]
    assert wrong["detail"] == "the bucket far-away is in ap-south-1, but URLs would be signed for eu-central-1"
    assert "Set the region of the table to ap-south-1" in wrong["remedy"]
    assert findings["sales.retail.right", "bucket"]["status"] == "passed"
