"""Deploys `infra/storage-role.yaml` as the owner of a bucket does, and checks the permissions of its role."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli.embedded.ministack import EmbeddedAws
from core.storage.roles import Credentials
from tests.integration.iam import FAR_AWAY, allow, client, create_user

TEMPLATE = Path(__file__).parents[2] / "infra" / "storage-role.yaml"
BUCKET = "owners-bucket"
EXTERNAL_ID = "agreed-with-the-owner"
KEYS = ("sales/t1/_delta_log/0.json", "sales-2024/secret", "other/secret")

Assume = Callable[..., Any]


@pytest.fixture(scope="module")
def assume(aws: EmbeddedAws) -> Assume:
    """Deploys a stack per prefix. Returns a function that assumes its role as the server does."""
    s3 = client(aws, "s3")
    s3.create_bucket(Bucket=BUCKET)
    for key in KEYS:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"content")
    server, server_keys = create_user(aws, "server-of-storage-stack", allow("sts:AssumeRole", "*"))
    stranger_keys = create_user(aws, "stranger-to-storage-stack", allow("sts:AssumeRole", "*"))[1]
    cloudformation = client(aws, "cloudformation")

    def deploy(name: str, prefix: str) -> str:
        values = {"ServerRoleArns": server, "ExternalId": EXTERNAL_ID, "BucketName": BUCKET, "Prefix": prefix}
        cloudformation.create_stack(
            StackName=name,
            TemplateBody=TEMPLATE.read_text(),
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()],
        )
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 240}
        )
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}["StorageRoleArn"]

    roles = {prefix: deploy(f"storage-{prefix or 'whole'}", prefix) for prefix in ("sales", "")}

    def assume(prefix: str, *, by_server: bool = True, **arguments: str) -> Any:
        sts = client(aws, "sts", server_keys if by_server else stranger_keys)
        answer = sts.assume_role(RoleArn=roles[prefix], RoleSessionName="test", **arguments)["Credentials"]
        keys = Credentials(answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"], FAR_AWAY)
        return client(aws, "s3", keys)

    return assume


def refused(call: Callable[..., object], *arguments: object, **named: object) -> bool:
    try:
        call(*arguments, **named)
    except ClientError as error:
        return error.response["Error"]["Code"] == "AccessDenied"
    return False


def test_only_the_server_with_the_external_id_can_assume_the_role(assume):
    assume("sales", ExternalId=EXTERNAL_ID)
    assert refused(assume, "sales")
    assert refused(assume, "sales", ExternalId="of-another-owner")
    assert refused(assume, "sales", by_server=False, ExternalId=EXTERNAL_ID)


def test_the_role_can_only_read_its_prefix(assume):
    s3 = assume("sales", ExternalId=EXTERNAL_ID)
    inside, *outside = KEYS
    assert s3.get_object(Bucket=BUCKET, Key=inside)["Body"].read() == b"content"
    assert all(refused(s3.get_object, Bucket=BUCKET, Key=key) for key in outside)
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="sales/t1/_delta_log/")["Contents"]
    assert [entry["Key"] for entry in listed] == [inside]
    for prefix in ("", "sales", "sales-2024/", "other/"):
        assert refused(s3.list_objects_v2, Bucket=BUCKET, Prefix=prefix), prefix


def test_without_a_prefix_the_role_can_read_the_whole_bucket(assume):
    s3 = assume("", ExternalId=EXTERNAL_ID)
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == sorted(KEYS)
    assert all(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"content" for key in KEYS)


@pytest.mark.parametrize("prefix", ["sales", ""])
def test_the_role_cannot_write(assume, prefix):
    s3 = assume(prefix, ExternalId=EXTERNAL_ID)
    assert refused(s3.put_object, Bucket=BUCKET, Key="sales/t1/new", Body=b"")
    assert refused(s3.delete_object, Bucket=BUCKET, Key=KEYS[0])
