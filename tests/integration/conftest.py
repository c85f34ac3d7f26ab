"""Fixtures: one server per worker, with the tables that most tests need."""

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pyarrow as pa
import pytest

from cli.embedded.ministack import EmbeddedAws
from cli.embedded.setup import CATALOG_TABLE, set_up
from core.catalog.admin import CatalogAdmin
from tests import tables
from tests.server import Server, running_server


@dataclass(frozen=True)
class Served:
    server: Server
    people: pa.Table
    events: pa.Table
    many_files: list[dict[str, object]]
    client_arguments: dict[str, str]

    def admin(self, *, now: Callable[[], float] = time.time) -> CatalogAdmin:
        return CatalogAdmin(boto3.client("dynamodb", **self.client_arguments), CATALOG_TABLE, now=now)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    people, events = tables.people(folder / "people"), tables.events(folder / "events")
    many_files = tables.many_files(folder / "many")
    (folder / "empty" / "_delta_log").mkdir(parents=True)
    (folder / "empty" / "readme.txt").write_text("no table")
    shares = {
        "version": 1,
        "shares": [
            {
                "name": "Sales",
                "displayName": "All sales",
                "comment": "Since 2024",
                "properties": {"owner": "sales team"},
                "schemas": [
                    {
                        "name": "Core",
                        "tables": [
                            {"name": "People", "location": str(folder / "people"), "historyShared": True},
                            {"name": "events", "location": str(folder / "events")},
                            {
                                "name": "late",
                                "location": str(folder / "people"),
                                "historyShared": True,
                                "startVersion": 1,
                            },
                            {"name": "many", "location": str(folder / "many")},
                            {"name": "nothing", "location": str(folder / "empty")},
                        ],
                    },
                    {"name": "void", "tables": []},
                ],
            },
            {"name": "other", "schemas": []},
        ],
    }
    admin_env = folder / "admin.env"
    options = ("--log-level", "INFO", "--log-format", "json", "--admin-env-out", str(admin_env))
    with running_server(folder, shares, *options) as server:
        yield Served(server, people, events, many_files, client_arguments(admin_env))


def admin_variables(admin_env: Path) -> dict[str, str]:
    """Returns the variables that the file of `--admin-env-out` exports."""
    lines = admin_env.read_text().splitlines()
    return dict(shlex.split(line)[1].split("=", 1) for line in lines if line.startswith("export "))


def client_arguments(admin_env: Path) -> dict[str, str]:
    """Returns the arguments of a boto client with full access to the server's AWS."""
    variables = admin_variables(admin_env)
    return {
        "endpoint_url": variables["AWS_ENDPOINT_URL"],
        "region_name": variables["AWS_REGION"],
        "aws_access_key_id": variables["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": variables["AWS_SECRET_ACCESS_KEY"],
    }


@pytest.fixture(scope="module")
def functions(aws: EmbeddedAws) -> dict[str, str]:
    """The environment of the functions."""
    return set_up(aws)
