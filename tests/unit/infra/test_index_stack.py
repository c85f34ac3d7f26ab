"""`infra/index.yaml`: exact permissions of the job and of the function that starts it, and that no message is lost."""

import json

import pytest

from cli.serve.routes import read_template
from core.index.write.job_configuration import PYTHON, SIZES, JobConfiguration
from core.index.write.job_runs import ALL_TABLES, LAST_CHECKPOINT, LEASE_SECONDS, Request, request_of
from infra.build import LAMBDA_PYTHON
from tests.unit.infra.template import PROJECT, actions, arn, ref, statements

TEMPLATE = read_template(PROJECT / "infra" / "index.yaml")
RESOURCES = {name: resource["Properties"] for name, resource in TEMPLATE["Resources"].items()}
TYPES = {name: resource["Type"] for name, resource in TEMPLATE["Resources"].items()}


def of_type(resource_type):
    return {name: RESOURCES[name] for name, found in TYPES.items() if found == resource_type}


def resource_name(resource) -> str:
    match resource:
        case {"Ref": name} | {"Fn::GetAtt": [name, "Arn"]}:
            return name
        case {"Fn::Sub": str(text)} | {"Fn::Sub": [str(text), _]}:
            return text.rpartition(":")[2]
    raise AssertionError(resource)


def allowed(role):
    return {
        (action, resource_name(statement["Resource"]))
        for policy in RESOURCES[role]["Policies"]
        for statement in statements(policy["PolicyDocument"])
        for action in actions(statement)
    }


def conditions(role):
    """Returns the conditions of a role's statements, by resource."""
    return {
        resource_name(statement["Resource"]): statement["Condition"]
        for policy in RESOURCES[role]["Policies"]
        for statement in statements(policy["PolicyDocument"])
        if "Condition" in statement
    }


INDEX, CATALOG = "table/${IndexTable}", "table/${CatalogTable}"
READ_CATALOG = {("dynamodb:BatchGetItem", CATALOG), ("dynamodb:Query", CATALOG)}
FIRST_FOLDER = {"Folder": {"Fn::Select": [0, {"Fn::Split": ["/", ref("ArtifactPrefix")]}]}}
SHARES_AND_TABLES = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["SHARES", "SHARE#*"]}}


def test_the_job_can_write_the_index_read_its_artifacts_and_assume_the_storage_roles():
    index_actions = ["GetItem", "BatchGetItem", "Query", "PutItem", "BatchWriteItem"]
    assert allowed("JobRole") == READ_CATALOG | {(f"dynamodb:{action}", INDEX) for action in index_actions} | {
        ("sts:AssumeRole", "StorageRoleArns"),
        ("s3:GetObject", "${ArtifactBucket}/${Folder}/*"),
        ("s3:ListBucket", "${ArtifactBucket}"),
        ("logs:CreateLogStream", "JobLogs"),
        ("logs:PutLogEvents", "JobLogs"),
        ("logs:DescribeLogStreams", "JobLogs"),
        ("logs:DescribeLogGroups", "*"),
    }
    assert conditions("JobRole") == {
        CATALOG: SHARES_AND_TABLES,
        "${ArtifactBucket}": {"StringLike": {"s3:prefix": {"Fn::Sub": ["${Folder}/*", FIRST_FOLDER]}}},
    }


def test_the_job_can_read_earlier_releases_in_the_same_folder_because_active_runs_keep_theirs():
    (policy,) = RESOURCES["JobRole"]["Policies"]
    (read,) = (
        statement for statement in statements(policy["PolicyDocument"]) if actions(statement) == ["s3:GetObject"]
    )
    assert read["Resource"]["Fn::Sub"][1] == FIRST_FOLDER


def test_the_function_can_start_this_job_with_the_job_role_and_write_only_leases():
    assert allowed("StartJobRole") == READ_CATALOG | {
        ("logs:CreateLogStream", "StartJobLogs"),
        ("logs:PutLogEvents", "StartJobLogs"),
        ("sqs:ReceiveMessage", "Queue"),
        ("sqs:DeleteMessage", "Queue"),
        ("sqs:GetQueueAttributes", "Queue"),
        ("dynamodb:PutItem", INDEX),
        ("emr-serverless:ListJobRuns", "Application"),
        ("emr-serverless:StartJobRun", "Application"),
        ("emr-serverless:GetJobRun", "${Application.Arn}/jobruns/*"),
        ("iam:PassRole", "JobRole"),
    }
    assert conditions("StartJobRole") == {
        CATALOG: SHARES_AND_TABLES,
        INDEX: {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["LEASE#*"]}},
        "JobRole": {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
    }


def test_the_schedule_can_only_send_messages_to_the_queue():
    assert allowed("AllTablesRole") == {("sqs:SendMessage", "Queue")}


@pytest.mark.parametrize(
    ("role", "service"),
    [("JobRole", "emr-serverless"), ("StartJobRole", "lambda"), ("AllTablesRole", "scheduler")],
)
def test_only_its_service_can_assume_a_role(role, service):
    (trust,) = statements(RESOURCES[role]["AssumeRolePolicyDocument"])
    assert trust["Principal"] == {"Service": f"{service}.amazonaws.com"}
    assert "ManagedPolicyArns" not in RESOURCES[role]


def test_there_are_no_other_roles():
    assert set(of_type("AWS::IAM::Role")) == {"JobRole", "StartJobRole", "AllTablesRole"}
    assert not of_type("AWS::IAM::Policy")


@pytest.mark.parametrize(
    ("policy", "queue", "rule"),
    [("QueuePolicy", "Queue", "NewCheckpoints"), ("FailuresPolicy", "Failures", "FailedRuns")],
)
def test_a_queue_accepts_events_only_from_its_own_rule(policy, queue, rule):
    (statement,) = statements(RESOURCES[policy]["PolicyDocument"])
    assert RESOURCES[policy]["Queues"] == [ref(queue)]
    assert (statement["Action"], statement["Resource"]) == ("sqs:SendMessage", arn(queue))
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": arn(rule)}}
    assert [target["Arn"] for target in RESOURCES[rule]["Targets"]] == [arn(queue)]


@pytest.mark.parametrize("queue", of_type("AWS::SQS::Queue"))
def test_a_queue_is_encrypted(queue):
    assert RESOURCES[queue]["SqsManagedSseEnabled"] is True


def test_the_rule_matches_the_object_that_the_function_recognizes():
    detail = RESOURCES["NewCheckpoints"]["EventPattern"]["detail"]
    assert detail["object"] == {"key": [{"suffix": LAST_CHECKPOINT}]}
    assert detail["bucket"] == {"name": ref("CheckpointBuckets")}


def test_the_function_understands_the_message_of_the_schedule():
    assert request_of(RESOURCES["AllTables"]["Target"]["Input"]) == Request(ALL_TABLES)


def test_a_message_can_wait_until_the_longest_run_ends():
    queue = RESOURCES["Queue"]
    seconds = queue["VisibilityTimeout"] * queue["RedrivePolicy"]["maxReceiveCount"]
    assert seconds > TEMPLATE["Parameters"]["TimeoutMinutes"]["MaxValue"] * 60


def test_a_message_is_delivered_again_only_after_the_function_and_its_lease_have_ended():
    visibility, timeout = RESOURCES["Queue"]["VisibilityTimeout"], RESOURCES["StartJob"]["Timeout"]
    assert visibility >= 6 * timeout + TEMPLATE["Parameters"]["BatchSeconds"]["MaxValue"]
    assert timeout < LEASE_SECONDS < visibility


def test_the_function_can_return_single_messages_of_a_batch_to_the_queue():
    assert RESOURCES["StartJobSource"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_the_function_gets_exactly_the_environment_variables_that_it_reads():
    read = set()

    class Environment(dict):
        def __getitem__(self, name):
            read.add(name)
            return "1"

    JobConfiguration.from_environment(Environment())
    # Lambda itself sets the Region.
    assert set(RESOURCES["StartJob"]["Environment"]["Variables"]) == read - {"AWS_REGION"}


@pytest.mark.parametrize("parameter", ["ArtifactBucket", "ArtifactPrefix", "CatalogTable", "IndexTable"])
def test_a_new_release_does_not_update_the_application(parameter):
    """CloudFormation cannot update an application while runs are active."""
    application = json.dumps(RESOURCES["Application"])
    assert parameter not in application
    assert "RuntimeConfiguration" not in application


def test_the_job_runs_on_the_python_and_the_processor_that_its_dependencies_are_built_for():
    assert f"python{LAMBDA_PYTHON}" == PYTHON
    assert RESOURCES["Application"]["Architecture"] == "ARM64"


def test_all_parts_of_a_release_come_from_one_prefix():
    release = {"Fn::Sub": "s3://${ArtifactBucket}/${ArtifactPrefix}"}
    assert RESOURCES["StartJob"]["Environment"]["Variables"]["SLUICE_JOB_RELEASE"] == release
    assert RESOURCES["StartJob"]["Code"]["S3Key"] == {"Fn::Sub": "${ArtifactPrefix}/sluice.zip"}


def test_parameters_have_the_minimum_that_the_services_accept():
    # A batch of more than 10 messages requires a window of at least a second.
    assert RESOURCES["StartJobSource"]["BatchSize"] > 10
    assert TEMPLATE["Parameters"]["BatchSeconds"]["MinValue"] == 1
    # EMR Serverless queues runs for at least 15 minutes.
    assert RESOURCES["Application"]["SchedulerConfiguration"]["QueueTimeoutMinutes"] == ref("TimeoutMinutes")
    assert TEMPLATE["Parameters"]["TimeoutMinutes"]["MinValue"] == 15


def test_an_idle_application_stops_and_its_capacity_is_limited():
    application = RESOURCES["Application"]
    assert "InitialCapacity" not in application
    assert application["AutoStopConfiguration"]["Enabled"] is True
    assert application["MaximumCapacity"]["Cpu"] == {"Fn::Sub": "${MaximumVcpus} vCPU"}


def test_two_concurrent_runs_fit_with_an_executor_each():
    cores = 2 * (int(SIZES["spark.driver.cores"]) + int(SIZES["spark.executor.cores"]))
    assert RESOURCES["Application"]["SchedulerConfiguration"]["MaxConcurrentRuns"] == 2
    assert cores <= TEMPLATE["Parameters"]["MaximumVcpus"]["Default"]


def test_every_log_group_has_the_retention_of_the_parameter():
    groups = of_type("AWS::Logs::LogGroup")
    assert set(groups) == {"JobLogs", "StartJobLogs"}
    assert all(group["RetentionInDays"] == ref("LogRetentionDays") for group in groups.values())


@pytest.mark.parametrize("alarm", of_type("AWS::CloudWatch::Alarm"))
def test_an_alarm_notifies_the_topic_and_treats_missing_data_as_healthy(alarm):
    topic = {"Fn::If": ["AlarmTopic", [ref("AlarmTopicArn")], ref("AWS::NoValue")]}
    assert RESOURCES[alarm]["AlarmActions"] == topic
    assert RESOURCES[alarm]["TreatMissingData"] == "notBreaching"


def test_there_are_alarms_for_failed_and_timed_out_runs_undeliverable_messages_and_errors_of_the_function():
    assert RESOURCES["FailedRuns"]["EventPattern"]["detail"] == {
        "applicationId": [ref("Application")],
        # A run that exceeds its timeout is cancelled.
        "state": ["FAILED", "CANCELLED"],
    }
    assert RESOURCES["Queue"]["RedrivePolicy"]["deadLetterTargetArn"] == arn("Failures")
    failures = {"Fn::GetAtt": ["Failures", "QueueName"]}
    assert RESOURCES["IndexFailures"]["Dimensions"] == [{"Name": "QueueName", "Value": failures}]
    assert RESOURCES["StartJobErrors"]["Dimensions"] == [{"Name": "FunctionName", "Value": ref("StartJob")}]
