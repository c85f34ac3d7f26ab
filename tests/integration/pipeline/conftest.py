"""One Spark session for the tests of the job, whose Java takes seconds to start, as a user of the embedded AWS."""

import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from cli.embedded.ministack import EmbeddedAws
from pipeline.session import local_session
from pipeline.storage import _storage
from tests.integration.iam import allow, create_user


class JobUser(NamedTuple):
    """Who may do nothing but assume roles."""

    arn: str
    variables: dict[str, str]
    """Of the environment of the job and of its workers."""


@pytest.fixture(scope="package")
def job_user(aws: EmbeddedAws) -> Iterator[JobUser]:
    arn, user = create_user(aws, f"job-{uuid.uuid4().hex[:8]}", allow("sts:AssumeRole", "*"))
    variables = {
        "AWS_ENDPOINT_URL": aws.endpoint_url,
        "AWS_REGION": aws.region,
        "AWS_DEFAULT_REGION": aws.region,
        "AWS_ACCESS_KEY_ID": user.access_key_id,
        "AWS_SECRET_ACCESS_KEY": user.secret_access_key,
    }
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in variables.items():
            patch.setenv(variable, value)
        _storage.cache_clear()
        yield JobUser(arn, variables)
    _storage.cache_clear()


@pytest.fixture(scope="package")
def spark(job_user: JobUser) -> Iterator[SparkSession]:
    session = local_session(
        "sluice-test", {f"spark.executorEnv.{variable}": value for variable, value in job_user.variables.items()}
    )
    yield session
    session.stop()
