"""A shared table with its log in memory, and the answers to requests for it."""

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from core.api.requests.capabilities import Capabilities
from core.api.requests.changes import ChangesRequest
from core.api.requests.metadata import MetadataRequest
from core.api.requests.query import QueryRequest
from core.api.requests.request import Request
from core.api.response import Response
from core.api.table_tokens import TableTokens
from core.api.tokens import SignedTokens, SigningKey
from core.catalog.model import Table
from core.delta.tables import DeltaTables
from core.runtime.events import buffered_response
from core.sharing.answers.table_answer import AnswerOptions
from core.sharing.call import Observed
from core.sharing.changes import answer_changes
from core.sharing.metadata import answer_metadata
from core.sharing.query import answer_query
from core.sharing.tables import SharedTables
from tests.unit.delta.builder import Action, TableInMemory

if TYPE_CHECKING:
    from core.api.room import Meter

DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"
TABLE = Table("trips", "public", "sales", "s-1", "t-1", "s3://delta-tests/tables/one", history_shared=True)

Raw = list[bytes]
Ask = Callable[..., list[dict[str, Any]]]
NOW = 1_800_000_000
KEY = SigningKey(b"k" * 32, 0)


class SharedTable:
    def __init__(self, *commits: tuple[Action, ...] | list[Action], **table: Any) -> None:
        self.lake = TableInMemory()
        self.lake.s3.head_object = self._head  # type: ignore[attr-defined]
        self.table = replace(TABLE, **table)
        self.observed = Observed()
        self.now: float = NOW
        self.meter: Meter | None = None
        """Limits the pages, as a front end does."""
        self.accept_encoding: str | None = None
        """Sends answers through the buffering front end, with this `Accept-Encoding`."""
        self.sent_bytes = 0
        # Opening any table returns the session of the lake.
        storage: Any = SimpleNamespace(open=lambda *_, **__: self.lake.storage())
        self.new_process: Callable[[], DeltaTables] = DeltaTables
        self.tables = SharedTables(storage, DeltaTables())
        for version, actions in enumerate(commits):
            self.lake.commit(version, *actions)

    def query(self, capabilities: str = "", file_id_hash: str | None = None, **body: Any) -> list[dict[str, Any]]:
        query = QueryRequest.parse(Request("POST", body=json.dumps(body).encode()))
        options = self._options(capabilities, file_id_hash)
        return self._lines(answer_query(self.tables, self.table, query, options, self.tokens()))

    def changes(self, capabilities: str = "", **parameters: Any) -> list[dict[str, Any]]:
        request = Request("GET", query={name: str(value) for name, value in parameters.items()})
        changes = ChangesRequest.parse(request)
        options = self._options(capabilities, None)
        return self._lines(answer_changes(self.tables, self.table, changes, options, self.tokens()))

    def metadata(
        self, capabilities: str = "", version: int | None = None, timestamp: str | None = None
    ) -> list[dict[str, Any]]:
        options = self._options(capabilities, None)
        return self._lines(answer_metadata(self.tables, self.table, MetadataRequest(version, timestamp), options))

    def tokens(self) -> TableTokens:
        return TableTokens(SignedTokens([KEY], self.now), "r-1", self.table.id)

    def restart(self) -> None:
        """Continues like a new process, without cached tables."""
        self.tables = replace(self.tables, delta=self.new_process())

    def pages(
        self, ask: Ask, *capabilities: str, between: Callable[[], object] = lambda: None, **body: Any
    ) -> list[Raw]:
        """Requests all pages and calls `between` between them. Returns their lines without the endStreamAction."""
        pages: list[Raw] = []
        token: dict[str, str] = {}
        while True:
            end = ask(*capabilities, **body, **token)[-1]["endStreamAction"]
            pages.append(self.raw[:-1])
            if "nextPageToken" not in end:
                return pages
            token = {"pageToken": end["nextPageToken"]}
            between()

    def _options(self, capabilities: str, file_id_hash: str | None) -> AnswerOptions:
        self.observed = Observed()
        request = Request("POST", headers={"delta-sharing-capabilities": capabilities})
        return AnswerOptions(Capabilities.parse(request), file_id_hash, self.observed)

    def _lines(self, response: Response) -> list[dict[str, Any]]:
        self.headers = response.headers
        if self.meter is not None and response.room is not None:
            response.room.limit(self.meter)
        body = response.body if self.accept_encoding is None else self._sent(response, self.accept_encoding)
        self.raw = [line for block in body for line in block.splitlines()]
        return [json.loads(line) for line in self.raw]

    def _sent(self, response: Response, accept_encoding: str) -> list[bytes]:
        answer = buffered_response(response, Request("POST", headers={"accept-encoding": accept_encoding}))
        self.sent_bytes = len(json.dumps(answer, ensure_ascii=False).encode())
        body = answer["body"]
        return [gzip.decompress(base64.b64decode(body)) if answer["isBase64Encoded"] else body.encode()]

    def _head(self, *, Bucket: str, Key: str) -> dict[str, int]:  # noqa: N803
        if Key not in self.lake.s3.objects:
            raise ClientError({"Error": {"Code": "404"}}, "HeadObject")
        return {"ContentLength": len(self.lake.s3.objects[Key][0])}
