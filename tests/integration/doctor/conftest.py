"""Fixtures: one provider account per module, and a function that runs `sluice doctor` on it."""

import json
import os
import uuid
from collections.abc import Iterator

import pytest

from cli.common.account import Account
from cli.embedded.ministack import EmbeddedAws
from cli.main import run
from tests.integration.doctor.provider import Provider
from tests.integration.iam import allow, client, create_role, create_user


@pytest.fixture(scope="module")
def provider(aws: EmbeddedAws) -> Iterator[Provider]:
    name = f"doctor-{uuid.uuid4().hex[:8]}"
    client(aws, "s3").create_bucket(Bucket=name)
    user_arn, user = create_user(aws, name, allow("dynamodb:*", "*"), allow("sts:*", "*"))
    readable = (allow("s3:GetObject", f"arn:aws:s3:::{name}/*"), allow("s3:ListBucket", f"arn:aws:s3:::{name}"))
    role_arn = create_role(aws, name, *readable, trusts=user_arn)
    with pytest.MonkeyPatch.context() as environment:
        for variable in [variable for variable in os.environ if variable.startswith(("AWS_", "SLUICE_"))]:
            environment.delenv(variable)
        environment.setenv("AWS_ACCESS_KEY_ID", user.access_key_id)
        environment.setenv("AWS_SECRET_ACCESS_KEY", user.secret_access_key)
        environment.setenv("AWS_REGION", aws.region)
        environment.setenv("AWS_ENDPOINT_URL", aws.endpoint_url)
        environment.setenv("SLUICE_CATALOG_TABLE", name)
        environment.setenv("SLUICE_STORAGE_ROLE_ARN", role_arn)
        catalog = Account().admin()
        catalog.create_catalog()
        catalog.put_share("sales")
        catalog.put_schema("sales", "retail")
        yield Provider(name, aws, catalog, role_arn, user_arn)


@pytest.fixture
def examine(capsys):
    def call(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
        """Returns the exit code, and the findings about the table by check."""
        capsys.readouterr()
        code = run(["doctor", *arguments, "--json"])
        findings = json.loads(capsys.readouterr().out)
        return code, {
            finding["check"]: finding for finding in findings if finding["subject"] not in ("account", "recipients")
        }

    return call
