"""Prepares the asynchronous queries that the messages of an SQS queue name (infra/template.yaml). Not a route."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import botocore.session
from botocore.config import Config

from core.index.read.store import IndexStore
from core.index.write.version_build import IndexTable
from core.index.write.writer import IndexWriter
from core.queries.query import Source
from core.queries.queue import Queue, query_key_of
from core.queries.store import QueryStore
from core.queries.worker import QueryWorker
from core.settings import Settings
from core.storage.location import S3Location
from core.storage.objects import TableObjects
from core.storage.session import Storage

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Writes of a build run in parallel and are larger than the reads of a route.
CONFIG = Config(
    connect_timeout=5,
    read_timeout=30,
    retries={"mode": "standard", "total_max_attempts": 4},
    max_pool_connections=32,
    tcp_keepalive=True,
)

logger = logging.getLogger(__name__)


@cache
def query_worker() -> QueryWorker:
    settings = Settings.from_environment()
    session = botocore.session.Session()
    dynamodb = cast("DynamoDBClient", session.create_client("dynamodb", region_name=settings.region, config=CONFIG))
    storage = Storage.connect(settings, session)
    index_table = settings.index_table or ""

    def open_table(source: Source) -> TableObjects:
        location = S3Location.parse(source.location)
        opened = storage.open(location, role_arn=source.role_arn, external_id=source.external_id, region=source.region)
        return TableObjects(opened.objects(), location)

    def sqs() -> object:
        return session.create_client("sqs", region_name=settings.region, config=CONFIG)

    job_queue = Queue(sqs, settings.index_queue_url) if settings.index_queue_url else None
    return QueryWorker(
        QueryStore(dynamodb, index_table),
        IndexTable(IndexStore(dynamodb, index_table), IndexWriter(dynamodb, index_table)),
        open_table,
        job_queue.ask_index_job if job_queue else None,
    )


def lambda_handler(event: Mapping[str, Any], context: object) -> None:  # noqa: ARG001
    """An exception returns the message to the queue and triggers the function's alarm."""
    for record in event["Records"]:
        key = query_key_of(record["body"])
        if key is None:
            logger.warning("Ignored a message that names no query.")
        else:
            query_worker().prepare(key)
