"""A shared table whose log is in memory, and the lines with which it is answered."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

from core.api.capabilities import Capabilities
from core.api.changes import ChangesRequest
from core.api.metadata import MetadataRequest
from core.api.query import parse_query
from core.api.request import Request
from core.api.response import Response
from core.catalog.model import Table
from core.delta.tables import DeltaTables
from core.sharing.answers import Asked
from core.sharing.call import Observed
from core.sharing.changes import answer_changes
from core.sharing.metadata import answer_metadata
from core.sharing.query import answer_query
from core.sharing.tables import SharedTables
from tests.unit.delta.builder import Action, TableInMemory

DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"
TABLE = Table("trips", "public", "sales", "s-1", "t-1", "s3://delta-tests/tables/one", history_shared=True)


class World:
    def __init__(self, *commits: tuple[Action, ...] | list[Action], **table: Any) -> None:
        self.lake = TableInMemory()
        self.lake.s3.head_object = self._head  # type: ignore[attr-defined]
        self.table = replace(TABLE, **table)
        self.observed = Observed()
        # All that a table is opened with here is the lake's own session.
        storage: Any = SimpleNamespace(open=lambda *_, **__: self.lake.storage())
        self.tables = SharedTables(storage, DeltaTables())
        for version, actions in enumerate(commits):
            self.lake.commit(version, *actions)

    def query(self, capabilities: str = "", file_id_hash: str | None = None, **body: Any) -> list[dict[str, Any]]:
        query = parse_query(json.dumps(body).encode(), async_query=False)
        return self._lines(answer_query(self.tables, self.table, query, self._asked(capabilities, file_id_hash)))

    def changes(self, capabilities: str = "", **parameters: Any) -> list[dict[str, Any]]:
        request = Request("GET", query={name: str(value) for name, value in parameters.items()})
        changes = ChangesRequest.of(request)
        asked = self._asked(capabilities, None)
        return self._lines(answer_changes(self.tables, self.table, changes, asked, ends="maxFiles" in parameters))

    def metadata(self, capabilities: str = "", version: int | None = None) -> list[dict[str, Any]]:
        asked = self._asked(capabilities, None)
        return self._lines(answer_metadata(self.tables, self.table, MetadataRequest(version, None), asked))

    def _asked(self, capabilities: str, file_id_hash: str | None) -> Asked:
        self.observed = Observed()
        headers = {"delta-sharing-capabilities": capabilities}
        return Asked(Capabilities.parse(headers), file_id_hash, self.observed)

    def _lines(self, response: Response) -> list[dict[str, Any]]:
        self.headers = response.headers
        return [json.loads(line) for block in response.body for line in block.splitlines()]

    def _head(self, *, Bucket: str, Key: str) -> dict[str, int]:  # noqa: N803
        if Key not in self.lake.s3.objects:
            raise ClientError({"Error": {"Code": "404"}}, "HeadObject")
        return {"ContentLength": len(self.lake.s3.objects[Key][0])}
