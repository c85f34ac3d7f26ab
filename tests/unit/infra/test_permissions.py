"""The exact permissions of each function. A test fails if a function has more or fewer than this table lists."""

import pytest

from core.catalog.items import READ_BY_FUNCTIONS
from core.queries.query import PK_PREFIX
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
READABLE_KEYS = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(READ_BY_FUNCTIONS)}}
QUERY_KEYS = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{PK_PREFIX}*"]}}
SUBMIT = {("dynamodb:PutItem", "queries in IndexTable"), ("sqs:SendMessage", "Queries")}
CONTINUE = {("dynamodb:UpdateItem", "queries in IndexTable"), ("sqs:SendMessage", "Queries")}
PREPARE = {
    ("dynamodb:UpdateItem", "queries in IndexTable"),
    ("dynamodb:PutItem", "IndexTable"),
    ("dynamodb:BatchWriteItem", "IndexTable"),
    *((f"sqs:{action}", "Queries") for action in ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")),
    ("sqs:SendMessage", "IndexQueueName"),
}
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
    "QueryTable": CATALOG | INDEX | STORAGE | SUBMIT,
    "TableChanges": CATALOG | INDEX | STORAGE,
    "QueryStatus": CATALOG | INDEX | STORAGE | CONTINUE,
    "TemporaryTableCredentials": CATALOG | STORAGE,
    "UnknownRoute": set(),
    "PrepareQuery": INDEX | STORAGE | PREPARE,
}
OPEN_TABLES = [function for function, allowed in BEYOND_LOG_AND_TRACES.items() if allowed >= STORAGE]


def resource_name(resource) -> str:
    match resource:
        case {"Ref": name} | {"Fn::GetAtt": [name, "Arn"]}:
            return name
        case {"Fn::If": ["OwnCatalog", own, {"Fn::Sub": existing}]}:
            assert existing.endswith(":table/${ExistingCatalogTable}")
            return resource_name(own)
        case {"Fn::Sub": queue} if ":sqs:" in queue:
            assert queue.endswith(":${AWS::AccountId}:${IndexQueueName}")
            return "IndexQueueName"
    return resource


def effective_permissions(role: str) -> set[tuple[str, str]]:
    allowed = set()
    for statement in statements_of(role):
        # Anything else, such as NotAction, would make the set below incomplete.
        assert statement.keys() - {"Condition"} == {"Effect", "Action", "Resource"}
        assert statement["Effect"] == "Allow"
        resource, condition = resource_name(statement["Resource"]), statement.get("Condition")
        if condition == QUERY_KEYS:
            resource = f"queries in {resource}"
        else:
            assert condition == (READABLE_KEYS if resource == "CatalogTable" else None)
        allowed |= {(action, resource) for action in actions(statement)}
    return allowed


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_has_exactly_the_permissions_that_its_route_needs(function):
    log_and_traces = {
        ("logs:CreateLogStream", f"{function}Logs"),
        ("logs:PutLogEvents", f"{function}Logs"),
        ("xray:PutTraceSegments", "*"),
        ("xray:PutTelemetryRecords", "*"),
    }
    assert effective_permissions(f"{function}Role") == log_and_traces | BEYOND_LOG_AND_TRACES[function]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_only_lambda_can_assume_the_role_of_a_function(function):
    role = ROLES[f"{function}Role"]
    assert statements(role["AssumeRolePolicyDocument"]) == [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
    ]
    assert not {"ManagedPolicyArns", "PermissionsBoundary"} & role.keys()


def test_no_two_functions_share_a_role():
    assert len({str(properties["Role"]) for properties in FUNCTIONS.values()}) == len(FUNCTIONS)


def test_no_statement_allows_all_actions_and_only_traces_apply_to_all_resources():
    documents = [policy["PolicyDocument"] for role in ROLES.values() for policy in role.get("Policies", [])]
    documents += [policy["PolicyDocument"] for policy in POLICIES.values()]
    for document in documents:
        for statement in statements(document):
            assert not any("*" in action for action in actions(statement))
            assert statement["Resource"] != "*" or all(action.startswith("xray:") for action in actions(statement))


def test_the_only_aws_managed_policy_lets_api_gateway_write_logs():
    managed = {name: role["ManagedPolicyArns"] for name, role in ROLES.items() if "ManagedPolicyArns" in role}
    (policy,) = managed.pop("ApiGatewayLogsRole")
    assert policy["Fn::Sub"].endswith(":policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs")
    assert not managed


def test_there_are_no_roles_other_than_those_of_functions_storage_and_api_gateway():
    assert set(ROLES) == {f"{function}Role" for function in FUNCTIONS} | {"StorageRole", "ApiGatewayLogsRole"}


def test_the_storage_role_trusts_the_functions_that_open_tables_the_admins_and_the_index_job():
    functions = [arn(f"{function}Role") for function in OPEN_TABLES]
    trusted = [statement["Principal"] for statement in statements(ROLES["StorageRole"]["AssumeRolePolicyDocument"])]
    assert trusted == [{"AWS": functions}, {"AWS": ref("AdminArns")}, {"AWS": ref("IndexJobRoleArn")}]
    assert POLICIES["AssumeStorageRoles"]["Roles"] == [ref(f"{function}Role") for function in OPEN_TABLES]
    assert TEMPLATE["Outputs"]["TableFunctionRoleArns"]["Value"] == {"Fn::Join": [",", functions]}


def test_the_storage_role_has_read_permissions_only():
    assert {action for statement in statements_of("StorageRole") for action in actions(statement)} == {
        "s3:ListBucket",
        "s3:GetObject",
        "kms:Decrypt",
    }


def test_functions_can_be_invoked_only_through_the_api():
    assert not any("FunctionUrlConfig" in properties for properties in FUNCTIONS.values())
    assert not any(resource["Type"] == "AWS::Lambda::Permission" for resource in RESOURCES.values())
