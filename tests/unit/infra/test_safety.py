"""Security settings of the templates: encryption, retention, logging, throttling and error responses."""

import json
import re

import pytest

from cli.serve.routes import ANY, read_routes, read_template
from core.catalog.items import TTL, table_description
from tests.unit.infra.template import ALARMS, PROJECT, RESOURCES, TEMPLATE, actions, of_type, ref, statements

API = RESOURCES["Api"]["Properties"]
TABLES = of_type("AWS::DynamoDB::Table")


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_encrypted(table):
    assert TABLES[table]["SSESpecification"] == {"SSEEnabled": True}


def test_the_catalog_has_backups_and_deletion_protection():
    properties = TABLES["CatalogTable"]
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["DeletionProtectionEnabled"] is True
    assert RESOURCES["CatalogTable"]["DeletionPolicy"] == RESOURCES["CatalogTable"]["UpdateReplacePolicy"] == "Retain"
    assert properties["TimeToLiveSpecification"] == {"AttributeName": TTL, "Enabled": True}


def test_the_index_is_deleted_with_the_stack_and_expires_old_builds():
    assert RESOURCES["IndexTable"]["DeletionPolicy"] == RESOURCES["IndexTable"]["UpdateReplacePolicy"] == "Delete"
    assert not {"PointInTimeRecoverySpecification", "DeletionProtectionEnabled"} & set(TABLES["IndexTable"])
    assert TABLES["IndexTable"]["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_keys_that_the_code_expects(table):
    expected = table_description("any")
    for name in ("BillingMode", "AttributeDefinitions", "KeySchema"):
        assert TABLES[table][name] == expected[name]


def test_every_log_group_has_the_retention_of_the_parameter():
    groups = of_type("AWS::Logs::LogGroup")
    assert all(group["RetentionInDays"] == ref("LogRetentionDays") for group in groups.values())


def test_debug_logging_which_would_include_credentials_cannot_be_enabled():
    assert "DEBUG" not in TEMPLATE["Parameters"]["LogLevel"]["AllowedValues"]
    assert "ApplicationLogLevel" not in TEMPLATE["Globals"]["Function"]["LoggingConfig"]


def test_access_logs_are_json_without_headers_query_strings_and_raw_paths():
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


@pytest.mark.parametrize("setting", API["MethodSettings"], ids=lambda setting: setting["ResourcePath"])
def test_api_gateway_throttles_requests_and_does_not_log_their_contents(setting):
    assert (setting["LoggingLevel"], setting["DataTraceEnabled"]) == ("OFF", False)
    if setting["HttpMethod"] != ANY:
        assert setting["ThrottlingRateLimit"] == ref("RequestsPerSecond")
        assert setting["ThrottlingBurstLimit"] == ref("RequestBurst")


def test_every_route_has_a_throttle_of_its_own_so_that_a_flood_of_one_leaves_the_others_alone():
    default, *settings = API["MethodSettings"]
    assert (default["ResourcePath"], default["HttpMethod"]) == ("/*", "*")
    paths = [(setting["HttpMethod"], setting["ResourcePath"][1:].replace("~1", "/") or "/") for setting in settings]
    assert sorted(paths) == sorted((route.method, route.resource) for route in read_routes())


def test_unknown_routes_have_the_lowest_limit():
    lowest = TEMPLATE["Parameters"]["RequestsPerSecond"]["Default"] / 10
    unknown = [setting for setting in API["MethodSettings"] if setting["HttpMethod"] == ANY]
    assert len(unknown) == 2
    assert all(setting["ThrottlingRateLimit"] <= lowest for setting in unknown)


def test_an_optional_web_acl_limits_each_address_and_answers_429_in_the_form_of_the_protocol():
    limit = RESOURCES["AddressLimit"]
    assert TEMPLATE["Conditions"][limit["Condition"]] == {"Fn::Not": [{"Fn::Equals": [ref("RequestsPerAddress"), "0"]}]}
    assert TEMPLATE["Parameters"]["RequestsPerAddress"]["Default"] == "0"
    (rule,) = limit["Properties"]["Rules"]
    statement = rule["Statement"]["RateBasedStatement"]
    assert (statement["Limit"], statement["AggregateKeyType"]) == (ref("RequestsPerAddress"), "IP")
    response = rule["Action"]["Block"]["CustomResponse"]
    assert response["ResponseCode"] == 429
    body = limit["Properties"]["CustomResponseBodies"][response["CustomResponseBodyKey"]]
    throttled = API["GatewayResponses"]["THROTTLED"]["ResponseTemplates"]["application/json"]
    assert (body["ContentType"], json.loads(body["Content"])) == ("APPLICATION_JSON", json.loads(throttled))
    # Samples contain headers, including bearer tokens.
    for visibility in (rule["VisibilityConfig"], limit["Properties"]["VisibilityConfig"]):
        assert visibility["SampledRequestsEnabled"] is False


@pytest.mark.parametrize(
    ("value", "valid"), [("0", True), ("10", True), ("2000", True), ("9", False), ("", False), ("-10", False)]
)
def test_the_limit_per_address_is_off_or_at_least_the_minimum_of_waf(value, valid):
    pattern = TEMPLATE["Parameters"]["RequestsPerAddress"]["AllowedPattern"]
    assert bool(re.fullmatch(pattern, value)) is valid


def test_an_api_has_at_most_one_web_acl():
    rule = TEMPLATE["Rules"]["OneWebAcl"]
    assert rule["RuleCondition"] == {"Fn::Not": [{"Fn::Equals": [ref("WebAclArn"), ""]}]}
    assert rule["Assertions"][0]["Assert"] == {"Fn::Equals": [ref("RequestsPerAddress"), "0"]}


def test_requests_that_the_web_acl_blocks_do_not_count_as_throttled():
    counted = of_type("AWS::Logs::MetricFilter")["ThrottledRequestsMetric"]
    assert counted["FilterPattern"] == '{ $.status = 429 && $.error != "WAF_FILTERED" }'


def test_a_custom_domain_requires_tls_1_2():
    assert RESOURCES["Domain"]["Properties"]["SecurityPolicy"] == "TLS_1_2"


def test_import_warnings_about_undeclared_path_parameters_do_not_fail_a_deployment():
    assert API["FailOnWarnings"] is False


@pytest.mark.parametrize("resource", ["ApiGatewayAccount", "ApiGatewayLogsRole"])
def test_a_failed_first_deployment_leaves_no_logging_role_behind(resource):
    assert RESOURCES[resource]["DeletionPolicy"] == "RetainExceptOnCreate"
    assert RESOURCES[resource]["UpdateReplacePolicy"] == "Retain"


def test_the_catalog_is_created_after_the_resources_whose_parameters_may_be_wrong():
    """DynamoDB refuses to delete a protected table, so a rollback must keep it."""
    assert {"StorageRole", "ApiGatewayAccount", "Domain"} <= set(RESOURCES["CatalogTable"]["DependsOn"])


def test_a_deployment_without_a_storage_role_says_so_in_its_outputs():
    conditions, output = TEMPLATE["Conditions"], TEMPLATE["Outputs"]["MissingStorageRole"]
    assert conditions[output["Condition"]] == {"Fn::Not": [{"Condition": "AnyStorageRole"}]}
    assert "DataBucketArns" in output["Value"]


def test_the_stack_creates_no_bucket():
    assert not of_type("AWS::S3::Bucket")


@pytest.mark.parametrize("response_type", API["GatewayResponses"])
def test_an_error_of_api_gateway_has_the_form_of_the_protocol(response_type):
    ((media_type, body),) = API["GatewayResponses"][response_type]["ResponseTemplates"].items()
    assert media_type == "application/json"
    answer = body.replace("$context.error.messageString", '"a text"').replace("$context.requestId", "id")
    assert list(json.loads(answer)) == ["errorCode", "message"]


@pytest.mark.parametrize(
    ("response_type", "status"),
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
def test_an_error_of_api_gateway_has_a_suitable_status(response_type, status):
    assert API["GatewayResponses"][response_type]["StatusCode"] == status


def test_all_other_errors_of_api_gateway_have_a_default_form():
    assert {"DEFAULT_4XX", "DEFAULT_5XX"} <= set(API["GatewayResponses"])


def test_api_gateway_passes_gzipped_bodies_through():
    assert API["BinaryMediaTypes"] == ["*/*"]


@pytest.mark.parametrize("alarm", ALARMS)
def test_an_alarm_notifies_the_topic_and_treats_missing_data_as_healthy(alarm):
    assert ALARMS[alarm]["AlarmActions"] == {"Fn::If": ["AlarmTopic", [ref("AlarmTopicArn")], ref("AWS::NoValue")]}
    assert ALARMS[alarm]["TreatMissingData"] == "notBreaching"


def test_there_are_alarms_for_errors_latency_and_throttling():
    watched = {f"{alarm['Namespace']} {alarm['MetricName']}" for alarm in ALARMS.values()}
    assert watched >= {"AWS/ApiGateway 5XXError", "AWS/Lambda Errors", "AWS/Lambda Throttles"}
    slow = ALARMS["SlowAnswers"]
    assert slow["Namespace"] == {"Fn::If": ["Streamed", "Sluice", "AWS/ApiGateway"]}
    assert slow["MetricName"] == {"Fn::If": ["Streamed", "FirstByte", "Latency"]}
    counted = of_type("AWS::Logs::MetricFilter")["ThrottledRequestsMetric"]["MetricTransformations"][0]
    assert ALARMS["ThrottledRequests"]["MetricName"] == counted["MetricName"]
    assert ALARMS["ThrottledRequests"]["Namespace"] == counted["MetricNamespace"]


def test_the_storage_role_of_a_bucket_owner_requires_the_external_id_and_only_reads():
    template = read_template(PROJECT / "infra" / "storage-role.yaml")
    role = template["Resources"]["StorageRole"]["Properties"]
    trusted = statements(role["AssumeRolePolicyDocument"])
    assert [trust["Principal"]["AWS"] for trust in trusted] == [ref("ServerRoleArns"), ref("AdminArns")]
    for trust in trusted:
        assert trust["Condition"] == {"StringEquals": {"sts:ExternalId": ref("ExternalId")}}
    assert "Default" not in template["Parameters"]["ExternalId"]
    (policy,) = role["Policies"]
    allowed = [action for statement in statements(policy["PolicyDocument"]) for action in actions(statement)]
    assert allowed == ["s3:GetObject", "s3:ListBucket", "kms:Decrypt"]
