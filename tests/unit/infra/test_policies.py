"""The policies in `infra/policies` follow the templates and name their limits. tests/deploy tries them."""

import json

import pytest

from cli.serve.routes import read_template
from tests.unit.infra.template import PROJECT, ROLES, actions, statements

POLICIES = {path.name: json.loads(path.read_text()) for path in (PROJECT / "infra" / "policies").glob("*.json")}
# Actions without support for narrower resources.
ANY_RESOURCE = {
    "cloudformation:GetTemplateSummary",
    "cloudformation:ValidateTemplate",
    "logs:DescribeLogGroups",
    "logs:GetQueryResults",
    "logs:StopQuery",
    "cloudwatch:DescribeAlarms",
    "cloudwatch:GetDashboard",
    "cloudwatch:ListDashboards",
    "cloudwatch:GetMetricData",
    "cloudwatch:ListMetrics",
    "ec2:CreateNetworkInterface",
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_statement_says_what_it_is_for_and_applies_to_all_resources_only_if_it_must(name):
    for statement in statements(POLICIES[name]):
        assert statement["Sid"].isalnum()
        assert statement["Effect"] == "Allow"
        assert "*" not in actions(statement)
        if statement["Resource"] == "*":
            assert set(actions(statement)) <= ANY_RESOURCE


def services_of(roles) -> set[str]:
    trusts = [statement for role in roles for statement in statements(role["AssumeRolePolicyDocument"])]
    return {trust["Principal"]["Service"] for trust in trusts if "Service" in trust["Principal"]}


def passed_to(*names: str) -> set[str]:
    found = set()
    for name in names:
        for statement in statements(POLICIES[name]):
            if "iam:PassRole" in actions(statement):
                services = statement["Condition"]["StringEquals"]["iam:PassedToService"]
                found |= {services} if isinstance(services, str) else set(services)
    return found


def test_a_deployer_passes_roles_only_to_the_services_that_use_them():
    index = read_template(PROJECT / "infra" / "index.yaml")["Resources"].values()
    roles = [resource["Properties"] for resource in index if resource["Type"] == "AWS::IAM::Role"]
    assert passed_to("deployer.json") == services_of(ROLES.values())
    # The function StartJob passes the role of the job, not the deployer.
    of_index = services_of(roles) - {"emr-serverless.amazonaws.com"}
    assert passed_to("deployer.json", "deployer-index.json") >= of_index


def test_a_deployer_can_attach_only_the_managed_policy_of_the_template():
    (attach,) = (
        statement for statement in statements(POLICIES["deployer.json"]) if "iam:AttachRolePolicy" in actions(statement)
    )
    (managed,) = ROLES["ApiGatewayLogsRole"]["ManagedPolicyArns"]
    allowed = attach["Condition"]["ArnEquals"]["iam:PolicyARN"]
    assert managed["Fn::Sub"].replace("${AWS::Partition}", "aws") == allowed


def test_nobody_but_the_admin_can_read_items_and_the_admin_cannot_delete_tables():
    items = {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan", "dynamodb:BatchGetItem"}
    for name in ("deployer.json", "deployer-index.json"):
        assert not items & {action for statement in statements(POLICIES[name]) for action in actions(statement)}
    admin = {action for statement in statements(POLICIES["admin.json"]) for action in actions(statement)}
    assert not {"dynamodb:DeleteTable", "iam:PassRole", "iam:CreateRole"} & admin


@pytest.mark.parametrize("name", POLICIES)
def test_the_deployment_guide_names_every_policy(name):
    assert f"`{name}`" in (PROJECT / "docs" / "deploy.md").read_text()
