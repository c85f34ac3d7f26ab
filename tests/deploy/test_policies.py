"""The policies in `infra/policies`: what is documented works with them, and everything else is denied.

The stack is deployed by a user who has only `deployer.json` (tests/deploy/stack.py). The emulator does not check what
CloudFormation does for that user, so those actions are simulated.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from cli.embedded.mirror import Mirror
from cli.serve.routes import read_template
from core.storage.roles import Credentials
from tests.deploy.cloudformation_actions import NEEDED, TABLE_ARN
from tests.deploy.shared_tables import trips
from tests.deploy.stack import DATA_BUCKET, INFRA, OTHER_BUCKET, POLICIES, Identity, Stack, policy
from tests.integration import iam
from tests.server import ROOT

pytestmark = pytest.mark.slow(reason="sam builds and deploys the whole stack")

TABLE = "partners.public.trips"
KEY = {"pk": {"S": "RECIPIENTS"}, "sk": {"S": "acme"}}


def sluice(stack: Stack, credentials: Credentials, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs the command with the outputs of the stack, as `docs/deploy.md` shows."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SLUICE_"))}
    environment = {
        **inherited,
        "PYTHONPATH": str(ROOT),
        "AWS_ENDPOINT_URL": stack.aws.endpoint_url,
        "AWS_REGION": stack.aws.region,
        "AWS_ACCESS_KEY_ID": credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
        "SLUICE_CATALOG_TABLE": stack.outputs["CatalogTable"],
        "SLUICE_INDEX_TABLE": stack.outputs["IndexTable"],
        "SLUICE_STORAGE_ROLE_ARN": stack.outputs["StorageRoleArn"],
        "SLUICE_ENDPOINT": stack.endpoint,
        "SLUICE_S3_ADDRESSING": "path",
    }
    command = [sys.executable, "-m", "cli.main", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def location(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tables") / "for-admin"
    write_deltalake(folder, trips())
    return Mirror(iam.client(stack.aws, "s3"), DATA_BUCKET).add(folder)


def test_an_admin_runs_the_documented_commands_with_the_policy(stack: Stack, location: str, tmp_path: Path) -> None:
    commands = [
        "share add partners",
        "schema add partners.public",
        f"table add {TABLE} --location {location}",
        "recipient add ann",
        "grant ann partners",
        f"token issue ann --out {tmp_path / 'ann.share'}",
        "token list ann",
        f"doctor {TABLE}",
        f"index {TABLE}",
        "index status",
        f"explain {TABLE} --where id=1",
        "init",
        "init --rotate-keys",
        "revoke ann partners",
        "recipient remove ann --yes",
        f"table remove {TABLE} --yes",
    ]
    for command in commands:
        done = sluice(stack, stack.admin, *command.split())
        assert done.returncode == 0, f"sluice {command}: {done.stdout}{done.stderr}"


def test_an_admin_reads_the_outputs_the_logs_and_the_queues_of_the_stacks(stack: Stack) -> None:
    queue = stack.client("sqs").create_queue(QueueName="sluice-index-Queue-1")["QueueUrl"]
    admin = Identity(stack, stack.admin)
    assert admin.may("cloudformation", "describe_stacks", StackName="sluice")
    assert admin.may("logs", "filter_log_events", logGroupName="/aws/lambda/sluice-ListShares")
    assert admin.may("cloudwatch", "describe_alarms")
    assert admin.may("sqs", "send_message", QueueUrl=queue, MessageBody='{"index": "all"}')
    assert admin.may("sqs", "receive_message", QueueUrl=queue)
    assert admin.may("sqs", "purge_queue", QueueUrl=queue)


def test_an_admin_cannot_change_the_stack_or_read_data_without_the_storage_role(stack: Stack) -> None:
    admin, catalog = Identity(stack, stack.admin), stack.outputs["CatalogTable"]
    trust = iam.policy({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}})
    can = {
        "delete the catalog": admin.may("dynamodb", "delete_table", TableName=catalog),
        "delete the stack": admin.may("cloudformation", "delete_stack", StackName="sluice"),
        "create a role": admin.may("iam", "create_role", RoleName="sluice-more", AssumeRolePolicyDocument=trust),
        "change a role": admin.may(
            "iam",
            "put_role_policy",
            RoleName=stack.resources["StorageRole"],
            PolicyName="more",
            PolicyDocument=iam.policy(iam.allow("*", "*")),
        ),
        "read a table's bucket": admin.may("s3", "list_objects_v2", Bucket=DATA_BUCKET),
        "read another bucket": admin.may("s3", "get_object", Bucket=OTHER_BUCKET, Key="secret"),
        "read another table": admin.may("dynamodb", "get_item", TableName="other-catalog", Key=KEY),
        "change a function": admin.may(
            "lambda", "update_function_configuration", FunctionName=stack.resources["ListShares"], Timeout=1
        ),
    }
    assert [action for action, allowed in can.items() if allowed] == []


def test_without_the_policy_the_command_says_what_is_denied(stack: Stack) -> None:
    _, keys = iam.create_user(stack.aws, "without-policy")
    done = sluice(stack, keys, "share", "list")
    assert done.returncode == 1
    assert "AWS denied Query for these credentials" in done.stderr


def test_an_admin_who_is_not_in_admin_arns_cannot_add_a_table_and_is_told_why(stack: Stack, location: str) -> None:
    _, keys = iam.create_user(stack.aws, "not-in-admin-arns", *policy("admin.json"))
    assert sluice(stack, keys, "share", "add", "theirs").returncode == 0
    assert sluice(stack, keys, "schema", "add", "theirs.public").returncode == 0
    done = sluice(stack, keys, "table", "add", "theirs.public.trips", "--location", location)
    assert done.returncode == 1
    assert "cannot be assumed" in done.stdout + done.stderr


def test_a_deployer_cannot_read_the_catalog_the_logs_or_the_tables(stack: Stack) -> None:
    deployer, catalog = Identity(stack, stack.deployer), stack.outputs["CatalogTable"]
    assert deployer.may("dynamodb", "describe_table", TableName=catalog)
    query = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "RECIPIENTS"}}}
    role = stack.outputs["StorageRoleArn"]
    can = {
        "read an item": deployer.may("dynamodb", "get_item", TableName=catalog, Key=KEY),
        "query the recipients": deployer.may("dynamodb", "query", TableName=catalog, **query),
        "write an item": deployer.may("dynamodb", "put_item", TableName=catalog, Item=KEY),
        "read logs": deployer.may("logs", "filter_log_events", logGroupName="/aws/lambda/sluice-ListShares"),
        "read a table": deployer.may("s3", "list_objects_v2", Bucket=DATA_BUCKET),
        "assume the storage role": deployer.may("sts", "assume_role", RoleArn=role, RoleSessionName="test"),
    }
    assert [action for action, allowed in can.items() if allowed] == []


def test_a_deployer_can_change_only_resources_of_its_stacks(stack: Stack) -> None:
    deployer = Identity(stack, stack.deployer)
    trust = iam.policy(
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
    )
    assert deployer.may("iam", "create_role", RoleName="sluice-probe", AssumeRolePolicyDocument=trust)
    everything = "arn:aws:iam::aws:policy/AdministratorAccess"
    can = {
        "create another role": deployer.may("iam", "create_role", RoleName="probe", AssumeRolePolicyDocument=trust),
        "attach another policy": deployer.may(
            "iam", "attach_role_policy", RoleName="sluice-probe", PolicyArn=everything
        ),
        "create a user": deployer.may("iam", "create_user", UserName="sluice-probe"),
        "delete another stack": deployer.may("cloudformation", "delete_stack", StackName="payroll"),
        "delete another table": deployer.may("dynamodb", "delete_table", TableName="payroll"),
        "delete another log": deployer.may("logs", "delete_log_group", logGroupName="/aws/lambda/payroll"),
        "create a bucket": deployer.may("s3", "create_bucket", Bucket="payroll-bucket"),
    }
    assert deployer.may("iam", "delete_role", RoleName="sluice-probe")
    assert [action for action, allowed in can.items() if allowed] == []


TEMPLATES = {
    "template.yaml": ("deployer.json",),
    "index.yaml": ("deployer.json", "deployer-index.json"),
    "storage-role.yaml": ("deployer.json",),
}


def resource_types() -> list[tuple[str, str]]:
    """Returns the resource types of each template."""
    resources = {template: read_template(INFRA / template)["Resources"].values() for template in TEMPLATES}
    return sorted({(template, resource["Type"]) for template, found in resources.items() for resource in found})


def denied(stack: Stack, files: tuple[str, ...], service: str, actions: str, resource: str) -> list[str]:
    answer: Any = stack.client("iam").simulate_custom_policy(
        PolicyInputList=[(POLICIES / file).read_text() for file in files],
        ActionNames=[f"{service}:{action}" for action in actions.split()],
        ResourceArns=[resource],
    )
    results = answer["EvaluationResults"]
    assert len(results) == len(actions.split())
    return [result["EvalActionName"] for result in results if result["EvalDecision"] != "allowed"]


@pytest.mark.parametrize(("template", "resource_type"), resource_types())
def test_a_deployer_can_create_update_and_delete_the_resources_of_a_template(
    stack: Stack, template: str, resource_type: str
) -> None:
    for needed in NEEDED[resource_type]:
        assert denied(stack, TEMPLATES[template], *needed) == []


def test_the_simulation_denies_what_a_policy_does_not_allow(stack: Stack) -> None:
    assert denied(stack, ("deployer.json",), "dynamodb", "GetItem", TABLE_ARN) == ["dynamodb:GetItem"]
    assert denied(stack, ("deployer.json",), *NEEDED["AWS::Events::Rule"][0]) != []


def test_sam_deletes_its_stacks_only_with_the_policy(stack: Stack) -> None:
    _, nobody = iam.create_user(stack.aws, "not-a-deployer")
    assert not Identity(stack, nobody).may("cloudformation", "describe_stacks", StackName="sluice")
    assert not Identity(stack, nobody).may("cloudformation", "delete_stack", StackName="sluice")


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.json")), ids=lambda path: path.name)
def test_a_policy_is_valid_and_fits_into_a_managed_policy(stack: Stack, path: Path) -> None:
    text = path.read_text()
    created = stack.client("iam").create_policy(PolicyName=f"sluice-{path.stem}", PolicyDocument=text)["Policy"]
    assert created["Arn"]
    # IAM does not count white space.
    assert len("".join(json.dumps(json.loads(text)).split())) <= 6144
