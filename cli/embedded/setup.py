"""Creates the resources of the functions in the embedded AWS: catalog, index, bucket and two identities.

The functions run as `sluice-functions`, which can only read the catalog and the index and assume `sluice-storage`. Only
that role reads the bucket. The permissions match those of a deployed stack.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import botocore.session
from botocore.config import Config

from cli.embedded.ministack import ACCOUNT_ID, EmbeddedAws
from core.catalog.admin import CatalogAdmin
from core.catalog.items import READ_BY_FUNCTIONS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_iam import IAMClient
    from mypy_boto3_s3 import S3Client

CATALOG_TABLE = "sluice-catalog"
INDEX_TABLE = "sluice-index"
DATA_BUCKET = "sluice-data"
QUERY_QUEUE = "sluice-queries"
QUERY_QUEUE_URL = "SLUICE_QUERY_QUEUE_URL"
FUNCTIONS_USER = "sluice-functions"
STORAGE_ROLE = "sluice-storage"
POLICY_NAME = "sluice"
NO_PROXY = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def set_up(aws: EmbeddedAws, *, asynchronous: bool = False) -> dict[str, str]:
    """Creates missing resources and returns the environment variables of the functions.

    If queries may be `asynchronous`, the functions include the worker, which writes indexes.
    """
    catalog_admin(aws).create_catalog()
    _create_index(aws)
    s3 = s3_client(aws)
    # After a crash, kept objects may exist without the rest of the state.
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=DATA_BUCKET)
    iam = cast("IAMClient", _client(aws, "iam"))
    access_key_id, secret_access_key = _functions_user(iam, aws.region, asynchronous=asynchronous)
    _storage_role(iam)
    queue = {QUERY_QUEUE_URL: _create_queue(aws)} if asynchronous else {}
    return _environment(aws, access_key_id, secret_access_key) | queue


def owner_environment(aws: EmbeddedAws) -> dict[str, str]:
    """Returns the environment variables with which admin commands use a running embedded AWS."""
    return _environment(aws, aws.access_key_id, aws.secret_access_key)


def catalog_admin(aws: EmbeddedAws) -> CatalogAdmin:
    return CatalogAdmin(cast("DynamoDBClient", _client(aws, "dynamodb")), CATALOG_TABLE)


def s3_client(aws: EmbeddedAws) -> "S3Client":
    return cast("S3Client", _client(aws, "s3", config=Config(s3={"addressing_style": "path"})))


def forget_other_accounts() -> None:
    """Removes the user's AWS settings and bypasses proxies in this process, so it uses only the embedded AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ |= {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        **NO_PROXY,
    }


def _environment(aws: EmbeddedAws, access_key_id: str, secret_access_key: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": aws.endpoint_url,
        "AWS_REGION": aws.region,
        "AWS_ACCESS_KEY_ID": access_key_id,
        "AWS_SECRET_ACCESS_KEY": secret_access_key,
        "SLUICE_CATALOG_TABLE": CATALOG_TABLE,
        "SLUICE_INDEX_TABLE": INDEX_TABLE,
        "SLUICE_STORAGE_ROLE_ARN": _arn("role", STORAGE_ROLE),
        "SLUICE_STORAGE_EXTERNAL_ID": "",
        "SLUICE_S3_ADDRESSING": "path",
        **NO_PROXY,
    }


def _create_index(aws: EmbeddedAws) -> None:
    dynamodb = cast("DynamoDBClient", _client(aws, "dynamodb"))
    with contextlib.suppress(dynamodb.exceptions.ResourceInUseException):
        dynamodb.create_table(
            TableName=INDEX_TABLE,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            BillingMode="PAY_PER_REQUEST",
        )


def _create_queue(aws: EmbeddedAws) -> str:
    """Returns the URL of the queue with asynchronous queries. Empties one in kept state."""
    sqs: Any = _client(aws, "sqs")
    url: str = sqs.create_queue(QueueName=QUERY_QUEUE)["QueueUrl"]
    sqs.purge_queue(QueueUrl=url)
    return url


def _client(aws: EmbeddedAws, service: str, **arguments: Any) -> object:
    arguments |= aws.client_arguments()
    return botocore.session.Session().create_client(service, **arguments)


def _functions_user(iam: "IAMClient", region: str, *, asynchronous: bool) -> tuple[str, str]:
    """Returns a new access key of the user. Replaces the keys in kept state, whose secrets are unknown."""
    with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_user(UserName=FUNCTIONS_USER)
    tables = f"arn:aws:dynamodb:{region}:{ACCOUNT_ID}:table"
    read_by_functions = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": READ_BY_FUNCTIONS}}
    writes = ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:BatchWriteItem"]
    messages = ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage"]
    of_worker = (
        _allow(writes, f"{tables}/{INDEX_TABLE}"),
        _allow(messages, f"arn:aws:sqs:{region}:{ACCOUNT_ID}:{QUERY_QUEUE}"),
    )
    policy = _policy(
        {
            **_allow(["dynamodb:BatchGetItem", "dynamodb:Query"], f"{tables}/{CATALOG_TABLE}"),
            "Condition": read_by_functions,
        },
        _allow(["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"], f"{tables}/{INDEX_TABLE}"),
        _allow(["sts:AssumeRole"], _arn("role", STORAGE_ROLE)),
        *(of_worker if asynchronous else ()),
    )
    iam.put_user_policy(UserName=FUNCTIONS_USER, PolicyName=POLICY_NAME, PolicyDocument=policy)
    for old in iam.list_access_keys(UserName=FUNCTIONS_USER)["AccessKeyMetadata"]:
        iam.delete_access_key(UserName=FUNCTIONS_USER, AccessKeyId=old["AccessKeyId"])
    new = iam.create_access_key(UserName=FUNCTIONS_USER)["AccessKey"]
    return new["AccessKeyId"], new["SecretAccessKey"]


def _storage_role(iam: "IAMClient") -> None:
    # Trusts the functions, and the owner, who runs `sluice doctor`.
    principal = {"AWS": [_arn("user", FUNCTIONS_USER), f"arn:aws:iam::{ACCOUNT_ID}:root"]}
    trust = _policy({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal})
    with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_role(RoleName=STORAGE_ROLE, AssumeRolePolicyDocument=trust)
    policy = _policy(
        _allow(["s3:GetObject"], f"arn:aws:s3:::{DATA_BUCKET}/*"),
        _allow(["s3:ListBucket"], f"arn:aws:s3:::{DATA_BUCKET}"),
    )
    iam.put_role_policy(RoleName=STORAGE_ROLE, PolicyName=POLICY_NAME, PolicyDocument=policy)


def _arn(resource_type: str, name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT_ID}:{resource_type}/{name}"


def _allow(actions: list[str], *resources: str) -> dict[str, object]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources}


def _policy(*statements: Mapping[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
