"""The SQS queues of asynchronous queries: one for the worker, and one that starts the index job."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any


class Queue:
    def __init__(self, connect: Callable[[], Any], url: str) -> None:
        """`connect` returns an SQS client. Called on first use, because few queries are asynchronous."""
        self._connect = cache(connect)
        self._url = url

    def ask_worker(self, query_key: str) -> None:
        self._send({"query": query_key})

    def ask_index_job(self, table_name: str) -> None:
        """The message of `core.index.write.job_runs`."""
        self._send({"index": table_name})

    def _send(self, message: dict[str, str]) -> None:
        self._connect().send_message(QueueUrl=self._url, MessageBody=json.dumps(message))


def query_key_of(body: str) -> str | None:
    """Returns the key of the query that a message for the worker names, or None if it is not such a message."""
    try:
        message = json.loads(body)
    except ValueError:
        return None
    key = message.get("query") if isinstance(message, dict) else None
    return key if isinstance(key, str) else None
