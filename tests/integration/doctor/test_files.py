"""`sluice doctor` on the files of a table: whether their locations are registered and their URLs open."""

import json
from typing import Any

import deltalake
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.httpsession import URLLib3Session

from tests.integration.doctor.provider import Provider, assert_first_failure
from tests.integration.iam import allow, client, create_role
from tests.unit.delta import builder


def test_the_signed_url_check_is_not_run_for_a_table_without_files(provider, examine):
    location = provider.write_table("empty")
    deltalake.DeltaTable(location, storage_options=provider.owner).delete()

    code, findings = examine(provider.add("empty", location))

    assert (code, findings["signed-url"]["status"]) == (0, "not run")
    assert findings["signed-url"]["detail"] == "the table has no files"


@pytest.fixture(scope="module")
def clone(provider: Provider) -> str:
    """The location of a table whose only file belongs to another table, as in a shallow clone."""
    provider.write_table("origin")
    (file,) = provider.data_files("origin")
    return provider.write_log(
        "clone", builder.PROTOCOL, builder.metadata(), builder.add(f"s3a://{provider.name}/{file}")
    )


class TestFilesInOtherLocations:
    def test_they_are_found_and_the_remedy_names_the_option_to_register_them(self, provider, examine, clone):
        _, findings = examine(provider.add("clone", clone))

        failure = assert_first_failure(findings, "paths")
        assert (
            f"files outside of the table's locations: 1, such as s3a://{provider.name}/origin/part-"
            in failure["detail"]
        )
        assert "--auxiliary-location" in failure["remedy"]

    def test_they_open_if_their_location_is_auxiliary(self, provider, examine, clone):
        origin = f"s3://{provider.name}/origin"

        code, findings = examine(provider.add("clone-2", clone, auxiliary_locations=(origin,)))

        assert (code, {finding["status"] for finding in findings.values()}) == (0, {"passed"})
        assert findings["paths"]["detail"] == origin
        assert findings["signed-url"]["detail"].startswith(f"{origin}/part-")

    def test_an_auxiliary_location_that_does_not_exist_is_found(self, provider, examine, clone):
        _, findings = examine(provider.add("clone-3", clone, auxiliary_locations=("s3://no-such-bucket-here/x",)))

        assert "no-such-bucket-here does not exist" in assert_first_failure(findings, "bucket")["detail"]

    def test_an_auxiliary_location_without_live_files_is_also_opened(self, provider, examine):
        location = provider.write_table("with-archive")
        provider.put("archive/", b"")  # how S3 consoles mark a folder
        provider.put("archive/old.parquet", b"PAR1")
        archive, nothing = f"s3://{provider.name}/archive", f"s3://{provider.name}/nothing"

        _, full = examine(provider.add("archive", location, auxiliary_locations=(archive,)))
        code, empty = examine(provider.add("nothing", location, auxiliary_locations=(nothing, archive)))

        assert (full["auxiliary"]["status"], full["auxiliary"]["detail"]) == ("passed", "can be read")
        assert (code, empty["auxiliary"]["status"]) == (0, "warned")
        assert empty["auxiliary"]["detail"] == f"no files in {nothing}"
        assert empty["cross-check"]["status"] == "passed"

    def test_an_auxiliary_location_that_the_role_may_not_read_is_found(self, provider, examine):
        location = provider.write_table("near")
        statements = (
            allow("s3:GetObject", f"arn:aws:s3:::{provider.name}/near/*"),
            allow("s3:ListBucket", f"arn:aws:s3:::{provider.name}", Condition={"StringLike": {"s3:prefix": "near/*"}}),
        )
        role = create_role(provider.aws, f"{provider.name}-near", *statements, trusts=provider.user_arn)

        code, findings = examine(
            provider.add("near", location, role_arn=role, auxiliary_locations=(f"s3://{provider.name}/far",))
        )

        assert (code, findings["auxiliary"]["status"]) == (1, "failed")
        assert f"s3://{provider.name}/far cannot be read" in findings["auxiliary"]["detail"]
        assert findings["cross-check"]["status"] == "not run"


def test_a_missing_or_overwritten_data_file_is_found(provider, examine):
    name = provider.add("damaged", provider.write_table("damaged"))
    (file,) = provider.data_files("damaged")

    provider.put(file, b"not Parquet")
    assert "is not a Parquet file" in assert_first_failure(examine(name)[1], "signed-url")["detail"]
    client(provider.aws, "s3").delete_object(Bucket=provider.name, Key=file)
    assert f"{file} does not exist" in assert_first_failure(examine(name)[1], "signed-url")["detail"]


def test_a_role_that_may_read_the_log_but_not_the_files_is_found(provider, examine):
    location = provider.write_table("log-only")
    statements = (
        allow("s3:GetObject", f"arn:aws:s3:::{provider.name}/log-only/_delta_log/*"),
        allow("s3:ListBucket", f"arn:aws:s3:::{provider.name}"),
    )
    role = create_role(provider.aws, f"{provider.name}-log-only", *statements, trusts=provider.user_arn)

    _, findings = examine(provider.add("log-only", location, role_arn=role))

    failure = assert_first_failure(findings, "signed-url")
    assert "returns 403" in failure["detail"]
    assert "s3:GetObject" in failure["remedy"]


def test_an_unreachable_url_is_found_and_not_shown(provider, examine, monkeypatch):
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
