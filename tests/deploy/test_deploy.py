"""Runs `sam build` and `sam deploy` against the embedded AWS, which enforces IAM.

Checks that the endpoint works and that each function has the permissions of its route and no others.
"""

import json
from collections.abc import Callable
from pathlib import Path

import delta_sharing
import pandas as pd
import pytest
import requests

from core.catalog.admin import CatalogAdmin
from tests.deploy.shared_tables import share_trips, trips
from tests.deploy.stack import DATA_BUCKET, OTHER_BUCKET, Identity, Stack, sam, streaming_functions
from tests.integration import iam
from tests.server import ROOT

pytestmark = pytest.mark.slow(reason="sam builds and deploys the whole stack")

OTHER_TABLE = "other-table"


@pytest.fixture(scope="module")
def token(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> str:
    admin = CatalogAdmin(stack.client("dynamodb"), stack.outputs["CatalogTable"])
    return share_trips(admin, iam.client(stack.aws, "s3"), DATA_BUCKET, tmp_path_factory.mktemp("tables"))


@pytest.fixture
def profile(stack: Stack, token: str, tmp_path: Path) -> str:
    path = tmp_path / "profile.share"
    path.write_text(json.dumps({"shareCredentialsVersion": 1, "endpoint": stack.endpoint, "bearerToken": token}))
    return str(path)


def test_sam_validates_the_template() -> None:
    assert "is a valid SAM Template" in sam("validate", "--lint")


def test_the_published_client_lists_and_reads_through_the_deployed_api(profile: str) -> None:
    tables = delta_sharing.SharingClient(profile).list_all_tables()
    assert [(table.share, table.schema, table.name) for table in tables] == [
        ("sales", "public", "many"),
        ("sales", "public", "trips"),
    ]
    assert delta_sharing.get_table_version(f"{profile}#sales.public.trips") == 0
    assert json.loads(delta_sharing.get_table_metadata(f"{profile}#sales.public.trips").schema_string)["fields"]
    read = delta_sharing.load_as_pandas(f"{profile}#sales.public.trips").sort_values("id", ignore_index=True)
    pd.testing.assert_frame_equal(read, trips().to_pandas(), check_dtype=False)


def test_the_published_client_reads_changes_through_the_deployed_api(profile: str) -> None:
    changes = delta_sharing.load_table_changes_as_pandas(f"{profile}#sales.public.trips", starting_version=0)
    assert sorted(changes["id"]) == trips()["id"].to_pylist()
    assert set(changes["_change_type"]) == {"insert"}


EVERY_ROUTE = [
    ("GET", "/shares", 200),
    ("GET", "/shares/sales", 200),
    ("GET", "/shares/sales/schemas", 200),
    ("GET", "/shares/sales/schemas/public/tables", 200),
    ("GET", "/shares/sales/all-tables", 200),
    ("GET", "/shares/sales/schemas/public/tables/trips", 200),
    ("HEAD", "/shares/sales/schemas/public/tables/trips", 200),
    ("GET", "/shares/sales/schemas/public/tables/trips/version", 200),
    ("GET", "/shares/sales/schemas/public/tables/trips/metadata", 200),
    ("POST", "/shares/sales/schemas/public/tables/trips/query", 200),
    ("POST", "/shares/sales/schemas/public/tables/trips/temporary-table-credentials", 200),
    ("GET", "/shares/sales/schemas/public/tables/trips/changes?startingVersion=0", 200),
    ("POST", "/shares/sales/schemas/public/tables/trips/queries/0", 404),
]


@pytest.mark.parametrize(("method", "path", "status"), EVERY_ROUTE)
def test_every_route_responds_and_requires_a_token(
    stack: Stack, token: str, method: str, path: str, status: int
) -> None:
    body = b"{}" if method == "POST" else None
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    answer = requests.request(method, stack.endpoint + path, headers=headers, data=body, timeout=60)
    assert answer.status_code == status, answer.text
    without_token = requests.request(method, stack.endpoint + path, data=body, timeout=60)
    assert without_token.status_code == 401


def test_the_unknown_route_function_returns_404(stack: Stack) -> None:
    # Invoked by name, because the emulator does not import the ANY methods that lead to this function.
    event = (ROOT / "events" / "unknown_route.json").read_bytes()
    invoked = stack.client("lambda").invoke(FunctionName=stack.resources["UnknownRoute"], Payload=event)
    assert json.loads(invoked["Payload"].read())["statusCode"] == 404


def test_every_deployed_route_has_a_throttle_of_its_own_and_unknown_routes_the_lowest(stack: Stack) -> None:
    stage = stack.client("apigateway").get_stage(restApiId=stack.resources["Api"], stageName="delta-sharing")
    limits = {path: setting["throttlingRateLimit"] for path, setting in stage["methodSettings"].items()}
    assert limits.pop("*/*") == 200
    unknown = {limits.pop(path) for path in list(limits) if path.endswith("/ANY")}
    assert unknown == {10}
    assert set(limits.values()) == {200}
    assert len(limits) == len(EVERY_ROUTE)


def test_the_parameter_response_mode_switches_a_deployed_stack(stack: Stack) -> None:
    buffered = streaming_functions(stack.aws)
    assert set(stack.streaming) == set(buffered) == {"QueryTable", "TableChanges", "QueryStatus"}
    for before in stack.streaming.values():
        assert before.integration_uri.endswith("/response-streaming-invocations")
        assert (before.timeout_seconds, before.wrapper) == (900, "/var/task/stream")
    for after in buffered.values():
        assert after.integration_uri.endswith("/invocations")
        assert (after.timeout_seconds, after.wrapper) == (28, None)


# Log permissions are not tested: the emulator checks the ARN of the group, AWS checks the ARNs of its streams.
CATALOG, INDEX, STORAGE = "reads the catalog", "reads the index", "assumes the storage role"
# Routes may write items of asynchronous queries only. The emulator does not evaluate dynamodb:LeadingKeys, which says
# so (tests/unit/infra/test_permissions.py).
WRITES_INDEX, SENDS, RECEIVES = "writes the index", "sends a query to the worker", "receives a query"
LISTS = {CATALOG}
OPENS = {CATALOG, STORAGE}
READS = {CATALOG, INDEX, STORAGE}
PERMISSIONS: dict[str, set[str]] = {
    "ListShares": LISTS,
    "GetShare": LISTS,
    "ListSchemas": LISTS,
    "ListTables": LISTS,
    "ListAllTables": LISTS,
    "GetTable": LISTS,
    "QueryStatus": READS | {WRITES_INDEX, SENDS},
    "TableVersion": OPENS,
    "TableMetadata": READS,
    "QueryTable": READS | {WRITES_INDEX, SENDS},
    "TableChanges": READS,
    "TemporaryTableCredentials": OPENS,
    "UnknownRoute": set(),
    "PrepareQuery": {INDEX, STORAGE, WRITES_INDEX, RECEIVES},
}


@pytest.fixture(scope="module")
def as_function(stack: Stack) -> Callable[[str], Identity]:
    """Returns sessions of the functions' roles, whose trust policies temporarily include a test user."""
    arn, keys = iam.create_user(stack.aws, "auditor", iam.allow("sts:AssumeRole", "*"))
    roles, auditor = iam.client(stack.aws, "iam"), Identity(stack, keys)

    def assume(function: str) -> Identity:
        role = roles.get_role(RoleName=stack.resources[f"{function}Role"])["Role"]
        trust = role["AssumeRolePolicyDocument"]
        trust_auditor = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": arn}}
        widened = {**trust, "Statement": [*trust["Statement"], trust_auditor]}
        roles.update_assume_role_policy(RoleName=role["RoleName"], PolicyDocument=json.dumps(widened))
        try:
            return auditor.assume(role["Arn"])
        finally:
            roles.update_assume_role_policy(RoleName=role["RoleName"], PolicyDocument=json.dumps(trust))

    return assume


@pytest.fixture(scope="module")
def other_role(stack: Stack) -> str:
    """A role that every principal in the account can assume if its own policy allows it."""
    return iam.create_role(stack.aws, "other-role", iam.allow("s3:*", "*"), trusts="arn:aws:iam::000000000000:root")


@pytest.fixture(scope="module")
def other_table(stack: Stack) -> str:
    stack.client("dynamodb").create_table(
        TableName=OTHER_TABLE,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        BillingMode="PAY_PER_REQUEST",
    )
    return OTHER_TABLE


def reads(identity: Identity, table: str) -> bool:
    # The emulator does not evaluate dynamodb:LeadingKeys. tests/unit/catalog compares it with the keys that are read.
    key = {"pk": {"S": "KEYS"}, "sk": {"S": "-"}}
    query = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "SHARES"}}}
    allowed = {
        identity.may("dynamodb", "batch_get_item", RequestItems={table: {"Keys": [key]}}),
        identity.may("dynamodb", "query", TableName=table, **query),
    }
    assert len(allowed) == 1
    return allowed.pop()


def writes(identity: Identity, table: str) -> bool:
    key = {"pk": {"S": "SHARES"}, "sk": {"S": "sales"}}
    return (
        identity.may("dynamodb", "put_item", TableName=table, Item=key)
        or identity.may("dynamodb", "update_item", TableName=table, Key=key)
        or identity.may("dynamodb", "delete_item", TableName=table, Key=key)
        or identity.may("dynamodb", "batch_write_item", RequestItems={table: [{"DeleteRequest": {"Key": key}}]})
        or identity.may(
            "dynamodb", "transact_write_items", TransactItems=[{"Delete": {"TableName": table, "Key": key}}]
        )
        or identity.may("dynamodb", "delete_table", TableName=table)
    )


@pytest.mark.parametrize("function", PERMISSIONS)
def test_a_function_has_the_permissions_of_its_route_and_no_others(
    stack: Stack, as_function: Callable[[str], Identity], other_table: str, other_role: str, function: str
) -> None:
    identity = as_function(function)
    catalog, index = stack.outputs["CatalogTable"], stack.outputs["IndexTable"]
    neighbour = "GetShare" if function == "ListShares" else "ListShares"
    assume = {"RoleSessionName": "test"}
    can = {
        CATALOG: reads(identity, catalog),
        INDEX: reads(identity, index),
        STORAGE: identity.may("sts", "assume_role", RoleArn=stack.outputs["StorageRoleArn"], **assume),
        "writes the catalog": writes(identity, catalog),
        WRITES_INDEX: writes(identity, index),
        SENDS: identity.may("sqs", "send_message", QueueUrl=stack.resources["Queries"], MessageBody="{}"),
        RECEIVES: identity.may("sqs", "receive_message", QueueUrl=stack.resources["Queries"]),
        "scans the catalog": identity.may("dynamodb", "scan", TableName=catalog),
        "reads another table": reads(identity, other_table),
        "reads the bucket itself": identity.may("s3", "list_objects_v2", Bucket=DATA_BUCKET),
        "reads another bucket": identity.may("s3", "get_object", Bucket=OTHER_BUCKET, Key="secret"),
        "assumes another role": identity.may("sts", "assume_role", RoleArn=other_role, **assume),
        "changes its permissions": identity.may(
            "iam",
            "put_role_policy",
            RoleName=stack.resources[f"{function}Role"],
            PolicyName="more",
            PolicyDocument=iam.policy(iam.allow("*", "*")),
        ),
        "calls another function": identity.may("lambda", "invoke", FunctionName=stack.resources[neighbour]),
    }
    assert {permission for permission, allowed in can.items() if allowed} == PERMISSIONS[function]


def test_the_permissions_of_every_function_are_tested(stack: Stack) -> None:
    functions = stack.client("lambda").list_functions()["Functions"]
    assert {stack.resources[name] for name in PERMISSIONS} == {function["FunctionName"] for function in functions}


def test_the_storage_role_can_only_read_the_data_buckets(
    stack: Stack, token: str, as_function: Callable[[str], Identity]
) -> None:
    storage = as_function("QueryTable").assume(stack.outputs["StorageRoleArn"])
    listed = storage.client("s3").list_objects_v2(Bucket=DATA_BUCKET, MaxKeys=1)["Contents"][0]["Key"]
    assert storage.may("s3", "get_object", Bucket=DATA_BUCKET, Key=listed)
    assert not storage.may("s3", "put_object", Bucket=DATA_BUCKET, Key=listed, Body=b"")
    assert not storage.may("s3", "delete_object", Bucket=DATA_BUCKET, Key=listed)
    assert not storage.may("s3", "get_object", Bucket=OTHER_BUCKET, Key="secret")
    assert not storage.may("s3", "list_objects_v2", Bucket=OTHER_BUCKET)
    assert not reads(storage, stack.outputs["CatalogTable"])


def test_a_principal_that_the_storage_role_does_not_trust_cannot_assume_it(stack: Stack) -> None:
    _, keys = iam.create_user(stack.aws, "stranger", iam.allow("sts:AssumeRole", "*"))
    stranger = Identity(stack, keys)
    assert not stranger.may("sts", "assume_role", RoleArn=stack.outputs["StorageRoleArn"], RoleSessionName="test")
