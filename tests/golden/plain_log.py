"""A simple Delta log reader to compare with ours: it applies whole files, oldest first, to one dictionary.

It starts at the newest complete checkpoint (of any kind) at or before a version and applies every commit after it. It
checks what the specification requires. A log that violates the specification is broken for every reader.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Action = dict[str, Any]
FileKey = tuple[str, str | None]
"""A file's path and the identity of its deletion vector."""

COMMIT = re.compile(r"(\d{20})\.json")
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|(\.[0-9a-f-]{36}))?\.(?:parquet|json)")


class BrokenLogError(Exception):
    """Says why no reader can read the log at a version."""


@dataclass(frozen=True)
class State:
    version: int
    protocol: Action
    metadata: Action
    files: dict[FileKey, Action]
    """The `add` of every live file."""

    @property
    def schema(self) -> dict[str, Any]:
        return json.loads(self.metadata["schemaString"])

    @property
    def configuration(self) -> dict[str, str]:
        return self.metadata.get("configuration", {})

    @property
    def struct_stats(self) -> dict[FileKey, dict[str, Any]]:
        """Statistics that a checkpoint stores only as columns, not as the JSON text that is relayed."""
        files = {key: added for key, added in self.files.items() if "stats" not in added}
        return {key: added["stats_parsed"] for key, added in files.items() if "stats_parsed" in added}


class PlainLog:
    def __init__(self, table: Path) -> None:
        self.directory = table / "_delta_log"
        self.commits: dict[int, Path] = {}
        self.checkpoints: dict[int, list[Path]] = {}
        parts: dict[tuple[int, str], list[Path]] = {}
        for file in sorted(self.directory.glob("*")):
            if found := COMMIT.fullmatch(file.name):
                self.commits[int(found[1])] = file
            elif found := CHECKPOINT.fullmatch(file.name):
                parts.setdefault((int(found[1]), found[3] or found[4] or ""), []).append(file)
        for (version, part_count_or_id), files in parts.items():
            if len(files) == (int(part_count_or_id) if part_count_or_id.isdigit() else 1):
                self.checkpoints[version] = files

    @property
    def versions(self) -> range:
        """The versions that can be read, from the first still available to the latest."""
        first = 0 if 0 in self.commits or not self.checkpoints else min(self.checkpoints)
        return range(first, max(*self.commits, *self.checkpoints, 0) + 1)

    @cache  # noqa: B019 - all logs are in use for the whole test run
    def commit(self, version: int) -> list[Action]:
        if version not in self.commits:
            raise BrokenLogError(f"commit {version} is missing")
        return _actions(self.commits[version])

    def state(self, version: int) -> State:
        start = max((number for number in self.checkpoints if number <= version), default=-1)
        protocol: Action | None = None
        metadata: Action | None = None
        files: dict[FileKey, Action] = {}
        commits = (self.commit(number) for number in range(start + 1, version + 1))
        for batch in (self._checkpoint(start), *commits):
            # The order within a commit has no meaning: a file may be added with its new deletion vector before it is
            # removed with the old one.
            for action in batch:
                protocol = action.get("protocol") or protocol
                metadata = action.get("metaData") or metadata
                if removed := action.get("remove"):
                    files.pop(file_key(removed), None)
            files |= {file_key(added): added for action in batch if (added := action.get("add"))}
        if protocol is None:
            raise BrokenLogError("no protocol action")
        if metadata is None:
            raise BrokenLogError("no metaData action")
        if "schemaString" not in metadata:
            raise BrokenLogError("metaData without a schemaString")
        return State(version, protocol, metadata, files)

    @cache  # noqa: B019
    def _checkpoint(self, version: int) -> list[Action]:
        actions = [action for file in self.checkpoints.get(version, ()) for action in _actions(file)]
        sidecars = [
            self.directory / "_sidecars" / action["sidecar"]["path"] for action in actions if "sidecar" in action
        ]
        return actions + [action for sidecar in sidecars for action in _actions(sidecar)]


def file_key(action: Action) -> FileKey:
    vector = action.get("deletionVector")
    if vector is None:
        return action["path"], None
    offset = vector.get("offset")
    identity = vector["storageType"] + vector["pathOrInlineDv"]
    return action["path"], identity if offset is None else f"{identity}@{offset}"


def _actions(file: Path) -> list[Action]:
    if file.suffix == ".json":
        rows = [json.loads(line) for line in file.read_bytes().splitlines() if line]
    else:
        rows = pq.read_table(file).to_pylist(maps_as_pydicts="strict")
    return [{name: _without_nulls(action) for name, action in row.items() if action is not None} for row in rows]


def _without_nulls(value: Any) -> Any:
    """Removes null fields, which checkpoints and some writers use for absent ones. Partition values may be null."""
    if not isinstance(value, dict):
        return value
    return {
        name: inner if name == "partitionValues" else _without_nulls(inner)
        for name, inner in value.items()
        if inner is not None
    }
