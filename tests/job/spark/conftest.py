"""One Spark session for all tests of the job (Java takes seconds to start), run as a user of the embedded AWS."""

import contextlib
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import boto3
import pytest
from pyspark.sql import SparkSession

from cli.embedded.ministack import ACCOUNT_ID, EmbeddedAws
from pipeline.spark.session import local_session
from pipeline.storage import _storage
from tests.integration.iam import allow, create_user

INDEX_TABLE = "job-index"
# The actions that infra/index.yaml allows the job.
ACTIONS = ("BatchWriteItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "GetItem", "BatchGetItem")


class JobUser(NamedTuple):
    """A user that can only assume roles and write the index."""

    arn: str
    variables: dict[str, str]
    """Environment variables of the job and its workers."""


@pytest.fixture(scope="package")
def job_user(aws: EmbeddedAws) -> Iterator[JobUser]:
    create_index_table(aws)
    index = f"arn:aws:dynamodb:{aws.region}:{ACCOUNT_ID}:table/{INDEX_TABLE}"
    rights = [allow("sts:AssumeRole", "*"), *(allow(f"dynamodb:{action}", index) for action in ACTIONS)]
    arn, user = create_user(aws, f"job-{uuid.uuid4().hex[:8]}", *rights)
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


def create_index_table(aws: EmbeddedAws) -> None:
    client = boto3.client("dynamodb", **aws.client_arguments())
    with contextlib.suppress(client.exceptions.ResourceInUseException):
        client.create_table(
            TableName=INDEX_TABLE,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            BillingMode="PAY_PER_REQUEST",
        )


@pytest.fixture(scope="package")
def spark(job_user: JobUser) -> Iterator[SparkSession]:
    session = local_session(
        "sluice-test", {f"spark.executorEnv.{variable}": value for variable, value in job_user.variables.items()}
    )
    yield session
    session.stop()
