"""Fixtures: one Spark session, the tables it writes, and one server that shares them."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from pyspark.sql import DataFrame, SparkSession

from tests.clients import jars, spark
from tests.clients.delta_log import Log
from tests.server import Server, running_server

CONNECTOR_JARS = "SLUICE_SPARK_CONNECTOR_JARS"


@dataclass(frozen=True)
class Shared:
    """The tables written by Spark, shared as `clients.tables.NAME`."""

    spark: SparkSession
    folder: Path
    contents: Mapping[str, spark.Contents]
    server: Server

    def log(self, name: str) -> Log:
        return Log(self.folder / name)

    def url(self, name: str) -> str:
        return self.server.table_url(f"clients.tables.{name}")

    def changes(self, name: str, start: int, end: int) -> DataFrame:
        """Returns the change feed as Spark reads it from the folder of the table."""
        options = {"readChangeFeed": "true", "startingVersion": start, "endingVersion": end}
        return self.spark.read.format("delta").options(**options).load(str(self.folder / name))

    def call(self, method: str, name: str, route: str, capabilities: str, **arguments: object) -> requests.Response:
        path = f"/shares/clients/schemas/tables/tables/{name}/{route}"
        return self.server.call(method, path, headers={"delta-sharing-capabilities": capabilities}, **arguments)

    def lines(self, method: str, name: str, route: str, capabilities: str, **arguments: object) -> list[dict[str, Any]]:
        """Returns the lines of a response, which must succeed."""
        answer = self.call(method, name, route, capabilities, **arguments)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.split("\n") if line]


@pytest.fixture(scope="session")
def connector_jars() -> list[Path]:
    """The jars of Spark's Delta Sharing connector, or an empty list if they cannot be fetched."""
    if given := os.environ.get(CONNECTOR_JARS):
        return [Path(jar) for jar in given.split(os.pathsep)]
    try:
        return jars.fetched(jars.CONNECTOR)
    except jars.NotFetchedError:
        return []


def delta_jars() -> list[Path]:
    try:
        return jars.fetched(jars.DELTA)
    except jars.NotFetchedError as error:
        if os.environ.get("SLUICE_OFFLINE"):
            pytest.skip(str(error).splitlines()[0])
        return pytest.exit(f"{error}\nSet SLUICE_OFFLINE=1 to skip these tests without a network.", returncode=1)


@pytest.fixture(scope="session")
def shared(connector_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("clients")
    session = spark.session([*delta_jars(), *connector_jars], folder)
    try:
        contents = spark.make_tables(session, folder / "tables")
        entries = [
            {"name": name, "location": str(folder / "tables" / name), "historyShared": True} for name in spark.scripts()
        ]
        schemas = [{"name": "tables", "tables": entries}]
        shares = {"version": 1, "shares": [{"name": "clients", "schemas": schemas}]}
        with running_server(folder, shares) as server:
            yield Shared(session, folder / "tables", contents, server)
    finally:
        session.stop()


@pytest.fixture
def with_connector(connector_jars: list[Path]) -> None:
    if not connector_jars:
        named = " and ".join(jars.CONNECTOR)
        pytest.skip(f"Spark's connector is missing: {named} cannot be fetched, and {CONNECTOR_JARS} is not set")
