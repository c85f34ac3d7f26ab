"""The AWS account of a command, and the messages for its failures."""

import os

import pytest
from botocore import exceptions

from cli.common.account import Account, environment_restored, explain
from cli.main import run


def answer(code: str, message: str = "a message") -> exceptions.ClientError:
    return exceptions.ClientError({"Error": {"Code": code, "Message": message}}, "Query")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (exceptions.NoCredentialsError(), "No AWS credentials found: set AWS_PROFILE, or"),
        (
            exceptions.PartialCredentialsError(provider="env", cred_var="secret"),
            "The AWS credentials are incomplete or cannot be read",
        ),
        (exceptions.ProfileNotFound(profile="prod"), "Choose an existing profile with --aws-profile or AWS_PROFILE."),
        (exceptions.NoRegionError(), "No AWS region is set. Set AWS_REGION or use --region."),
        (exceptions.EndpointConnectionError(endpoint_url="http://x"), "AWS cannot be reached"),
        (exceptions.ConnectTimeoutError(endpoint_url="http://x"), "AWS cannot be reached"),
        (exceptions.UnknownServiceError(service_name="x", known_service_names="y"), "The AWS client failed"),
        (answer("ResourceNotFoundException"), "Run `sluice init` to create it"),
        (answer("ResourceNotFoundException"), "set SLUICE_CATALOG_TABLE to its output CatalogTable"),
        (
            answer("AccessDeniedException", "no Query"),
            "AWS denied Query for these credentials: no",
        ),
        (
            answer("ExpiredTokenException"),
            "The AWS credentials have expired. Sign in again, for example with `aws sso login`.",
        ),
        (answer("UnrecognizedClientException"), "AWS rejected the credentials"),
        (answer("ThrottlingException"), "AWS returned ThrottlingException for Query: a message"),
    ],
)
def test_every_failure_of_aws_is_explained_in_one_line(error, sentence):
    assert sentence in explain(error)
    assert "\n" not in explain(error)


@pytest.fixture
def bare_environment(monkeypatch, tmp_path):
    """No credentials and no region in any place that botocore searches."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return monkeypatch


def test_a_missing_region_profile_or_credentials_are_reported(bare_environment, capsys):
    assert run(["share", "list"]) == 1
    assert capsys.readouterr().err == "Error: No AWS region is set. Set AWS_REGION or use --region.\n"
    assert run(["--region", "eu-west-1", "share", "list"]) == 1
    assert capsys.readouterr().err.startswith("Error: No AWS credentials found")
    assert run(["--aws-profile", "nowhere", "share", "list", "--json"]) == 1
    assert "nowhere" in capsys.readouterr().out


def test_an_unreachable_endpoint_is_reported(sluice, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    result = sluice("--endpoint-url", "http://127.0.0.1:9", "share", "list")

    assert result.code == 1
    assert result.err.startswith("Error: AWS cannot be reached: ")


def test_without_a_catalog_the_message_says_how_to_create_one(sluice):
    assert "Run `sluice init` to create it" in sluice("share", "list").err
    assert sluice("--catalog", "mine", "init").code == 0
    assert sluice("--catalog", "mine", "share", "list").code == 0


def test_options_override_the_environment(bare_environment):
    bare_environment.setenv("AWS_REGION", "eu-west-1")
    bare_environment.setenv("AWS_ENDPOINT_URL_S3", "http://s3.example")
    bare_environment.setenv("SLUICE_CATALOG_TABLE", "theirs")
    bare_environment.setenv("SLUICE_INDEX_TABLE", "their-index")

    options = {"region_option": "eu-west-3", "endpoint_url": "http://aws.example", "index": "my-index"}
    given = Account(catalog="mine", **options).settings
    found = Account().settings

    assert (given.catalog_table, given.region, given.s3_endpoint_url) == ("mine", "eu-west-3", "http://aws.example")
    assert (found.catalog_table, found.region, found.s3_endpoint_url) == ("theirs", "eu-west-1", "http://s3.example")

    assert (given.index_table, found.index_table) == ("my-index", "their-index")


def test_export_sets_the_environment_and_it_can_be_restored(bare_environment):
    bare_environment.setenv("AWS_ACCESS_KEY_ID", "from-another-account")
    bare_environment.setenv("SLUICE_INDEX_TABLE", "their-index")
    before = dict(os.environ)

    with environment_restored():
        Account(region_option="eu-west-3", endpoint_url="http://aws.example", profile="prod").export()
        exported = dict(os.environ)

    assert "AWS_ACCESS_KEY_ID" not in exported
    assert (exported["AWS_PROFILE"], exported["AWS_REGION"]) == ("prod", "eu-west-3")
    assert exported["AWS_ENDPOINT_URL"] == exported["AWS_ENDPOINT_URL_S3"] == "http://aws.example"
    assert (exported["SLUICE_CATALOG_TABLE"], exported["SLUICE_INDEX_TABLE"]) == ("sluice-catalog", "their-index")
    assert dict(os.environ) == before


def test_the_region_may_come_from_the_aws_configuration(bare_environment, tmp_path):
    (tmp_path / "config").write_text("[default]\nregion = sa-east-1\n[profile prod]\nregion = ca-central-1\n")

    assert Account().settings.region == "sa-east-1"
    assert Account(profile="prod").settings.region == "ca-central-1"
