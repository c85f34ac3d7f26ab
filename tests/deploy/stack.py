"""Builds and deploys the stack of `infra/template.yaml` to the embedded AWS with the real `sam`.

The emulator runs functions with its own interpreter, so they use the packages for this machine.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from cli.embedded.environment import tool_python
from cli.embedded.ministack import EmbeddedAws
from cli.serve.routes import read_routes
from core.storage.roles import Credentials
from tests.integration import iam
from tests.server import ROOT

INFRA = ROOT / "infra"
POLICIES = INFRA / "policies"
NAME = "sluice"
DATA_BUCKET = "shared-tables"
OTHER_BUCKET = "private-tables"
# The bucket that SAM CLI would create refuses requests without TLS, which the emulator does not have.
PACKAGES_BUCKET = "aws-sam-cli-managed-default-samclisourcebucket-test"
DENIED = {"AccessDenied", "AccessDeniedException"}


@dataclass(frozen=True)
class Stack:
    aws: EmbeddedAws
    deployer: Credentials
    """Keys of the user that deployed the stack, with the policy `deployer.json`."""
    admin: Credentials
    """Keys of the user in `AdminArns`, with the policy `admin.json`."""
    outputs: dict[str, str]
    resources: dict[str, str]
    """Physical IDs by logical ID."""
    streaming: dict[str, "Streaming"]
    """How the functions that stream were deployed before the stack was switched to buffered answers, by name."""

    @property
    def endpoint(self) -> str:
        """The emulator's address of the API, in place of ID.execute-api.REGION.amazonaws.com."""
        stage = self.outputs["Endpoint"].rpartition("/")[2]
        return f"{self.aws.endpoint_url}/restapis/{self.resources['Api']}/{stage}/_user_request_"

    def client(self, service: str) -> Any:
        """Returns a client with the permissions of the account's owner."""
        return iam.client(self.aws, service)


@dataclass(frozen=True)
class Streaming:
    """The parts of a deployed function and its route that the parameter ResponseMode decides."""

    integration_uri: str
    timeout_seconds: int
    wrapper: str | None


class Identity:
    """A session with the permissions of one role."""

    def __init__(self, stack: Stack, credentials: Credentials) -> None:
        self.stack = stack
        # Cached because creating a client takes longer than calling it.
        self.client = cache(partial(iam.client, stack.aws, credentials=credentials))

    def may(self, service: str, operation: str, **arguments: Any) -> bool:
        try:
            getattr(self.client(service), operation)(**arguments)
        except ClientError as error:
            if error.response["Error"]["Code"] not in DENIED:
                raise
            return False
        return True

    def assume(self, role_arn: str) -> "Identity":
        session = self.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="test")["Credentials"]
        keys = (session["AccessKeyId"], session["SecretAccessKey"], session["SessionToken"])
        return Identity(self.stack, Credentials(*keys, iam.FAR_AWAY))


def sam(*arguments: str, folder: Path = INFRA, **environment: str) -> str:
    """Runs SAM CLI in a folder, without the AWS settings of this process."""
    home = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        # The `sam` script does not work, because its virtual environment was moved.
        [str(tool_python(INFRA / "sam.txt")), "-m", "samcli", *arguments],
        cwd=folder,
        env={**home, "SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"sam {arguments[0]} failed: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def policy(name: str) -> list[dict[str, Any]]:
    """Returns the statements of a policy in `infra/policies`."""
    statements: list[dict[str, Any]] = json.loads((POLICIES / name).read_text())["Statement"]
    return statements


def _samconfig(folder: Path) -> Path:
    text = (INFRA / "samconfig.toml").read_text()
    assert "resolve_s3 = true" in text
    path = folder / "samconfig.toml"
    path.write_text(text.replace("resolve_s3 = true", f's3_bucket = "{PACKAGES_BUCKET}"'))
    return path


def deploy(aws: EmbeddedAws, packages: Path, folder: Path) -> Stack:
    """Deploys the stack as a user who has the policy for deployments and nothing else.

    Deploys it as it is by default, then again with buffered answers: the emulator answers requests to an integration
    that streams with a 500, because it takes the end of the URI, `response-streaming-invocations`, for a part of the
    function's name.
    """
    s3 = iam.client(aws, "s3")
    for bucket in (DATA_BUCKET, OTHER_BUCKET):
        s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=OTHER_BUCKET, Key="secret", Body=b"secret")
    _, deployer = iam.create_user(aws, "deployer", *policy("deployer.json"))
    admin_arn, admin = iam.create_user(aws, "admin", *policy("admin.json"))
    iam.client(aws, "s3", deployer).create_bucket(Bucket=PACKAGES_BUCKET)
    built = folder / "build"
    sam("build", "--build-dir", str(built), DIST=str(packages), PACKAGES_FOR="host", PYTHON=sys.executable)
    parameters = [f"DataBucketArns=arn:aws:s3:::{DATA_BUCKET}", f"AdminArns={admin_arn}"]
    arguments = ("deploy", "--template-file", str(built / "template.yaml"), "--config-file", str(_samconfig(folder)))
    run_deploy = partial(
        sam,
        *arguments,
        *("--no-confirm-changeset", "--no-progressbar", "--parameter-overrides"),
        *parameters,
        AWS_ENDPOINT_URL=aws.endpoint_url,
        AWS_ACCESS_KEY_ID=deployer.access_key_id,
        AWS_SECRET_ACCESS_KEY=deployer.secret_access_key,
    )
    run_deploy()
    streaming = streaming_functions(aws)
    run_deploy("ResponseMode=buffered")
    (described,) = iam.client(aws, "cloudformation").describe_stacks(StackName=NAME)["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]}
    return Stack(aws, deployer, admin, outputs, _resources(aws), streaming)


def _resources(aws: EmbeddedAws) -> dict[str, str]:
    resources = iam.client(aws, "cloudformation").describe_stack_resources(StackName=NAME)["StackResources"]
    return {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}


def streaming_functions(aws: EmbeddedAws) -> dict[str, Streaming]:
    """Returns how the functions whose routes stream are deployed now."""
    resources, found = _resources(aws), {}
    gateway, functions = iam.client(aws, "apigateway"), iam.client(aws, "lambda")
    api = resources["Api"]
    ids = {item["path"]: item["id"] for item in gateway.get_resources(restApiId=api, limit=500)["items"]}
    for route in read_routes():
        if route.streams:
            name = route.function.name
            method = {"restApiId": api, "resourceId": ids[route.resource], "httpMethod": route.method}
            uri = gateway.get_integration(**method)["uri"]
            deployed = functions.get_function_configuration(FunctionName=resources[name])
            variables = deployed["Environment"]["Variables"]
            found[name] = Streaming(uri, deployed["Timeout"], variables.get("AWS_LAMBDA_EXEC_WRAPPER"))
    return found
