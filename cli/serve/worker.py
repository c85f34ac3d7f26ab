"""Runs the worker of asynchronous queries in the background, as an event source of Lambda would."""

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError

# Seconds that a request for messages waits, and that the server waits for the worker when it stops. A query that is
# being prepared then stays pending.
WAIT_SECONDS = 1
STOP_SECONDS = 5
# After this time, a message is delivered again if the worker failed.
VISIBILITY_SECONDS = 60

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def preparing_queries(queue_url: str) -> Iterator[None]:
    from handlers import prepare_query  # imported here: loads the code that builds indexes

    prepare_query.query_worker.cache_clear()  # an earlier server of this process may have had another environment
    sqs: Any = botocore.session.Session().create_client("sqs", region_name=os.environ["AWS_REGION"])
    stopped = threading.Event()

    def run() -> None:
        while not stopped.is_set():
            try:
                _handle_messages(sqs, queue_url, prepare_query.lambda_handler)
            except (BotoCoreError, ClientError):
                stopped.wait(WAIT_SECONDS)

    thread = threading.Thread(target=run, name="query-worker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(STOP_SECONDS)


def _handle_messages(sqs: Any, queue_url: str, handler: Any) -> None:
    answer = sqs.receive_message(QueueUrl=queue_url, WaitTimeSeconds=WAIT_SECONDS, VisibilityTimeout=VISIBILITY_SECONDS)
    for message in answer.get("Messages", ()):
        try:
            handler({"Records": [{"messageId": message["MessageId"], "body": message["Body"]}]}, None)
        except Exception:
            logger.exception("An asynchronous query could not be prepared.")
        else:
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
