"""Starts runs of the index job: for tables with a new checkpoint, on a schedule for all tables, and on request.

Requests come from an SQS queue. A message about a table that a run is already working on goes back to the queue and is
delivered again later, so no checkpoint is missed and no table has two runs at the same time.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from core.catalog.admin import CatalogAdmin
from core.index.write.job_configuration import JobConfiguration
from core.storage.location import InvalidLocationError, S3Location

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Delta writers write this object once per checkpoint, after all files of the checkpoint.
LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
# Arguments of the job (pipeline/job.py).
ALL_TABLES = "--all"
TABLE = "--table="
FULL = "--full"
# Limit of EMR Serverless for the arguments of a run.
MAX_ARGUMENTS = 1024
IN_PROGRESS = ["SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING", "CANCELLING"]
# Longer than the function's timeout, so EMR Serverless lists a run before its lease ends. Shorter than the queue's
# visibility timeout, so the lease has ended when a message is delivered again.
LEASE_SECONDS = 120

logger = logging.getLogger(__name__)


class Request(NamedTuple):
    """What a message asks for."""

    target: str
    """The location of a table, the job's argument for a table (`--table=NAME`), or `ALL_TABLES`."""
    full: bool = False
    """Whether to rebuild the whole index."""


class JobStarter:
    def __init__(
        self,
        emr: Any,
        dynamodb: "DynamoDBClient",
        job: JobConfiguration,
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
        """Starts one run for all tables that the records name, and one for those to rebuild.

        Returns the ids of the messages to deliver again.
        """
        messages_by_request: dict[Request, list[str]] = {}
        for record in records:
            if request := request_of(record["body"]):
                messages_by_request.setdefault(request, []).append(record["messageId"])
        if not messages_by_request:
            return []
        tables, busy = self._table_arguments(), self._arguments_in_progress()
        deliver_again = []
        runs: dict[bool, tuple[set[str], list[str]]] = {}
        for request, ids in messages_by_request.items():
            arguments = {ALL_TABLES} if request.target == ALL_TABLES else tables.get(request.target, set())
            if not arguments:
                logger.info("Ignored a message about %s: no share has this table.", request.target)
            elif busy & {ALL_TABLES, *arguments} or not self._lease(request.target):
                deliver_again.append(ids[-1])  # one message per table is enough
            else:
                wanted, messages = runs.setdefault(request.full, (set(), []))
                wanted |= arguments
                messages += ids
        for full, (wanted, messages) in runs.items():
            self._start_run(wanted, messages, full=full)
        return deliver_again

    def _table_arguments(self) -> dict[str, set[str]]:
        """The job's arguments by target. Several shares may have the same location."""
        found: dict[str, set[str]] = {}
        for share in self._catalog.shares():
            for table in self._catalog.tables(share.name):
                argument = f"{TABLE}{table.full_name}"
                with suppress(InvalidLocationError):
                    found.setdefault(S3Location.parse(table.location).uri, set()).add(argument)
                    found[argument.lower()] = {argument}
        return found

    def _arguments_in_progress(self) -> set[str]:
        """The arguments of all runs that have not ended, including runs started by hand."""
        application = self._job.application_id
        pages = self._emr.get_paginator("list_job_runs").paginate(applicationId=application, states=IN_PROGRESS)
        found: set[str] = set()
        for summary in (summary for page in pages for summary in page["jobRuns"]):
            run = self._emr.get_job_run(applicationId=application, jobRunId=summary["id"])["jobRun"]
            found.update(run["jobDriver"]["sparkSubmit"].get("entryPointArguments", ()))
        return found

    def _lease(self, target: str) -> bool:
        """Takes the target's lease. Returns False if a concurrent invocation of the function holds it."""
        now = int(self._now())
        try:
            self._dynamodb.put_item(
                TableName=self._index_table,
                Item={
                    "pk": {"S": f"LEASE#{target}"},
                    "sk": {"S": "#LEASE"},
                    "expires_at": {"N": str(now + LEASE_SECONDS)},
                },
                ConditionExpression="attribute_not_exists(pk) OR expires_at <= :now",
                ExpressionAttributeValues={":now": {"N": str(now)}},
            )
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def _start_run(self, wanted: set[str], messages: list[str], *, full: bool) -> None:
        job = self._job
        arguments = (FULL, *job.arguments) if full else job.arguments
        max_tables = MAX_ARGUMENTS - len(arguments)
        targets = [ALL_TABLES] if ALL_TABLES in wanted or len(wanted) > max_tables else sorted(wanted)
        run = self._emr.start_job_run(
            applicationId=job.application_id,
            # Derived from the messages: if the function ends before it can answer, SQS delivers them again, and the
            # same token does not start a second run.
            clientToken=hashlib.sha256("".join(sorted(messages)).encode()).hexdigest(),
            executionRoleArn=job.role_arn,
            name=" ".join(targets)[:256],
            executionTimeoutMinutes=job.timeout_minutes,
            jobDriver={"sparkSubmit": {"entryPoint": job.entry_point, "entryPointArguments": [*targets, *arguments]}},
            configurationOverrides={
                "applicationConfiguration": [{"classification": "spark-defaults", "properties": job.spark_properties()}]
            },
        )
        logger.info("Started run %s with %s.", run["jobRunId"], " ".join(targets))


def request_of(body: str) -> Request | None:
    """What a message asks for. None for a message that is about neither a checkpoint nor an index."""
    try:
        message = json.loads(body)
    except ValueError:
        message = None
    match message:
        case {"index": str(name)}:
            # Names of tables are case-insensitive.
            target = ALL_TABLES if name == "all" else f"{TABLE}{name}".lower()
            return Request(target, full=message.get("full") is True)
        case {"detail": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
            if f"/{key}".endswith(f"/{LAST_CHECKPOINT}"):
                return Request(S3Location(bucket, key.removesuffix(LAST_CHECKPOINT).strip("/")).uri)
    logger.warning("Ignored a message that is neither about a checkpoint nor about an index.")
    return None
