"""A folder of Delta tables, at any depth."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.golden.plain_log import PlainLog


@dataclass(frozen=True)
class GoldenTable:
    name: str
    """Its path in the folder."""
    directory: Path

    @cached_property
    def log(self) -> PlainLog:
        return PlainLog(self.directory)


def tables_in(folder: Path) -> list[GoldenTable]:
    directories = sorted(log.parent for log in folder.rglob("_delta_log") if any(log.glob("[0-9]*")))
    return [GoldenTable(directory.relative_to(folder).as_posix(), directory) for directory in directories]


def folders_without_a_log(folder: Path) -> list[Path]:
    """Those in which there is no table at all."""
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and not any(path.rglob("_delta_log"))]
