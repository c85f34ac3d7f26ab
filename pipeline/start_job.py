"""The function that starts runs of the index's job: for tables that have a new checkpoint, and for all on a schedule.

What to index comes from a queue. A message about a table that a run is busy with goes back to the queue and comes again
later: no checkpoint is missed, and a busy table gets no second run.
"""

import hashlib
import json
import logging
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import botocore.session
from botocore.config import Config

from core.catalog.admin import CatalogAdmin
from core.storage.location import InvalidLocationError, S3Location

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Written once for each checkpoint, however many files that has, and after them.
LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
ALL_TABLES = "--all"
# A limit of EMR Serverless.
MAX_ARGUMENTS = 1024
IN_PROGRESS = ["SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING", "CANCELLING"]
# Longer than the function may take, so that EMR lists a run before its lease ends; and shorter than a message that went
# back stays away.
LEASE_SECONDS = 120

PATIENCE = Config(connect_timeout=2, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """What the runs have in common. All else is said by the EMR application (infra/index.yaml)."""

    application_id: str
    role_arn: str
    entry_point: str
    arguments: tuple[str, ...]
    timeout_minutes: int

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Job":
        return cls(
            environment["SLUICE_JOB_APPLICATION_ID"],
            environment["SLUICE_JOB_ROLE_ARN"],
            environment["SLUICE_JOB_ENTRY_POINT"],
            tuple(shlex.split(environment["SLUICE_JOB_ARGUMENTS"])),
            int(environment["SLUICE_JOB_TIMEOUT_MINUTES"]),
        )


class JobStarter:
    def __init__(
        self,
        emr: Any,
        dynamodb: "DynamoDBClient",
        job: Job,
        *,
        catalog_table: str,
        index_table: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._emr = emr
        self._dynamodb = dynamodb
        self._job = job
        self._catalog = CatalogAdmin(dynamodb, catalog_table)
        self._index_table = index_table
        self._now = now

    def start(self, records: Iterable[Mapping[str, Any]]) -> list[str]:
        """Start one run for all that the queue's records ask for. Returns the ids of those that must come again."""
        asked: dict[str, list[str]] = {}
        for record in records:
            if subject := _subject(record["body"]):
                asked.setdefault(subject, []).append(record["messageId"])
        if not asked:
            return []
        tables, busy = self._tables(), self._arguments_in_progress()
        again, wanted, messages = [], set(), []
        for subject, ids in asked.items():
            arguments = {ALL_TABLES} if subject == ALL_TABLES else tables.get(subject, set())
            if not arguments:
                logger.info("not shared: %s", subject)
            elif busy & {ALL_TABLES, *arguments} or not self._lease(subject):
                again.append(ids[-1])  # one of them is enough to come back to it
            else:
                wanted |= arguments
                messages += ids
        if wanted:
            self._start_run(wanted, messages)
        return again

    def _tables(self) -> dict[str, set[str]]:
        """The arguments for the tables of each location: several shares may have it."""
        found: dict[str, set[str]] = {}
        for share in self._catalog.shares():
            for table in self._catalog.tables(share.name):
                with suppress(InvalidLocationError):
                    found.setdefault(S3Location.parse(table.location).uri, set()).add(f"--table={table.full_name}")
        return found

    def _arguments_in_progress(self) -> set[str]:
        """Of the runs that have not ended, whoever started them."""
        application = self._job.application_id
        pages = self._emr.get_paginator("list_job_runs").paginate(applicationId=application, states=IN_PROGRESS)
        found: set[str] = set()
        for summary in (summary for page in pages for summary in page["jobRuns"]):
            run = self._emr.get_job_run(applicationId=application, jobRunId=summary["id"])["jobRun"]
            found.update(run["jobDriver"]["sparkSubmit"].get("entryPointArguments", ()))
        return found

    def _lease(self, subject: str) -> bool:
        """Whether it is for us to start: others may be at work on another part of the queue at this moment."""
        now = int(self._now())
        try:
            self._dynamodb.put_item(
                TableName=self._index_table,
                Item={
                    "pk": {"S": f"LEASE#{subject}"},
                    "sk": {"S": "#LEASE"},
                    "expires_at": {"N": str(now + LEASE_SECONDS)},
                },
                ConditionExpression="attribute_not_exists(pk) OR expires_at <= :now",
                ExpressionAttributeValues={":now": {"N": str(now)}},
            )
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def _start_run(self, wanted: set[str], messages: list[str]) -> None:
        job = self._job
        room = MAX_ARGUMENTS - len(job.arguments)
        subjects = [ALL_TABLES] if ALL_TABLES in wanted or len(wanted) > room else sorted(wanted)
        run = self._emr.start_job_run(
            applicationId=job.application_id,
            # The same when the same messages come again because we were ended before we could answer.
            clientToken=hashlib.sha256("".join(sorted(messages)).encode()).hexdigest(),
            executionRoleArn=job.role_arn,
            name=" ".join(subjects)[:256],
            executionTimeoutMinutes=job.timeout_minutes,
            jobDriver={
                "sparkSubmit": {"entryPoint": job.entry_point, "entryPointArguments": [*subjects, *job.arguments]}
            },
        )
        logger.info("started run %s: %s", run["jobRunId"], " ".join(subjects))


def _subject(body: str) -> str | None:
    """What a message is about: the location of a table, or all of them. None if it is about neither."""
    try:
        message = json.loads(body)
    except ValueError:
        message = None
    match message:
        case {"index": "all"}:
            return ALL_TABLES
        case {"detail": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
            if f"/{key}".endswith(f"/{LAST_CHECKPOINT}"):
                return S3Location(bucket, key.removesuffix(LAST_CHECKPOINT).strip("/")).uri
    logger.warning("a message that is not about a checkpoint")
    return None


@cache
def _process_starter() -> JobStarter:
    session, environment = botocore.session.Session(), os.environ
    return JobStarter(
        session.create_client("emr-serverless", config=PATIENCE),
        cast("DynamoDBClient", session.create_client("dynamodb", config=PATIENCE)),
        Job.from_environment(environment),
        catalog_table=environment["SLUICE_CATALOG_TABLE"],
        index_table=environment["SLUICE_INDEX_TABLE"],
    )


def lambda_handler(event: Mapping[str, Any], context: object) -> dict[str, list[dict[str, str]]]:  # noqa: ARG001
    """What it raises sends the whole batch back to the queue, and the function's alarm off."""
    again = _process_starter().start(event["Records"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in again]}
