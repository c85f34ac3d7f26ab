"""What keeps data and secrets safe, read off the templates."""

import json
import re

import pytest

from cli.serve.routes import read_template
from core.catalog.items import TTL, table_description
from tests.unit.infra.template import ALARMS, PROJECT, RESOURCES, TEMPLATE, actions, of_type, ref, statements

API = RESOURCES["Api"]["Properties"]
TABLES = of_type("AWS::DynamoDB::Table")


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_encrypted(table):
    assert TABLES[table]["SSESpecification"] == {"SSEEnabled": True}


def test_the_catalog_can_be_restored_and_is_not_deleted_by_mistake():
    properties = TABLES["CatalogTable"]
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["DeletionProtectionEnabled"] is True
    assert RESOURCES["CatalogTable"]["DeletionPolicy"] == RESOURCES["CatalogTable"]["UpdateReplacePolicy"] == "Retain"
    assert properties["TimeToLiveSpecification"] == {"AttributeName": TTL, "Enabled": True}


def test_the_index_which_can_be_built_again_goes_with_the_stack_and_forgets_old_builds():
    assert RESOURCES["IndexTable"]["DeletionPolicy"] == RESOURCES["IndexTable"]["UpdateReplacePolicy"] == "Delete"
    assert not {"PointInTimeRecoverySpecification", "DeletionProtectionEnabled"} & set(TABLES["IndexTable"])
    assert TABLES["IndexTable"]["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_keys_that_the_code_gives_it(table):
    expected = table_description("any")
    for name in ("BillingMode", "AttributeDefinitions", "KeySchema"):
        assert TABLES[table][name] == expected[name]


def test_every_log_is_kept_for_a_time_that_the_owner_chooses():
    groups = of_type("AWS::Logs::LogGroup")
    assert all(group["RetentionInDays"] == ref("LogRetentionDays") for group in groups.values())


def test_no_library_can_be_made_to_log_its_credentials():
    assert "DEBUG" not in TEMPLATE["Parameters"]["LogLevel"]["AllowedValues"]
    assert "ApplicationLogLevel" not in TEMPLATE["Globals"]["Function"]["LoggingConfig"]


def test_access_logs_are_json_and_hold_no_header_no_query_and_no_path():
    line = API["AccessLogSetting"]["Format"]
    assert set(re.findall(r"\$([\w.]+)", line)) == {
        "context.requestId",
        "context.requestTime",
        "context.identity.sourceIp",
        "context.httpMethod",
        "context.resourcePath",
        "context.status",
        "context.responseLength",
        "context.responseLatency",
        "context.integrationLatency",
        "context.error.responseType",
    }
    assert json.loads(re.sub(r"\$[\w.]+", "429", line))["status"] == 429


def test_api_gateway_logs_no_requests_and_limits_their_number():
    (setting,) = API["MethodSettings"]
    assert (setting["ResourcePath"], setting["HttpMethod"]) == ("/*", "*")
    assert (setting["LoggingLevel"], setting["DataTraceEnabled"]) == ("OFF", False)
    assert setting["ThrottlingRateLimit"] == ref("RequestsPerSecond")
    assert setting["ThrottlingBurstLimit"] == ref("RequestBurst")


def test_a_custom_domain_takes_no_old_tls():
    assert RESOURCES["Domain"]["Properties"]["SecurityPolicy"] == "TLS_1_2"


def test_the_stack_makes_no_bucket():
    assert not of_type("AWS::S3::Bucket")


@pytest.mark.parametrize("kind", API["GatewayResponses"])
def test_what_api_gateway_answers_itself_has_the_protocols_form(kind):
    ((media_type, body),) = API["GatewayResponses"][kind]["ResponseTemplates"].items()
    assert media_type == "application/json"
    answer = body.replace("$context.error.messageString", '"a text"').replace("$context.requestId", "id")
    assert list(json.loads(answer)) == ["errorCode", "message"]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("MISSING_AUTHENTICATION_TOKEN", 404),
        ("RESOURCE_NOT_FOUND", 404),
        ("ACCESS_DENIED", 403),
        ("WAF_FILTERED", 403),
        ("BAD_REQUEST_BODY", 400),
        ("REQUEST_TOO_LARGE", 413),
        ("UNSUPPORTED_MEDIA_TYPE", 415),
        ("THROTTLED", 429),
        ("QUOTA_EXCEEDED", 429),
        ("INTEGRATION_FAILURE", 504),
        ("INTEGRATION_TIMEOUT", 504),
    ],
)
def test_what_api_gateway_answers_itself_has_a_fitting_status(kind, status):
    assert API["GatewayResponses"][kind]["StatusCode"] == status


def test_every_other_answer_of_api_gateway_has_a_default():
    assert {"DEFAULT_4XX", "DEFAULT_5XX"} <= set(API["GatewayResponses"])


def test_gzip_passes_through_api_gateway():
    assert API["BinaryMediaTypes"] == ["*/*"]


@pytest.mark.parametrize("alarm", ALARMS)
def test_an_alarm_tells_the_topic_and_is_quiet_while_nobody_asks(alarm):
    assert ALARMS[alarm]["AlarmActions"] == {"Fn::If": ["AlarmTopic", [ref("AlarmTopicArn")], ref("AWS::NoValue")]}
    assert ALARMS[alarm]["TreatMissingData"] == "notBreaching"


def test_there_are_alarms_for_errors_for_slowness_and_for_throttling():
    watched = {f"{alarm['Namespace']} {alarm['MetricName']}" for alarm in ALARMS.values()}
    assert watched >= {
        "AWS/ApiGateway 5XXError",
        "AWS/ApiGateway Latency",
        "AWS/Lambda Errors",
        "AWS/Lambda Throttles",
    }
    counted = of_type("AWS::Logs::MetricFilter")["ThrottledRequestsMetric"]["MetricTransformations"][0]
    assert ALARMS["ThrottledRequests"]["MetricName"] == counted["MetricName"]
    assert ALARMS["ThrottledRequests"]["Namespace"] == counted["MetricNamespace"]


def test_a_bucket_owners_role_needs_the_external_id_and_only_reads():
    template = read_template(PROJECT / "infra" / "storage-role.yaml")
    role = template["Resources"]["StorageRole"]["Properties"]
    trusted = list(statements(role["AssumeRolePolicyDocument"]))
    assert [trust["Principal"]["AWS"] for trust in trusted] == [ref("ServerRoleArns"), ref("AdminArns")]
    for trust in trusted:
        assert trust["Condition"] == {"StringEquals": {"sts:ExternalId": ref("ExternalId")}}
    assert "Default" not in template["Parameters"]["ExternalId"]
    (policy,) = role["Policies"]
    allowed = [action for statement in statements(policy["PolicyDocument"]) for action in actions(statement)]
    assert allowed == ["s3:GetObject", "s3:ListBucket", "kms:Decrypt"]
