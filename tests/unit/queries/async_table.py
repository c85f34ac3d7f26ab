"""A table in memory whose queries are asynchronous, with their state in a fake DynamoDB, and a clock to move."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import boto3
from moto import mock_aws

from core.api.requests.capabilities import Capabilities
from core.api.requests.query import QueryRequest
from core.api.requests.query_status import QueryStatusRequest
from core.api.requests.request import Request
from core.api.response import Response
from core.api.table_tokens import TableTokens
from core.api.tokens import SignedTokens
from core.delta.tables import DeltaTables
from core.index.read.indexes import StoredIndexes
from core.index.read.store import IndexStore
from core.index.write.version_build import IndexTable
from core.index.write.writer import IndexWriter
from core.queries.query import Source, key_of
from core.queries.store import QueryStore
from core.queries.worker import QueryWorker
from core.sharing.answers.table_answer import AnswerOptions
from core.sharing.async_queries import AsyncQueries
from core.sharing.call import Observed
from core.sharing.query import answer_query
from core.sharing.tables import SharedTables
from core.storage.objects import TableObjects
from tests.unit.delta.builder import Action, TableInMemory
from tests.unit.sharing.shared_table import KEY, NOW, TABLE

INDEX_TABLE = "index"
PARQUET = "responseformat=parquet;asyncquery=true"


@contextmanager
def fake_dynamodb() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("dynamodb", region_name="us-east-1")
        client.create_table(
            TableName=INDEX_TABLE,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            BillingMode="PAY_PER_REQUEST",
        )
        yield client


class Queue:
    """Collects messages instead of sending them."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def ask_worker(self, key: str) -> None:
        self.keys.append(key)


class AsyncTable:
    def __init__(self, dynamodb: Any, *commits: list[Action], **table: Any) -> None:
        self.dynamodb = dynamodb
        self.lake = TableInMemory()
        self.now: float = NOW
        self.table = replace(TABLE, **table)
        self.queue = Queue()
        self.store = QueryStore(dynamodb, INDEX_TABLE, now=lambda: self.now)
        self.jobs: list[str] = []
        self.recipient = "r-1"
        self.indexes = IndexTable(IndexStore(dynamodb, INDEX_TABLE), IndexWriter(dynamodb, INDEX_TABLE))
        self.restart()
        for version, actions in enumerate(commits):
            self.lake.commit(version, *actions)

    def restart(self, max_log_bytes: float | None = 0) -> None:
        """Continues like a new process, without cached tables."""
        storage: Any = SimpleNamespace(open=lambda *_, **__: self.lake.storage())
        index = StoredIndexes(IndexStore(self.dynamodb, INDEX_TABLE))
        self.tables = SharedTables(storage, DeltaTables(index=index))
        self.queries = AsyncQueries(max_log_bytes, self.store, self.queue)  # type: ignore[arg-type]

    def worker(self, **options: Any) -> QueryWorker:
        def open_table(source: Source) -> TableObjects:
            assert source.location == self.table.location
            return TableObjects(self.lake.objects(), self.lake.location)

        return QueryWorker(self.store, self.indexes, open_table, **options)

    def work(self, **options: Any) -> None:
        """Handles all messages."""
        while self.queue.keys:
            self.worker(**options).prepare(self.queue.keys.pop(0))

    def submit(self, capabilities: str = PARQUET, key: str = "k", **body: Any) -> list[dict[str, Any]]:
        body = {"idempotency_key": key, **body}
        request = Request("POST", body=json.dumps(body).encode(), headers={"delta-sharing-capabilities": capabilities})
        query = QueryRequest.parse(request)
        tokens = self._tokens()
        return self._lines(answer_query(self.tables, self.table, query, self._options(request), tokens, self.queries))

    def submitted(self, capabilities: str = PARQUET, **body: Any) -> str:
        """Submits a query and returns its id."""
        (line,) = self.submit(capabilities, **body)
        assert line["queryStatus"]["status"] == "pending"
        return str(line["queryStatus"]["queryId"])

    def poll(self, query_id: str, capabilities: str = PARQUET, **body: Any) -> list[dict[str, Any]]:
        headers = {"delta-sharing-capabilities": capabilities}
        request = Request("POST", {"queryId": query_id}, body=json.dumps(body).encode(), headers=headers)
        poll = QueryStatusRequest.parse(request)
        response = self.queries.answer(self.tables, self.table, poll, self._options(request), self._tokens())
        return self._lines(response)

    def is_pending(self, query_id: str) -> bool:
        return "queryStatus" in self.poll(query_id)[0]

    def synchronous(self, capabilities: str = "", **body: Any) -> list[dict[str, Any]]:
        """The answer of a server that reads every log."""
        request = Request("POST", body=json.dumps(body).encode(), headers={"delta-sharing-capabilities": capabilities})
        query = QueryRequest.parse(request)
        tables = replace(self.tables, delta=DeltaTables())
        return self._lines(answer_query(tables, self.table, query, self._options(request), self._tokens()))

    def stored(self, query_id: str) -> Any:
        return self.store.find(key_of(query_id) or "")

    def _tokens(self) -> TableTokens:
        return TableTokens(SignedTokens([KEY], self.now), self.recipient, self.table.id)

    def _options(self, request: Request) -> AnswerOptions:
        return AnswerOptions(Capabilities.parse(request), None, Observed())

    def _lines(self, response: Response) -> list[dict[str, Any]]:
        self.headers = response.headers
        self.raw = [line for block in response.body for line in block.splitlines()]
        return [json.loads(line) for line in self.raw]
