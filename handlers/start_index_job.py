"""Starts the index job for the tables that the messages of an SQS queue name (infra/index.yaml). Not a route."""

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import botocore.session
from botocore.config import Config

from core.index.write.job_configuration import JobConfiguration
from core.index.write.job_runs import JobStarter

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CONFIG = Config(connect_timeout=2, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4})


@cache
def job_starter() -> JobStarter:
    session = botocore.session.Session()
    return JobStarter(
        session.create_client("emr-serverless", config=CONFIG),
        cast("DynamoDBClient", session.create_client("dynamodb", config=CONFIG)),
        JobConfiguration.from_environment(os.environ),
        catalog_table=os.environ["SLUICE_CATALOG_TABLE"],
        index_table=os.environ["SLUICE_INDEX_TABLE"],
    )


def lambda_handler(event: Mapping[str, Any], context: object) -> dict[str, list[dict[str, str]]]:  # noqa: ARG001
    """An exception returns the whole batch to the queue and triggers the function's alarm."""
    to_redeliver = job_starter().start(event["Records"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in to_redeliver]}
