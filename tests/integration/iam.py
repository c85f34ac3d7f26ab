"""Helpers that create users, roles and policies in the embedded AWS."""

import json
from typing import Any

import botocore.session

from cli.embedded.ministack import EmbeddedAws
from core.storage.roles import Credentials

# An expiry in the far future: the emulator checks when credentials really expire.
FAR_AWAY = 10_000_000_000.0


def client(aws: EmbeddedAws, service: str, credentials: Credentials | None = None) -> Any:
    """Returns a client with the given credentials, or with those of the root user."""
    keys = aws.client_arguments()
    if credentials:
        keys["aws_access_key_id"] = credentials.access_key_id
        keys["aws_secret_access_key"] = credentials.secret_access_key
        if credentials.session_token:
            keys["aws_session_token"] = credentials.session_token
    return botocore.session.Session().create_client(service, **keys)


def allow(action: str, resource: str, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def create_user(aws: EmbeddedAws, name: str, *statements: dict[str, Any]) -> tuple[str, Credentials]:
    """Creates a user with a policy of these statements. Returns its ARN and keys."""
    iam = client(aws, "iam")
    arn = iam.create_user(UserName=name)["User"]["Arn"]
    if statements:
        iam.put_user_policy(UserName=name, PolicyName="inline", PolicyDocument=policy(*statements))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return arn, Credentials(key["AccessKeyId"], key["SecretAccessKey"], None, FAR_AWAY)


def create_role(
    aws: EmbeddedAws, name: str, *statements: dict[str, Any], trusts: str, external_id: str | None = None
) -> str:
    """Creates a role that the principal `trusts` can assume. Returns its ARN."""
    trust: dict[str, Any] = {"Effect": "Allow", "Principal": {"AWS": trusts}, "Action": "sts:AssumeRole"}
    if external_id:
        trust["Condition"] = {"StringEquals": {"sts:ExternalId": external_id}}
    iam = client(aws, "iam")
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy(trust))["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=policy(*statements))
    return str(arn)
