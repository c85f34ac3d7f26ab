"""Replays the log of a table from its JSON commits alone, to check what the server relays."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMITS = f"_delta_log/{'[0-9]' * 20}.json"
Action = dict[str, Any]


@dataclass(frozen=True)
class Version:
    metadata: Action
    adds: list[Action]

    @property
    def has_deletion_vectors(self) -> bool:
        return any("deletionVector" in add for add in self.adds)

    @property
    def has_column_mapping(self) -> bool:
        return self.metadata["configuration"].get("delta.columnMapping.mode", "none") != "none"

    def has_type(self, name: str) -> bool:
        return f'"{name}"' in self.metadata["schemaString"]


class Log:
    def __init__(self, folder: Path) -> None:
        # `splitlines` would also split at characters such as U+2028, which statistics may contain.
        texts = [file.read_text().split("\n") for file in sorted(folder.glob(COMMITS))]
        self.commits: list[list[Action]] = [[json.loads(line) for line in lines if line] for lines in texts]
        self.latest = len(self.commits) - 1

    def at(self, version: int) -> Version:
        metadata: Action = {}
        live: dict[tuple[str, str], Action] = {}
        for commit in self.commits[: version + 1]:
            for action in commit:
                metadata = action.get("metaData", metadata)
                if remove := action.get("remove"):
                    live.pop(_key(remove), None)
            live |= {_key(action["add"]): action["add"] for action in commit if "add" in action}
        return Version(metadata, list(live.values()))

    def data_changes(self, version: int) -> list[tuple[str, Action]]:
        """Returns the files a commit added and removed, except those it only rearranged (`dataChange` false)."""
        files = [pair for action in self.commits[version] for pair in action.items() if pair[0] in ("add", "remove")]
        return [(kind, file) for kind, file in files if file["dataChange"]]

    def changes_metadata(self, version: int) -> bool:
        return any("metaData" in action for action in self.commits[version])

    def in_commit_timestamp(self, version: int) -> int | None:
        """Returns the in-commit timestamp, if the commit has one."""
        return next(
            (
                action["commitInfo"].get("inCommitTimestamp")
                for action in self.commits[version]
                if "commitInfo" in action
            ),
            None,
        )


def _key(file: Action) -> tuple[str, str]:
    vector = file.get("deletionVector") or {}
    return file["path"], "".join(str(vector.get(part)) for part in ("storageType", "pathOrInlineDv", "offset"))
