"""Fixtures: one server for the tests in this folder, with tables of many features and of restricted history."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.conftest import GOLDEN_TABLES
from tests.integration.conftest import client_arguments
from tests.integration.wire.lake import TABLES
from tests.server import Server, running_server

DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"
# Tables written by Spark that the published Python client can read, although it does not announce their features.
GOLDEN = (
    "data-reader-timestamp_ntz",
    "dv-with-columnmapping",
    "spark-variant-checkpoint",
    "type-widening",
    "type-widening-nested",
)
BOTH = "responseformat=delta,parquet;readerfeatures=deletionvectors,columnmapping,timestampntz"


@dataclass(frozen=True)
class Wire:
    server: Server
    folder: Path
    client_arguments: dict[str, str] = field(default_factory=dict)
    """Arguments for a boto client with full access to the server's AWS."""

    def url(self, table: str) -> str:
        return self.server.table_url(f"modern.tables.{table}")

    def call(self, method: str, table: str, route: str, capabilities: str | None = None, **call: Any) -> Any:
        headers = {} if capabilities is None else {"delta-sharing-capabilities": capabilities}
        headers |= call.pop("headers", {})
        path = f"/shares/modern/schemas/tables/tables/{table}/{route}"
        return self.server.call(method, path, headers=headers, **call)

    def metadata(self, table: str, capabilities: str | None = None, **parameters: Any) -> requests.Response:
        return self.call("GET", table, "metadata", capabilities, params=parameters)

    def query(self, table: str, capabilities: str | None = None, **body: Any) -> requests.Response:
        return self.call("POST", table, "query", capabilities, json=body)

    def changes(self, table: str, capabilities: str | None = None, **parameters: Any) -> requests.Response:
        return self.call("GET", table, "changes", capabilities, params=parameters)


def lines(response: requests.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.content.splitlines()]


def error(response: requests.Response) -> tuple[int, str, str]:
    document = response.json()
    assert document.keys() == {"errorCode", "message"}
    for secret in ("s3:", "sluice-data", "_delta_log", "/tmp", "elsewhere"):
        assert secret not in document["message"]
    return response.status_code, document["errorCode"], document["message"]


@pytest.fixture(scope="session")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    folder = tmp_path_factory.mktemp("wire")
    for name, make in TABLES.items():
        make(folder / name)
    (folder / "nothing" / "_delta_log").mkdir(parents=True)
    (folder / "nothing" / "readme.txt").write_text("no table")
    gated = [
        {"name": "late", "location": str(folder / "feed"), "historyShared": True, "startVersion": 2},
        {"name": "private", "location": str(folder / "feed")},
    ]
    directories = [folder / name for name in (*TABLES, "nothing")]
    directories += [GOLDEN_TABLES / name for name in GOLDEN if GOLDEN_TABLES.is_dir()]
    tables = [{"name": path.name, "location": str(path), "historyShared": True} for path in directories]
    shares = {"version": 1, "shares": [{"name": "modern", "schemas": [{"name": "tables", "tables": tables + gated}]}]}
    admin_env = folder / "admin.env"
    with running_server(folder, shares, "--admin-env-out", str(admin_env)) as server:
        yield Wire(server, folder, client_arguments(admin_env))
