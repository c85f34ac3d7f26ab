"""Serves golden tables with `sluice serve` and reads them as the published Python client does.

The client itself reads the rows. Plain HTTP with the client's headers reads the lines of the answers.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import delta_sharing
import pandas as pd
import requests
from delta_sharing.rest_client import DataSharingRestClient

from tests.golden.expectation import DELTA, PARQUET
from tests.golden.folder import GoldenTable
from tests.server import Server, running_server

SHARE, SCHEMA = "golden", "tables"
DELTA_CAPABILITIES = (
    f"{DataSharingRestClient.DELTA_RESPONSE_FORMAT};{DataSharingRestClient.DELTA_SNAPSHOT_READER_FEATURES}"
)
HEADERS = {PARQUET: {}, DELTA: {"delta-sharing-capabilities": DELTA_CAPABILITIES}}


@dataclass(frozen=True)
class Answer:
    status: int
    error_code: str = ""
    message: str = ""
    """The error message of a refusal."""
    version: int | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class ServedTables:
    server: Server

    def metadata(self, table: GoldenTable, answer_format: str) -> Answer:
        return _answer(self.server.call("GET", f"{_path(table)}/metadata", headers=HEADERS[answer_format]))

    def query(self, table: GoldenTable, answer_format: str, **body: Any) -> Answer:
        return _answer(self.server.call("POST", f"{_path(table)}/query", json=body, headers=HEADERS[answer_format]))

    def changes(self, table: GoldenTable, answer_format: str, **parameters: Any) -> Answer:
        headers = HEADERS[answer_format]
        return _answer(self.server.call("GET", f"{_path(table)}/changes", params=parameters, headers=headers))

    def read(self, table: GoldenTable, answer_format: str, version: int | None = None) -> pd.DataFrame:
        return delta_sharing.load_as_pandas(self._url(table), version=version, use_delta_format=answer_format == DELTA)

    def read_changes(self, table: GoldenTable, answer_format: str, start: int) -> pd.DataFrame:
        return delta_sharing.load_table_changes_as_pandas(
            self._url(table), starting_version=start, use_delta_format=answer_format == DELTA
        )

    def resolved_format(self, table: GoldenTable) -> str:
        """Returns the format that the client chooses if its user names none."""
        profile = delta_sharing.protocol.DeltaSharingProfile.read_from_file(str(self.server.profile))
        named = delta_sharing.protocol.Table(_shared_name(table), SHARE, SCHEMA)
        return DataSharingRestClient(profile).autoresolve_query_format(named)

    def _url(self, table: GoldenTable) -> str:
        return self.server.table_url(f"{SHARE}.{SCHEMA}.{_shared_name(table)}")


@contextlib.contextmanager
def serving(tables: list[GoldenTable], scratch: Path) -> Iterator[ServedTables]:
    entries = [
        {"name": _shared_name(table), "location": str(table.directory), "historyShared": True} for table in tables
    ]
    shares = [{"name": SHARE, "schemas": [{"name": SCHEMA, "tables": entries}]}]
    with running_server(scratch, {"version": 1, "shares": shares}) as server:
        yield ServedTables(server)


def _shared_name(table: GoldenTable) -> str:
    """Returns the name under which a table is shared. The server does not start if two tables have the same name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", table.name)


def _path(table: GoldenTable) -> str:
    return f"/shares/{SHARE}/schemas/{SCHEMA}/tables/{_shared_name(table)}"


def _answer(response: requests.Response) -> Answer:
    if response.status_code == 200:
        version = int(response.headers["Delta-Table-Version"])
        return Answer(200, version=version, lines=[json.loads(line) for line in response.text.split("\n") if line])
    error = response.json()
    return Answer(response.status_code, error["errorCode"], error["message"])
