"""`infra/template.yaml`, parsed, with helpers to look things up in it."""

from pathlib import Path
from typing import Any

from cli.serve.routes import read_template

PROJECT = Path(__file__).parents[3]
TEMPLATE = read_template()
RESOURCES: dict[str, dict[str, Any]] = TEMPLATE["Resources"]


def of_type(resource_type: str) -> dict[str, dict[str, Any]]:
    """Returns the properties of all resources of a type, by logical ID."""
    return {name: resource["Properties"] for name, resource in RESOURCES.items() if resource["Type"] == resource_type}


FUNCTIONS = of_type("AWS::Serverless::Function")
ROLES = of_type("AWS::IAM::Role")
POLICIES = of_type("AWS::IAM::Policy")
ALARMS = of_type("AWS::CloudWatch::Alarm")


def ref(name: str) -> dict[str, str]:
    return {"Ref": name}


def arn(name: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [name, "Arn"]}


def statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the statements of a policy document, including those that depend on a condition."""
    return [statement["Fn::If"][1] if "Fn::If" in statement else statement for statement in document["Statement"]]


def actions(statement: dict[str, Any]) -> list[str]:
    action = statement["Action"]
    return [action] if isinstance(action, str) else action


def statements_of(role: str) -> list[dict[str, Any]]:
    """Returns all statements that apply to a role, from its inline policies and from the policies attached to it."""
    inline = [policy["PolicyDocument"] for policy in ROLES[role].get("Policies", [])]
    attached = [policy["PolicyDocument"] for policy in POLICIES.values() if ref(role) in policy["Roles"]]
    return [statement for document in inline + attached for statement in statements(document)]
