"""`sluice doctor` on an account that enforces policies: each fault is found by its own check, with a remedy."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from cli.main import run
from tests.integration.doctor.provider import TABLE_CHECKS, assert_first_failure
from tests.integration.iam import allow, create_role, create_user
from tests.unit.delta import builder


def test_a_sound_table_passes_every_check_and_one_of_its_files_is_opened(provider, examine):
    name = provider.add("sound", provider.write_table("sound"))

    code, findings = examine(name)

    assert code == 0
    assert {check: finding["status"] for check, finding in findings.items()} == dict.fromkeys(TABLE_CHECKS, "passed")
    assert findings["log"]["detail"] == "version 0"
    features = findings["features"]["detail"]
    assert "reader version 1" in features
    assert "can be shared in parquet and delta format, to every client; files: 1, bytes: " in features
    assert findings["signed-url"]["detail"].startswith(f"s3://{provider.name}/sound/part-")
    assert findings["cross-check"]["detail"] == "deltalake reads the same table; files: 1"
    assert "X-Amz-Signature" not in json.dumps(findings)


def test_a_bucket_that_does_not_exist_is_found(provider, examine):
    code, findings = examine(provider.add("nowhere", "s3://no-such-bucket-here/t"))

    assert code == 1
    assert "no-such-bucket-here does not exist" in assert_first_failure(findings, "bucket")["detail"]


def test_a_role_that_does_not_trust_the_caller_with_this_external_id_is_found(provider, examine):
    location = provider.write_table("external")
    role = create_role(
        provider.aws, f"{provider.name}-external", allow("s3:*", "*"), trusts=provider.user_arn, external_id="right"
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
        provider.aws, f"{provider.name}-blind", allow("s3:GetObject", "arn:aws:s3:::other/*"), trusts=provider.user_arn
    )

    _, findings = examine(provider.add("denied", location, role_arn=blind))

    assert "not authorized to perform: s3:ListBucket" in assert_first_failure(findings, "log")["detail"]


def test_a_folder_without_a_delta_log_is_found(provider, examine):
    _, findings = examine(provider.add("no-log", f"s3://{provider.name}/no-log"))

    assert "table files missing" in assert_first_failure(findings, "log")["detail"]


def protocol(*features: str) -> dict[str, Any]:
    listed = {"readerFeatures": features, "writerFeatures": features}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **listed}}


def test_a_table_that_this_server_cannot_share_is_found(provider, examine):
    location = provider.write_log("too-new", protocol("soon"), builder.metadata())

    _, findings = examine(provider.add("too-new", location))

    assert "soon" in assert_first_failure(findings, "features")["detail"]


def test_a_damaged_log_is_found(provider, examine):
    location = provider.write_log("damaged-log", builder.PROTOCOL)

    _, findings = examine(provider.add("damaged-log", location))

    assert assert_first_failure(findings, "log")["detail"] == "the log has no metaData action"


def test_a_damaged_log_is_shown_with_its_file_and_line_by_every_command(provider, examine, capsys):
    location = provider.write_log("bad-line", builder.PROTOCOL, builder.metadata(), builder.add("a", size="1"))
    problem = f"{builder.name(0)}, line 3: add: size is a string, not an integer"
    name = provider.add("bad-line", location)

    _, findings = examine(name)
    assert assert_first_failure(findings, "log")["detail"] == problem
    assert "Restore this file" in findings["log"]["remedy"]

    assert run(["table", "add", "sales.retail.again", "--location", location]) == 1
    assert problem in unwrapped(capsys.readouterr().err)
    assert run(["explain", name]) == 1
    assert f"The table '{name}' cannot be read: {problem}." in unwrapped(capsys.readouterr().err)


def unwrapped(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("configuration", "shared"),
    [
        ({}, "in parquet and delta format, to every client"),
        ({"delta.columnMapping.mode": "name"}, "in delta format only, to clients that read columnMapping"),
    ],
)
def test_the_features_finding_says_which_clients_can_read_the_table(provider, examine, configuration, shared):
    name = f"mapped-{len(configuration)}"
    location = provider.write_log(name, protocol("columnMapping"), builder.metadata(configuration=configuration))

    _, findings = examine(provider.add(name, location))

    assert findings["features"]["status"] == "passed"
    assert f"features columnMapping; can be shared {shared}; files: 0" in findings["features"]["detail"]


def test_table_add_refuses_a_table_that_fails_a_check_unless_checks_are_skipped(provider, capsys):
    location = f"s3://{provider.name}/not-there"
    command = ["table", "add", "sales.retail.refused", "--location", location]

    assert run(command) == 1
    assert "sales.retail.refused log: the log cannot be read" in capsys.readouterr().err
    assert run(["table", "show", "sales.retail.refused"]) == 1
    assert run([*command, "--skip-checks"]) == 0
    assert run(["table", "add", "sales.retail.taken", "--location", provider.write_table("taken")]) == 0


def test_apply_runs_the_checks_only_on_request(provider, tmp_path, capsys):
    path = tmp_path / "shares.yaml"
    table = f"{{name: t, location: s3://{provider.name}/not-there}}"
    path.write_text(f"version: 1\nshares:\n- name: checked\n  schemas: [{{name: c, tables: [{table}]}}]\n")

    assert run(["apply", str(path), "--check"]) == 1
    assert "Nothing was applied because a check failed." in capsys.readouterr().err
    assert [share.name for share in provider.catalog.shares()] == ["sales"]
    assert run(["apply", str(path)]) == 0
    provider.catalog.remove_share("checked", cascade=True)


def test_with_json_the_failed_checks_are_part_of_the_one_document(provider, capsys):
    assert run(["table", "add", "sales.retail.broken", "--location", f"s3://{provider.name}/not-there", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert "was not added" in document["error"]
    assert [finding["check"] for finding in document["findings"]] == ["log"]


def test_a_start_version_after_the_latest_version_is_found(provider, examine):
    _, findings = examine(provider.add("young", provider.write_table("young"), history_shared=True, start_version=9))
    assert "shares its history from version 9" in assert_first_failure(findings, "log")["detail"]


def test_directory_access_to_a_table_that_hides_history_is_found(provider, examine):
    _, findings = examine(provider.add("hidden", provider.write_table("hidden"), access_modes=("url", "dir")))
    assert "whole history" in assert_first_failure(findings, "log")["detail"]


def test_a_prefix_with_special_url_characters_is_read(provider, examine):
    provider.write_table(quote("what?#no"))  # deltalake takes an encoded URL, the catalog a plain location
    _, findings = examine(provider.add("odd", f"s3://{provider.name}/what?#no"))
    assert {finding["status"] for finding in findings.values()} == {"passed"}


def test_without_names_the_doctor_examines_every_table(provider, capsys):
    provider.add("one", provider.write_table("one"))
    capsys.readouterr()

    run(["doctor", "--json"])

    subjects = {finding["subject"] for finding in json.loads(capsys.readouterr().out)}
    expected = {table.full_name for table in provider.catalog.tables("sales")}
    assert subjects == {"account", "recipients", *expected}


def test_the_error_for_a_caller_without_permissions_names_the_denied_operation(provider, capsys, monkeypatch):
    _, nobody = create_user(provider.aws, f"{provider.name}-nobody")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", nobody.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", nobody.secret_access_key)

    assert run(["share", "list"]) == 1
    assert "AWS denied Query for these credentials" in capsys.readouterr().err
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert run(["share", "list"]) == 1
    assert "AWS rejected the credentials" in capsys.readouterr().err
