"""One server per worker, with the tables that most tests need."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from tests import tables
from tests.server import Server, running_server


@dataclass(frozen=True)
class Served:
    server: Server
    people: pa.Table
    events: pa.Table


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    people, events = tables.people(folder / "people"), tables.events(folder / "events")
    (folder / "empty" / "_delta_log").mkdir(parents=True)
    (folder / "empty" / "readme.txt").write_text("no table")
    shares = {
        "version": 1,
        "shares": [
            {
                "name": "Sales",
                "displayName": "All sales",
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
                            {"name": "nothing", "location": str(folder / "empty")},
                        ],
                    },
                    {"name": "void", "tables": []},
                ],
            },
            {"name": "other", "schemas": []},
        ],
    }
    with running_server(folder, shares, "--log-level", "INFO") as server:
        yield Served(server, people, events)
