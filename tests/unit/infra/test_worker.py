"""The worker of asynchronous queries and its queues."""

from core.api.table_tokens import CHAIN_SECONDS
from core.queries.query import MAX_ATTEMPTS
from core.queries.worker import MAX_LOG_BYTES
from tests.unit.infra.template import ALARMS, FUNCTIONS, RESOURCES, TEMPLATE, arn, of_type, ref

WORKER = FUNCTIONS["PrepareQuery"]
QUEUES = of_type("AWS::SQS::Queue")
(EVENT,) = WORKER["Events"].values()


def test_the_queue_invokes_the_worker_for_one_query_at_a_time():
    assert EVENT["Type"] == "SQS"
    assert EVENT["Properties"]["Queue"] == arn("Queries")
    assert EVENT["Properties"]["BatchSize"] == 1


def test_a_message_is_hidden_longer_than_a_worker_can_run_and_kept_as_long_as_a_query():
    assert QUEUES["Queries"]["VisibilityTimeout"] > WORKER["Timeout"]
    assert QUEUES["Queries"]["MessageRetentionPeriod"] >= CHAIN_SECONDS


def test_a_message_that_failed_as_often_as_a_query_may_goes_to_a_queue_with_an_alarm():
    redrive = QUEUES["Queries"]["RedrivePolicy"]
    assert redrive == {"deadLetterTargetArn": arn("FailedQueries"), "maxReceiveCount": MAX_ATTEMPTS}
    (alarm,) = [alarm for alarm in ALARMS.values() if alarm["Namespace"] == "AWS/SQS"]
    assert alarm["Dimensions"][0]["Value"] == {"Fn::GetAtt": ["FailedQueries", "QueueName"]}
    assert alarm["TreatMissingData"] == "notBreaching"
    assert alarm["AlarmActions"]["Fn::If"][1] == [ref("AlarmTopicArn")]


def test_the_queues_are_encrypted():
    assert QUEUES.keys() == {"Queries", "FailedQueries"}
    assert all(queue["SqsManagedSseEnabled"] for queue in QUEUES.values())


def test_the_worker_is_connected_to_the_queue_after_its_role_can_read_it():
    assert RESOURCES["PrepareQuery"]["DependsOn"] == "PrepareQueries"


def test_the_disk_of_the_worker_holds_the_longest_log_and_its_files_in_packing_order():
    assert WORKER["EphemeralStorage"]["Size"] * 2**20 >= 4 * MAX_LOG_BYTES


def test_a_log_that_is_read_at_once_fits_in_half_of_the_disk_and_longer_ones_have_a_worker():
    parameters = TEMPLATE["Parameters"]
    at_once = parameters["AsyncLogMegabytes"]["Default"]
    assert at_once * 2 <= parameters["DiskMegabytes"]["Default"]
    assert at_once * 2**20 < MAX_LOG_BYTES
