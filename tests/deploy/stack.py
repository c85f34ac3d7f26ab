"""Builds and deploys the stack of `infra/template.yaml` to the embedded AWS with the real `sam`.

The emulator runs functions with its own interpreter, so they use the packages for this machine.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.embedded.environment import tool_python
from cli.embedded.ministack import EmbeddedAws
from tests.integration import iam
from tests.server import ROOT

INFRA = ROOT / "infra"
NAME = "sluice"
DATA_BUCKET = "shared-tables"


@dataclass(frozen=True)
class Stack:
    aws: EmbeddedAws
    outputs: dict[str, str]
    resources: dict[str, str]
    """Physical IDs by logical ID."""

    @property
    def endpoint(self) -> str:
        """The emulator's address of the API, in place of ID.execute-api.REGION.amazonaws.com."""
        stage = self.outputs["Endpoint"].rpartition("/")[2]
        return f"{self.aws.endpoint_url}/restapis/{self.resources['Api']}/{stage}/_user_request_"

    def client(self, service: str) -> Any:
        """Returns a client with the permissions of the account's owner."""
        return iam.client(self.aws, service)


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


def deploy(aws: EmbeddedAws, packages: Path, folder: Path) -> Stack:
    built = folder / "build"
    sam("build", "--build-dir", str(built), DIST=str(packages), PACKAGES_FOR="host", PYTHON=sys.executable)
    sam(
        *("deploy", "--template-file", str(built / "template.yaml"), "--config-file", str(INFRA / "samconfig.toml")),
        *("--no-confirm-changeset", "--no-progressbar"),
        *("--parameter-overrides", f"DataBucketArns=arn:aws:s3:::{DATA_BUCKET}"),
        AWS_ENDPOINT_URL=aws.endpoint_url,
        AWS_ACCESS_KEY_ID=aws.access_key_id,
        AWS_SECRET_ACCESS_KEY=aws.secret_access_key,
    )
    cloudformation = iam.client(aws, "cloudformation")
    (described,) = cloudformation.describe_stacks(StackName=NAME)["Stacks"]
    resources = cloudformation.describe_stack_resources(StackName=NAME)["StackResources"]
    return Stack(
        aws,
        {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]},
        {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources},
    )
