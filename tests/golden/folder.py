"""Finds the Delta tables in a folder, at any depth."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.golden.plain_log import PlainLog

# One table per feature of a log that our reader treats differently. `make test` reads these, `make test-all` the rest.
SAMPLE = frozenset(
    {
        "checkpoint",
        "corrupted-last-checkpoint",
        "data-reader-partition-values",
        "data-reader-timestamp_ntz-name-mode",
        "data-skipping-basic-stats-all-types-checkpoint",
        "deltalog-state-reconstruction-without-metadata",
        "dv-with-columnmapping",
        "log-replay-special-characters",
        "multi-part-checkpoint",
        "only-checkpoint-files",
        "snapshot-data2-deleted",
        "spark-variant-checkpoint",
        "table-with-columnmapping-mode-id",
        "time-travel-schema-changes-a",
        "type-widening",
        "v2-checkpoint-json",
        "v2-checkpoint-parquet",
        "versions-not-contiguous",
    }
)
SLOW = pytest.mark.slow(reason="one of about a hundred tables: `make test` reads a sample")


@dataclass(frozen=True)
class GoldenTable:
    name: str
    """The path of the table within the folder."""
    directory: Path

    @cached_property
    def log(self) -> PlainLog:
        return PlainLog(self.directory)


def tables_in(folder: Path) -> list[GoldenTable]:
    directories = sorted(log.parent for log in folder.rglob("_delta_log") if any(log.glob("[0-9]*")))
    return [GoldenTable(directory.relative_to(folder).as_posix(), directory) for directory in directories]


def table_parameters(folder: Path) -> list[Any]:
    """Returns one pytest parameter per table, marked slow unless the table is in the sample."""
    return [
        pytest.param(table, id=table.name, marks=() if table.name in SAMPLE else SLOW) for table in tables_in(folder)
    ]


def folders_without_a_log(folder: Path) -> list[Path]:
    """Returns the subfolders that contain no table."""
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and not any(path.rglob("_delta_log"))]
