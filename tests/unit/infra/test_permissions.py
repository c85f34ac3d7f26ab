"""What each function may do, exactly: a permission that is not in the table below fails a test."""

import pytest

from tests.unit.infra.template import (
    FUNCTIONS,
    POLICIES,
    RESOURCES,
    ROLES,
    TEMPLATE,
    actions,
    arn,
    ref,
    statements,
    statements_of,
)

CATALOG = {("dynamodb:BatchGetItem", "CatalogTable"), ("dynamodb:Query", "CatalogTable")}
INDEX = {(f"dynamodb:{action}", "IndexTable") for action in ("GetItem", "BatchGetItem", "Query")}
STORAGE = {("sts:AssumeRole", "StorageRole"), ("sts:AssumeRole", "StorageRoleArns")}

BEYOND_LOG_AND_TRACES = {
    "ListShares": CATALOG,
    "GetShare": CATALOG,
    "ListSchemas": CATALOG,
    "ListTables": CATALOG,
    "ListAllTables": CATALOG,
    "GetTable": CATALOG,
    "TableVersion": CATALOG | STORAGE,
    "TableMetadata": CATALOG | INDEX | STORAGE,
    "QueryTable": CATALOG | INDEX | STORAGE,
    "TableChanges": CATALOG | INDEX | STORAGE,
    "QueryStatus": CATALOG,
    "TemporaryTableCredentials": CATALOG | STORAGE,
    "UnknownRoute": set(),
}
OPEN_TABLES = [function for function, allowed in BEYOND_LOG_AND_TRACES.items() if allowed >= STORAGE]


def resource_name(resource) -> str:
    match resource:
        case {"Ref": name} | {"Fn::GetAtt": [name, "Arn"]}:
            return name
        case {"Fn::If": ["OwnCatalog", own, {"Fn::Sub": existing}]}:
            assert existing.endswith(":table/${ExistingCatalogTable}")
            return resource_name(own)
    return resource


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_do_what_its_route_needs_and_no_more(function):
    allowed = {
        (action, resource_name(statement["Resource"]))
        for statement in statements_of(f"{function}Role")
        for action in actions(statement)
    }
    log_and_traces = {
        ("logs:CreateLogStream", f"{function}Logs"),
        ("logs:PutLogEvents", f"{function}Logs"),
        ("xray:PutTraceSegments", "*"),
        ("xray:PutTelemetryRecords", "*"),
    }
    assert allowed == log_and_traces | BEYOND_LOG_AND_TRACES[function]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_only_lambda_can_take_a_functions_role(function):
    role = ROLES[f"{function}Role"]
    assert statements(role["AssumeRolePolicyDocument"]) == [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
    ]
    assert "ManagedPolicyArns" not in role


def test_no_two_functions_share_a_role():
    assert len({str(properties["Role"]) for properties in FUNCTIONS.values()}) == len(FUNCTIONS)


def test_no_statement_allows_all_actions_and_only_traces_name_no_resource():
    documents = [policy["PolicyDocument"] for role in ROLES.values() for policy in role.get("Policies", [])]
    documents += [policy["PolicyDocument"] for policy in POLICIES.values()]
    for document in documents:
        for statement in statements(document):
            assert not any("*" in action for action in actions(statement))
            assert statement["Resource"] != "*" or all(action.startswith("xray:") for action in actions(statement))


def test_the_one_policy_of_aws_is_for_the_logs_of_api_gateway():
    managed = {name: role["ManagedPolicyArns"] for name, role in ROLES.items() if "ManagedPolicyArns" in role}
    (policy,) = managed.pop("ApiGatewayLogsRole")
    assert policy["Fn::Sub"].endswith(":policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs")
    assert not managed


def test_every_role_belongs_to_a_function_to_storage_or_to_api_gateway():
    assert set(ROLES) == {f"{function}Role" for function in FUNCTIONS} | {"StorageRole", "ApiGatewayLogsRole"}


def test_the_storage_role_trusts_the_functions_that_may_assume_it_and_the_admins_and_the_job_that_the_owner_names():
    functions = [arn(f"{function}Role") for function in OPEN_TABLES]
    trusted = [statement["Principal"] for statement in statements(ROLES["StorageRole"]["AssumeRolePolicyDocument"])]
    assert trusted == [{"AWS": functions}, {"AWS": ref("AdminArns")}, {"AWS": ref("IndexJobRoleArn")}]
    assert POLICIES["AssumeStorageRoles"]["Roles"] == [ref(f"{function}Role") for function in OPEN_TABLES]
    assert TEMPLATE["Outputs"]["TableFunctionRoleArns"]["Value"] == {"Fn::Join": [",", functions]}


def test_the_storage_role_only_reads():
    assert {action for statement in statements_of("StorageRole") for action in actions(statement)} == {
        "s3:ListBucket",
        "s3:GetObject",
        "kms:Decrypt",
    }


def test_no_function_can_be_called_but_through_the_api():
    assert not any("FunctionUrlConfig" in properties for properties in FUNCTIONS.values())
    assert not any(resource["Type"] == "AWS::Lambda::Permission" for resource in RESOURCES.values())
