"""`sluice doctor` on an account that enforces policies: each fault is found by its own check, with what to do."""

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import deltalake
import pyarrow as pa
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.httpsession import URLLib3Session

from cli.account import Account
from cli.embedded.ministack import EmbeddedAws
from cli.main import run
from core.catalog.admin import CatalogAdmin
from tests.integration.iam import allow, client, create_role, create_user

NAME = f"doctor-{uuid.uuid4().hex[:8]}"
TABLE_CHECKS = ("location", "bucket", "role", "log", "features", "signed-url")


@dataclass(frozen=True)
class Provider:
    """A provider's account: a catalog, a bucket with a table, and a role that may read it."""

    aws: EmbeddedAws
    catalog: CatalogAdmin
    role_arn: str
    user_arn: str

    @property
    def owner(self) -> dict[str, str]:
        """How the owner's writers reach the bucket."""
        return {
            "AWS_ACCESS_KEY_ID": self.aws.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.aws.secret_access_key,
            "AWS_REGION": self.aws.region,
            "AWS_ENDPOINT_URL": self.aws.endpoint_url,
            "AWS_ALLOW_HTTP": "true",
        }

    def write_table(self, path: str, **options: Any) -> str:
        location = f"s3://{NAME}/{path}"
        deltalake.write_deltalake(location, pa.table({"id": [1, 2, 3]}), storage_options=self.owner, **options)
        return location

    def add(self, table: str, location: str, **options: str) -> str:
        self.catalog.put_table("sales", "retail", table, location=location, **options)
        return f"sales.retail.{table}"


@pytest.fixture(scope="module")
def provider(aws: EmbeddedAws) -> Iterator[Provider]:
    client(aws, "s3").create_bucket(Bucket=NAME)
    user_arn, user = create_user(aws, NAME, allow("dynamodb:*", "*"), allow("sts:*", "*"))
    readable = (allow("s3:GetObject", f"arn:aws:s3:::{NAME}/*"), allow("s3:ListBucket", f"arn:aws:s3:::{NAME}"))
    role_arn = create_role(aws, NAME, *readable, trusts=user_arn)
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith(("AWS_", "SLUICE_"))]:
            environment.delenv(name)
        environment.setenv("AWS_ACCESS_KEY_ID", user.access_key_id)
        environment.setenv("AWS_SECRET_ACCESS_KEY", user.secret_access_key)
        environment.setenv("AWS_REGION", aws.region)
        environment.setenv("AWS_ENDPOINT_URL", aws.endpoint_url)
        environment.setenv("SLUICE_CATALOG_TABLE", NAME)
        environment.setenv("SLUICE_STORAGE_ROLE_ARN", role_arn)
        catalog = Account().admin()
        catalog.create_catalog()
        catalog.put_share("sales")
        catalog.put_schema("sales", "retail")
        yield Provider(aws, catalog, role_arn, user_arn)


@pytest.fixture
def examine(capsys):
    def call(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
        """The exit code, and the findings of the table by their check."""
        capsys.readouterr()
        code = run(["doctor", *arguments, "--json"])
        findings = json.loads(capsys.readouterr().out)
        return code, {finding["check"]: finding for finding in findings if finding["subject"] != "account"}

    return call


def assert_first_failure(findings: dict[str, dict[str, str]], check: str) -> dict[str, str]:
    position = TABLE_CHECKS.index(check)
    expected = ["passed"] * position + ["failed"] + ["not run"] * (len(TABLE_CHECKS) - position - 1)
    assert [findings[name]["status"] for name in TABLE_CHECKS] == expected, findings
    assert findings[check]["remedy"]
    return findings[check]


def test_a_sound_table_passes_every_check_and_one_of_its_files_is_opened(provider, examine):
    name = provider.add("sound", provider.write_table("sound"))

    code, findings = examine(name)

    assert code == 0
    assert {check: finding["status"] for check, finding in findings.items()} == dict.fromkeys(TABLE_CHECKS, "passed")
    assert "version 0, reader version 1" in findings["log"]["detail"]
    assert "files: 1" in findings["features"]["detail"]
    assert findings["signed-url"]["detail"].startswith("sound/part-")
    assert "X-Amz-Signature" not in json.dumps(findings)


def test_the_url_of_a_table_without_files_is_not_run(provider, examine):
    location = provider.write_table("empty")
    deltalake.DeltaTable(location, storage_options=provider.owner).delete()

    code, findings = examine(provider.add("empty", location))

    assert (code, findings["signed-url"]["status"]) == (0, "not run")
    assert findings["signed-url"]["detail"] == "the table has no files"


def test_a_bucket_that_does_not_exist_is_found(provider, examine):
    code, findings = examine(provider.add("nowhere", "s3://no-such-bucket-here/t"))

    assert code == 1
    assert "no-such-bucket-here does not exist" in assert_first_failure(findings, "bucket")["detail"]


def test_a_role_that_does_not_trust_the_caller_with_this_external_id_is_found(provider, examine):
    location = provider.write_table("external")
    role = create_role(
        provider.aws, f"{NAME}-external", allow("s3:*", "*"), trusts=provider.user_arn, external_id="right"
    )

    _, right = examine(provider.add("right", location, role_arn=role, external_id="right"))
    _, wrong = examine(provider.add("wrong", location, role_arn=role, external_id="wrong"))

    assert {finding["status"] for finding in right.values()} == {"passed"}
    failure = assert_first_failure(wrong, "role")
    assert f"the role {role} cannot be assumed" in failure["detail"]
    assert "trust policy" in failure["remedy"]


def test_a_server_without_a_storage_role_is_found(provider, examine, monkeypatch):
    name = provider.add("no-role", provider.write_table("no-role"))
    monkeypatch.delenv("SLUICE_STORAGE_ROLE_ARN")

    _, findings = examine(name)

    assert "SLUICE_STORAGE_ROLE_ARN" in assert_first_failure(findings, "role")["remedy"]


def test_a_role_that_may_not_read_the_table_is_found(provider, examine):
    location = provider.write_table("denied")
    blind = create_role(
        provider.aws, f"{NAME}-blind", allow("s3:GetObject", "arn:aws:s3:::other/*"), trusts=provider.user_arn
    )

    _, findings = examine(provider.add("denied", location, role_arn=blind))

    assert "not authorized to perform: s3:ListBucket" in assert_first_failure(findings, "log")["detail"]


def test_a_folder_without_a_delta_log_is_found(provider, examine):
    _, findings = examine(provider.add("no-log", f"s3://{NAME}/no-log"))

    assert "table files missing" in assert_first_failure(findings, "log")["detail"]


def test_a_table_that_this_server_cannot_share_is_found(provider, examine):
    location = provider.write_table("modern", configuration={"delta.enableDeletionVectors": "true"})

    _, findings = examine(provider.add("modern", location))

    assert "deletionVectors" in assert_first_failure(findings, "features")["detail"]


def test_a_data_file_that_is_gone_or_overwritten_is_found(provider, examine):
    name = provider.add("damaged", provider.write_table("damaged"))
    s3 = client(provider.aws, "s3")
    (file,) = (entry["Key"] for entry in s3.list_objects_v2(Bucket=NAME, Prefix="damaged/part-")["Contents"])

    s3.put_object(Bucket=NAME, Key=file, Body=b"no Parquet")
    assert "is not a Parquet file" in assert_first_failure(examine(name)[1], "signed-url")["detail"]
    s3.delete_object(Bucket=NAME, Key=file)
    assert f"{file} does not exist" in assert_first_failure(examine(name)[1], "signed-url")["detail"]


def test_a_role_that_may_read_the_log_but_not_the_files_is_found(provider, examine):
    location = provider.write_table("log-only")
    may = (
        allow("s3:GetObject", f"arn:aws:s3:::{NAME}/log-only/_delta_log/*"),
        allow("s3:ListBucket", f"arn:aws:s3:::{NAME}"),
    )
    role = create_role(provider.aws, f"{NAME}-log-only", *may, trusts=provider.user_arn)

    _, findings = examine(provider.add("log-only", location, role_arn=role))

    failure = assert_first_failure(findings, "signed-url")
    assert "answers 403" in failure["detail"]
    assert "s3:GetObject" in failure["remedy"]


def test_a_url_that_cannot_be_reached_is_found_and_not_shown(provider, examine, monkeypatch):
    name = provider.add("unreachable", provider.write_table("unreachable"))
    send = URLLib3Session.send

    def without_signed_urls(session: URLLib3Session, request: Any) -> Any:
        if "X-Amz-Signature" in request.url:
            raise EndpointConnectionError(endpoint_url=request.url)
        return send(session, request)

    monkeypatch.setattr(URLLib3Session, "send", without_signed_urls)

    _, findings = examine(name)

    assert assert_first_failure(findings, "signed-url")["detail"].endswith("cannot be reached")
    assert "X-Amz-" not in json.dumps(findings)


def test_table_add_refuses_what_the_doctor_would_fail_unless_told_otherwise(provider, capsys):
    location = f"s3://{NAME}/not-there"
    command = ["table", "add", "sales.retail.refused", "--location", location]

    assert run(command) == 1
    assert "sales.retail.refused log: the log cannot be read" in capsys.readouterr().err
    assert run(["table", "show", "sales.retail.refused"]) == 1
    assert run([*command, "--skip-checks"]) == 0
    assert run(["table", "add", "sales.retail.taken", "--location", provider.write_table("taken")]) == 0


def test_apply_runs_the_checks_only_if_asked(provider, tmp_path, capsys):
    path = tmp_path / "shares.yaml"
    table = f"{{name: t, location: s3://{NAME}/not-there}}"
    path.write_text(f"version: 1\nshares:\n- name: checked\n  schemas: [{{name: c, tables: [{table}]}}]\n")

    assert run(["apply", str(path), "--check"]) == 1
    assert "Nothing was applied, because a check failed." in capsys.readouterr().err
    assert [share.name for share in provider.catalog.shares()] == ["sales"]
    assert run(["apply", str(path)]) == 0
    provider.catalog.remove_share("checked", cascade=True)


def test_with_json_the_failed_checks_are_in_the_one_document(provider, capsys):
    assert run(["table", "add", "sales.retail.broken", "--location", f"s3://{NAME}/not-there", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert "was not added" in document["error"]
    assert [finding["check"] for finding in document["findings"]] == ["log"]


def test_history_that_starts_later_than_the_table_is_found(provider, examine):
    _, findings = examine(provider.add("young", provider.write_table("young"), history_shared=True, start_version=9))
    assert "shared from 9 on" in assert_first_failure(findings, "log")["detail"]


def test_directory_access_to_a_table_that_hides_history_is_found(provider, examine):
    _, findings = examine(provider.add("hidden", provider.write_table("hidden"), access_modes=("url", "dir")))
    assert "whole history" in assert_first_failure(findings, "log")["detail"]


def test_a_prefix_with_characters_of_a_url_is_read(provider, examine):
    provider.write_table(quote("what?#no"))  # deltalake takes a URL, the catalog a location as it is
    _, findings = examine(provider.add("odd", f"s3://{NAME}/what?#no"))
    assert {finding["status"] for finding in findings.values()} == {"passed"}


def test_without_names_the_doctor_examines_every_table(provider, capsys):
    provider.add("one", provider.write_table("one"))
    capsys.readouterr()

    run(["doctor", "--json"])

    subjects = {finding["subject"] for finding in json.loads(capsys.readouterr().out)}
    expected = {table.full_name for table in provider.catalog.tables("sales")}
    assert subjects == {"account", *expected}


def test_a_caller_without_rights_is_told_which_one_is_missing(provider, capsys, monkeypatch):
    _, nobody = create_user(provider.aws, f"{NAME}-nobody")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", nobody.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", nobody.secret_access_key)

    assert run(["share", "list"]) == 1
    assert "AWS denies Query to these credentials" in capsys.readouterr().err
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert run(["share", "list"]) == 1
    assert "AWS does not accept these credentials" in capsys.readouterr().err
