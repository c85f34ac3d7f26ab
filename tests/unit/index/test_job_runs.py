"""Which runs the messages of the queue start, and which messages are delivered again."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from core.catalog.items import table_description
from core.index.write.job_configuration import JobConfiguration
from core.index.write.job_runs import LEASE_SECONDS, MAX_ARGUMENTS, JobStarter
from handlers import start_index_job
from tests.emr_serverless import EmrServerless, emr_serverless
from tests.unit.catalog.environment import Clock, Environment, moto_client

TABLES = [
    ("sales", "orders", "s3://tables/warehouse/orders"),
    ("sales", "trips", "s3a://tables/warehouse/trips/"),
    ("partners", "journeys", "s3://tables/warehouse/trips"),
    ("partners", "odd", "s3://tables/a b/100%/ü+"),
    ("partners", "root", "s3://whole-bucket"),
    ("partners", "elsewhere", "file:///not/in/s3"),
]
ENVIRONMENT = {
    "SLUICE_JOB_APPLICATION_ID": "00abcdef",
    "SLUICE_JOB_ROLE_ARN": "arn:aws:iam::111111111111:role/job",
    "SLUICE_JOB_RELEASE": "s3://artifacts/sluice/0123456789ab",
    "SLUICE_JOB_ARGUMENTS": "--write-rate 2000",
    "SLUICE_JOB_TIMEOUT_MINUTES": "180",
    "AWS_REGION": "eu-central-1",
    "SLUICE_CATALOG_TABLE": "catalog",
    "SLUICE_INDEX_TABLE": "index",
    "SLUICE_STORAGE_ROLE_ARN": "arn:aws:iam::111111111111:role/storage",
    "SLUICE_STORAGE_EXTERNAL_ID": "",
}
JOB = JobConfiguration.from_environment(ENVIRONMENT)
JOB_ARGUMENTS = ["--write-rate", "2000"]

StartWith = Callable[[JobConfiguration], JobStarter]

numbers = count()


def message(body: Any) -> dict[str, Any]:
    """A record of the queue as Lambda passes it to the function."""
    return {
        "messageId": f"059f36b4-87a3-44ab-83d2-{next(numbers):012d}",
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1794819590000"},
        "messageAttributes": {},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-central-1:111111111111:sluice-index-Queue",
        "awsRegion": "eu-central-1",
    }


def checkpoint(location: str, name: str = "_delta_log/_last_checkpoint") -> dict[str, Any]:
    """The event that S3 sends through EventBridge. Its key is not percent-encoded."""
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    return message(
        {
            "version": "0",
            "id": "17793124-05d4-b198-2fde-7ededc63b103",
            "detail-type": "Object Created",
            "source": "aws.s3",
            "account": "111111111111",
            "time": "2026-11-16T12:00:00Z",
            "region": "eu-central-1",
            "resources": [f"arn:aws:s3:::{bucket}"],
            "detail": {
                "version": "0",
                "bucket": {"name": bucket},
                "object": {
                    "key": f"{prefix}/{name}" if prefix else name,
                    "size": 98,
                    "etag": "b1946ac92492d2347c6235b4d2611184",
                    "sequencer": "00617F08299329D189",
                },
                "request-id": "N4N7GDK58NMKJ12R",
                "requester": "111111111111",
                "source-ip-address": "1.2.3.4",
                "reason": "PutObject",
            },
        }
    )


def all_tables() -> dict[str, Any]:
    """The message that the schedule sends."""
    return message({"index": "all"})


def ids(*records: dict[str, Any]) -> list[str]:
    return [record["messageId"] for record in records]


@pytest.fixture(scope="module")
def env() -> Iterator[Environment]:
    """A catalog. Its table also holds the leases."""
    with moto_client() as client:
        env = Environment(client)
        for share in ("sales", "partners"):
            env.admin.put_share(share)
            env.admin.put_schema(share, "retail")
        for share, table, location in TABLES:
            env.admin.put_table(share, "retail", table, location=location)
        yield env


@pytest.fixture
def emr() -> Iterator[EmrServerless]:
    with emr_serverless() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start_with(env: Environment, emr: EmrServerless, clock: Clock) -> StartWith:
    index = f"index-{next(numbers)}"
    env.client.create_table(**table_description(index))
    no_retries = Config(retries={"total_max_attempts": 1})
    keys = {"region_name": "us-east-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = botocore.session.Session().create_client("emr-serverless", endpoint_url=emr.url, config=no_retries, **keys)
    return lambda job: JobStarter(client, env.client, job, catalog_table=env.table_name, index_table=index, now=clock)


@pytest.fixture
def starter(start_with: StartWith) -> JobStarter:
    return start_with(JOB)


def test_a_checkpoint_starts_a_run_for_its_table(starter: JobStarter, emr: EmrServerless) -> None:
    assert starter.start([checkpoint("s3://tables/warehouse/orders")]) == []
    (run,) = emr.runs.values()
    assert run["jobDriver"] == {
        "sparkSubmit": {
            "entryPoint": "s3://artifacts/sluice/0123456789ab/job.py",
            "entryPointArguments": ["--table=sales.retail.orders", *JOB_ARGUMENTS],
        }
    }
    assert run["executionRoleArn"] == "arn:aws:iam::111111111111:role/job"
    assert run["executionTimeoutMinutes"] == 180


def test_a_run_gets_its_code_and_its_environment_and_not_from_the_application(
    starter: JobStarter, emr: EmrServerless
) -> None:
    starter.start([checkpoint("s3://tables/warehouse/orders")])
    (run,) = emr.runs.values()
    (configuration,) = run["configurationOverrides"]["applicationConfiguration"]
    assert configuration["classification"] == "spark-defaults"
    properties = configuration["properties"]
    assert properties["spark.submit.pyFiles"] == "s3://artifacts/sluice/0123456789ab/sluice.zip"
    assert properties["spark.archives"] == "s3://artifacts/sluice/0123456789ab/dependencies.zip#dependencies"
    for process in ("spark.emr-serverless.driverEnv", "spark.executorEnv"):
        assert properties[f"{process}.PYTHONPATH"] == "./dependencies"
        assert properties[f"{process}.AWS_REGION"] == "eu-central-1"
        assert properties[f"{process}.SLUICE_CATALOG_TABLE"] == "catalog"
        assert properties[f"{process}.SLUICE_INDEX_TABLE"] == "index"
        assert properties[f"{process}.SLUICE_STORAGE_ROLE_ARN"] == "arn:aws:iam::111111111111:role/storage"
        assert f"{process}.SLUICE_STORAGE_EXTERNAL_ID" not in properties


def test_driver_and_executors_have_the_same_environment_variables() -> None:
    job = JobConfiguration.from_environment(ENVIRONMENT | {"SLUICE_STORAGE_EXTERNAL_ID": "agreed"})
    properties = job.spark_properties()

    def environment(prefix: str) -> dict[str, str]:
        return {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}

    driver, executor = environment("spark.emr-serverless.driverEnv."), environment("spark.executorEnv.")
    assert driver.pop("PYSPARK_DRIVER_PYTHON") == driver["PYSPARK_PYTHON"]
    assert driver == executor
    assert driver["SLUICE_STORAGE_EXTERNAL_ID"] == "agreed"


def test_a_message_starts_a_run_for_the_table_that_it_names(starter: JobStarter, emr: EmrServerless) -> None:
    assert starter.start([message({"index": "Sales.Retail.Orders"})]) == []
    assert emr.arguments() == [["--table=sales.retail.orders", *JOB_ARGUMENTS]]


def test_a_message_can_ask_to_rebuild_one_index_and_not_those_of_other_messages(
    starter: JobStarter, emr: EmrServerless
) -> None:
    rebuild = message({"index": "sales.retail.orders", "full": True})
    assert starter.start([rebuild, checkpoint("s3://tables/a b/100%/ü+")]) == []
    assert emr.arguments() == [
        ["--table=sales.retail.orders", "--full", *JOB_ARGUMENTS],
        ["--table=partners.retail.odd", *JOB_ARGUMENTS],
    ]


def test_one_run_indexes_all_tables_of_a_batch(starter: JobStarter, emr: EmrServerless) -> None:
    orders, odd = checkpoint("s3://tables/warehouse/orders"), checkpoint("s3://tables/a b/100%/ü+")
    assert starter.start([orders, odd, checkpoint("s3://tables/warehouse/orders")]) == []
    assert emr.arguments() == [["--table=partners.retail.odd", "--table=sales.retail.orders", *JOB_ARGUMENTS]]


def test_one_run_indexes_a_location_that_two_shares_have(starter: JobStarter, emr: EmrServerless) -> None:
    assert starter.start([checkpoint("s3://tables/warehouse/trips")]) == []
    assert emr.arguments() == [["--table=partners.retail.journeys", "--table=sales.retail.trips", *JOB_ARGUMENTS]]


def test_a_table_may_be_at_the_root_of_its_bucket(starter: JobStarter, emr: EmrServerless) -> None:
    assert starter.start([checkpoint("s3://whole-bucket")]) == []
    assert emr.arguments() == [["--table=partners.retail.root", *JOB_ARGUMENTS]]


@pytest.mark.parametrize(
    "ignored",
    [
        pytest.param(checkpoint("s3://tables/private"), id="a table that is not shared"),
        pytest.param(checkpoint("s3://tables/warehouse"), id="the folder above shared tables"),
        pytest.param(checkpoint("s3://tables/warehouse/orders/copy"), id="a folder in a shared table"),
        pytest.param(checkpoint("s3://tables/warehouse/orders", "x_delta_log/_last_checkpoint"), id="another log"),
        pytest.param(checkpoint("s3://tables/warehouse/orders", "_delta_log/0.json"), id="a commit"),
        pytest.param(message({"detail-type": "EMR Serverless Job Run State Change", "detail": {}}), id="a failed run"),
        pytest.param(message([1]), id="a list"),
        pytest.param(message({"index": 1}), id="an index without a name"),
        pytest.param(message({"index": "sales.retail.none"}), id="the name of a table that is not shared"),
        pytest.param(message("not JSON"), id="not JSON"),
    ],
)
def test_a_message_that_is_not_about_a_shared_tables_checkpoint_is_dropped(
    starter: JobStarter, emr: EmrServerless, ignored: dict[str, Any]
) -> None:
    assert starter.start([ignored]) == []
    assert not emr.runs


def test_a_checkpoint_of_a_table_that_is_being_indexed_is_delivered_again(
    starter: JobStarter, emr: EmrServerless, clock: Clock
) -> None:
    starter.start([checkpoint("s3://tables/warehouse/orders")])
    clock.seconds += LEASE_SECONDS
    during = checkpoint("s3://tables/warehouse/orders")
    assert starter.start([during]) == ids(during)
    assert len(emr.runs) == 1
    emr.end()
    assert starter.start([during]) == []
    assert emr.arguments() == [["--table=sales.retail.orders", *JOB_ARGUMENTS]] * 2


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
def test_a_failed_run_does_not_block_the_next_one(
    starter: JobStarter, emr: EmrServerless, clock: Clock, state: str
) -> None:
    starter.start([checkpoint("s3://tables/warehouse/orders")])
    emr.end(state)
    clock.seconds += LEASE_SECONDS
    assert starter.start([checkpoint("s3://tables/warehouse/orders")]) == []
    assert len(emr.runs) == 2


def test_only_one_of_several_waiting_checkpoints_is_delivered_again(
    starter: JobStarter, emr: EmrServerless, clock: Clock
) -> None:
    starter.start([checkpoint("s3://tables/warehouse/orders")])
    waiting = [checkpoint("s3://tables/warehouse/orders") for _ in range(3)]
    assert starter.start(waiting) == ids(waiting[-1])


def test_a_table_does_not_wait_for_a_run_of_others(starter: JobStarter, emr: EmrServerless) -> None:
    starter.start([checkpoint("s3://tables/warehouse/orders")])
    orders, odd = checkpoint("s3://tables/warehouse/orders"), checkpoint("s3://tables/a b/100%/ü+")
    assert starter.start([orders, odd]) == ids(orders)
    assert emr.arguments()[1:] == [["--table=partners.retail.odd", *JOB_ARGUMENTS]]


def test_an_invocation_that_does_not_see_the_run_yet_leaves_its_table_alone(
    starter: JobStarter, emr: EmrServerless, clock: Clock
) -> None:
    starter.start([checkpoint("s3://tables/warehouse/orders")])
    emr.runs.clear()
    again = checkpoint("s3://tables/warehouse/orders")
    assert starter.start([again]) == ids(again)
    clock.seconds += LEASE_SECONDS
    assert starter.start([again]) == []


def test_messages_delivered_twice_start_one_run(starter: JobStarter, emr: EmrServerless, clock: Clock) -> None:
    """Happens if the function ends after it started a run and before it returned."""
    batch = [checkpoint("s3://tables/warehouse/orders"), checkpoint("s3://tables/a b/100%/ü+")]
    starter.start(batch)
    emr.end()
    clock.seconds += LEASE_SECONDS
    assert starter.start(batch[::-1]) == []
    assert len(emr.runs) == 1


@pytest.mark.parametrize("refusal", [(429, "ThrottlingException"), (500, "InternalServerException")])
def test_a_refused_start_returns_the_batch_and_succeeds_later(
    starter: JobStarter, emr: EmrServerless, clock: Clock, refusal: tuple[int, str]
) -> None:
    emr.refuses = refusal
    batch = [checkpoint("s3://tables/warehouse/orders")]
    with pytest.raises(ClientError, match=refusal[1]):
        starter.start(batch)
    emr.refuses = None
    clock.seconds += LEASE_SECONDS
    assert starter.start(batch) == []
    assert len(emr.runs) == 1


def test_the_schedule_starts_a_run_for_all_tables(starter: JobStarter, emr: EmrServerless) -> None:
    assert starter.start([all_tables(), checkpoint("s3://tables/warehouse/orders")]) == []
    assert emr.arguments() == [["--all", *JOB_ARGUMENTS]]


def test_every_message_waits_while_a_run_indexes_all_tables(starter: JobStarter, emr: EmrServerless) -> None:
    starter.start([all_tables()])
    waiting = [all_tables(), checkpoint("s3://tables/warehouse/orders")]
    assert starter.start(waiting) == ids(*waiting)
    assert len(emr.runs) == 1


def test_the_schedule_does_not_wait_for_runs_of_single_tables(starter: JobStarter, emr: EmrServerless) -> None:
    starter.start([checkpoint("s3://tables/warehouse/orders")])
    assert starter.start([all_tables()]) == []
    assert emr.arguments()[1:] == [["--all", *JOB_ARGUMENTS]]


def test_a_run_indexes_all_tables_if_the_names_exceed_its_arguments(start_with: StartWith, emr: EmrServerless) -> None:
    arguments = ("--full",) * (MAX_ARGUMENTS - 1)
    starter = start_with(replace(JOB, arguments=arguments))
    assert starter.start([checkpoint("s3://tables/warehouse/trips")]) == []
    assert emr.arguments() == [["--all", *arguments]]


def test_the_function_reports_the_messages_to_deliver_again(
    env: Environment, emr: EmrServerless, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {
        "SLUICE_CATALOG_TABLE": env.table_name,
        "SLUICE_INDEX_TABLE": env.table_name,
        "AWS_ENDPOINT_URL_EMR_SERVERLESS": emr.url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    for name, value in (ENVIRONMENT | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(start_index_job, "job_starter", cache(start_index_job.job_starter.__wrapped__))
    first, second = all_tables(), all_tables()
    assert start_index_job.lambda_handler({"Records": [first]}, None) == {"batchItemFailures": []}
    assert start_index_job.lambda_handler({"Records": [second]}, None) == {
        "batchItemFailures": [{"itemIdentifier": second["messageId"]}]
    }
