"""How checks run and what the checks of the account find."""

import time

import pytest
from botocore.exceptions import NoCredentialsError

from cli.common.account import Account
from cli.doctor.account import AccountChecks
from cli.doctor.checks import CheckFailedError, CheckWarnedError, Finding, NothingToCheckError, Status, run_checks


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
    ]
    assert {tuple(finding) for finding in result.json} == {("subject", "check", "status", "detail", "remedy")}


def test_a_missing_catalog_fails_and_the_remedy_is_init(sluice):
    result = sluice("doctor")

    assert result.code == 1
    assert "✗ account catalog: The catalog table does not exist" in result.out
    assert "sluice init" in result.out


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
