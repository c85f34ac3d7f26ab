"""Deploys `infra/index.yaml` to the embedded AWS: a new checkpoint in S3 starts a run, with the stack's own roles.

The emulator does not have EMR Serverless. The stack is deployed without its application and calls a fake instead.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cli.embedded.ministack import EmbeddedAws
from cli.serve.routes import read_template
from core.catalog.admin import CatalogAdmin
from core.catalog.items import table_description
from infra.build_job import write_sources
from tests.emr_serverless import EmrServerless, emr_serverless
from tests.integration import iam
from tests.server import ROOT

NAME = "sluice-index"
DATA_BUCKET = "indexed-tables"
ARTIFACT_BUCKET = "sluice-artifacts"
RELEASE = "sluice/0123456789ab"
INDEX_TABLE = "indexed-files"
APPLICATION = "00application"
APPLICATION_ARN = f"arn:aws:emr-serverless:us-east-1:000000000000:/applications/{APPLICATION}"


@pytest.fixture(scope="module")
def emr() -> Iterator[EmrServerless]:
    with emr_serverless() as running:
        yield running


def template_without_application(emr: EmrServerless) -> str:
    template = read_template(ROOT / "infra" / "index.yaml")
    del template["Resources"]["Application"]
    template["Resources"]["StartJob"]["Properties"]["Environment"]["Variables"]["AWS_ENDPOINT_URL_EMR_SERVERLESS"] = (
        emr.url
    )
    text = json.dumps(template)
    for reference, value in (
        ('{"Ref": "Application"}', f'"{APPLICATION}"'),
        ('{"Fn::GetAtt": ["Application", "Arn"]}', f'"{APPLICATION_ARN}"'),
        ("${Application.Arn}", APPLICATION_ARN),
    ):
        assert reference in text
        text = text.replace(reference, value)
    return text


@pytest.fixture(scope="module")
def stack(aws: EmbeddedAws, emr: EmrServerless, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Deploys the stack. Returns the physical IDs of its resources by logical ID."""
    archive = tmp_path_factory.mktemp("release") / "sluice.zip"
    write_sources(archive)
    s3, dynamodb, cloudformation = (iam.client(aws, service) for service in ("s3", "dynamodb", "cloudformation"))
    for bucket in (DATA_BUCKET, ARTIFACT_BUCKET):
        s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=ARTIFACT_BUCKET, Key=f"{RELEASE}/sluice.zip", Body=archive.read_bytes())
    s3.put_bucket_notification_configuration(
        Bucket=DATA_BUCKET, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    admin = CatalogAdmin(dynamodb, "indexed-catalog")
    admin.create_catalog()
    dynamodb.create_table(**table_description(INDEX_TABLE))
    admin.put_share("sales")
    admin.put_schema("sales", "retail")
    admin.put_table("sales", "retail", "orders", location=f"s3://{DATA_BUCKET}/warehouse/all orders")
    values = {
        "CatalogTable": "indexed-catalog",
        "IndexTable": INDEX_TABLE,
        "StorageRoleArns": "arn:aws:iam::000000000000:role/storage",
        "ArtifactBucket": ARTIFACT_BUCKET,
        "ArtifactPrefix": RELEASE,
        "CheckpointBuckets": DATA_BUCKET,
        "BatchSeconds": "1",
    }
    cloudformation.create_stack(
        StackName=NAME,
        TemplateBody=template_without_application(emr),
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()],
    )
    cloudformation.get_waiter("stack_create_complete").wait(StackName=NAME, WaiterConfig={"Delay": 1})
    resources = cloudformation.describe_stack_resources(StackName=NAME)["StackResources"]
    return {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}


def test_a_new_checkpoint_in_s3_starts_a_run_for_its_table(
    aws: EmbeddedAws, emr: EmrServerless, stack: dict[str, str]
) -> None:
    s3: Any = iam.client(aws, "s3")
    for name in ("00000000000000000010.checkpoint.parquet", "_last_checkpoint"):
        s3.put_object(Bucket=DATA_BUCKET, Key=f"warehouse/all orders/_delta_log/{name}", Body=b"{}")
    assert emr.wait_for_runs(1, seconds=60)
    (run,) = emr.runs.values()
    assert run["jobDriver"]["sparkSubmit"] == {
        "entryPoint": f"s3://{ARTIFACT_BUCKET}/{RELEASE}/job.py",
        "entryPointArguments": ["--table=sales.retail.orders"],
    }
    assert run["executionRoleArn"].endswith(f"/{stack['JobRole']}")
    (configuration,) = run["configurationOverrides"]["applicationConfiguration"]
    properties = configuration["properties"]
    assert properties["spark.submit.pyFiles"] == f"s3://{ARTIFACT_BUCKET}/{RELEASE}/sluice.zip"
    assert properties["spark.executorEnv.SLUICE_INDEX_TABLE"] == INDEX_TABLE
    assert properties["spark.executorEnv.AWS_REGION"] == "us-east-1"
