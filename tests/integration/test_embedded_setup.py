"""What `sluice serve` creates in the embedded AWS: identities with few permissions."""

import botocore.session
import pytest
from botocore.exceptions import ClientError

from cli.embedded.ministack import embedded_aws
from cli.embedded.setup import (
    DATA_BUCKET,
    FUNCTIONS_USER,
    catalog_admin,
    forget_other_accounts,
    owner_environment,
    s3_client,
    set_up,
)

DENIED = {"AccessDenied", "AccessDeniedException"}


def client(service: str, environment: dict[str, str], credentials: dict[str, str] | None = None):
    return botocore.session.Session().create_client(
        service,
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id=(credentials or {}).get("AccessKeyId", environment["AWS_ACCESS_KEY_ID"]),
        aws_secret_access_key=(credentials or {}).get("SecretAccessKey", environment["AWS_SECRET_ACCESS_KEY"]),
        aws_session_token=(credentials or {}).get("SessionToken"),
    )


def storage_credentials(environment: dict[str, str]) -> dict[str, str]:
    sts = client("sts", environment)
    return sts.assume_role(RoleArn=environment["SLUICE_STORAGE_ROLE_ARN"], RoleSessionName="test")["Credentials"]


def error_code(call, **arguments) -> str:
    with pytest.raises(ClientError) as raised:
        call(**arguments)
    return raised.value.response["Error"]["Code"]


def test_the_functions_can_read_the_catalog_but_not_change_it(functions):
    dynamodb = client("dynamodb", functions)
    table = functions["SLUICE_CATALOG_TABLE"]
    key = {"pk": {"S": "SHARES"}, "sk": {"S": "y"}}
    assert dynamodb.batch_get_item(RequestItems={table: {"Keys": [key]}})["Responses"] == {table: []}
    assert error_code(dynamodb.put_item, TableName=table, Item=key) in DENIED
    assert error_code(dynamodb.delete_item, TableName=table, Key=key) in DENIED
    assert error_code(dynamodb.scan, TableName=table) in DENIED
    assert error_code(dynamodb.list_tables) in DENIED


def test_the_functions_can_only_read_the_index_and_its_owner_can_write_it(aws, functions):
    reader, owner = client("dynamodb", functions), client("dynamodb", owner_environment(aws))
    table, key = functions["SLUICE_INDEX_TABLE"], {"pk": {"S": "x"}, "sk": {"S": "y"}}
    assert error_code(reader.put_item, TableName=table, Item=key) in DENIED
    assert error_code(reader.scan, TableName=table) in DENIED
    owner.put_item(TableName=table, Item=key)
    assert reader.batch_get_item(RequestItems={table: {"Keys": [key]}})["Responses"][table] == [key]
    assert owner_environment(aws)["SLUICE_INDEX_TABLE"] == table


def test_the_functions_reach_the_data_only_through_the_storage_role(aws, functions):
    s3_client(aws).put_object(Bucket=DATA_BUCKET, Key="setup/file", Body=b"content")
    assert error_code(client("s3", functions).get_object, Bucket=DATA_BUCKET, Key="setup/file") in DENIED
    storage = client("s3", functions, storage_credentials(functions))
    assert storage.get_object(Bucket=DATA_BUCKET, Key="setup/file")["Body"].read() == b"content"
    assert storage.list_objects_v2(Bucket=DATA_BUCKET, Prefix="setup/")["KeyCount"] == 1


def test_the_storage_role_can_only_read_the_data_bucket(aws, functions):
    s3_client(aws).create_bucket(Bucket="another-bucket")
    s3_client(aws).put_object(Bucket="another-bucket", Key="file", Body=b"content")
    credentials = storage_credentials(functions)
    storage = client("s3", functions, credentials)
    assert error_code(storage.get_object, Bucket="another-bucket", Key="file") in DENIED
    assert error_code(storage.put_object, Bucket=DATA_BUCKET, Key="file", Body=b"") in DENIED
    table = functions["SLUICE_CATALOG_TABLE"]
    key = {"pk": {"S": "x"}, "sk": {"S": "y"}}
    assert error_code(client("dynamodb", functions, credentials).get_item, TableName=table, Key=key) in DENIED


def test_only_the_functions_may_assume_the_storage_role(aws, functions):
    iam = client("iam", owner_environment(aws))
    iam.create_user(UserName="somebody")
    allow_all = '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}'
    iam.put_user_policy(UserName="somebody", PolicyName="p", PolicyDocument=allow_all)
    key = iam.create_access_key(UserName="somebody")["AccessKey"]
    sts = client("sts", functions, {name: key[name] for name in ("AccessKeyId", "SecretAccessKey")})
    role = functions["SLUICE_STORAGE_ROLE_ARN"]
    assert error_code(sts.assume_role, RoleArn=role, RoleSessionName="test") in DENIED


def test_new_keys_replace_the_old_ones_when_kept_state_is_set_up_again(tmp_path):
    with embedded_aws(tmp_path) as aws:
        first = set_up(aws)
        catalog_admin(aws).put_share("kept")
    with embedded_aws(tmp_path) as aws:
        second = set_up(aws)
        assert [share.name for share in catalog_admin(aws).shares()] == ["kept"]
        assert second["AWS_ACCESS_KEY_ID"] != first["AWS_ACCESS_KEY_ID"]
        iam = client("iam", owner_environment(aws))
        keys = iam.list_access_keys(UserName=FUNCTIONS_USER)["AccessKeyMetadata"]
        assert [key["AccessKeyId"] for key in keys] == [second["AWS_ACCESS_KEY_ID"]]
        assert storage_credentials(second)


def test_the_users_own_account_is_not_used(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "a-profile-that-does-not-exist")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another account")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.setenv(name, "restored after the test")
    forget_other_accounts()
    assert botocore.session.Session().get_credentials() is None
