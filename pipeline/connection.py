"""The DynamoDB client. The job and each Spark worker process create one."""

from functools import cache
from typing import TYPE_CHECKING, cast

import botocore.session
from botocore.config import Config

from core.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CONFIG = Config(connect_timeout=5, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 3})


@cache
def dynamodb() -> "DynamoDBClient":
    region = Settings.from_environment().region
    client = botocore.session.Session().create_client("dynamodb", region_name=region, config=CONFIG)
    return cast("DynamoDBClient", client)
