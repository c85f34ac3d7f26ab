"""Builds a Delta table from a response in delta format, as Spark's connector does: the lines become its log.

The connector keeps such a log in memory and reads it with Delta Lake's own reader. Here the log and the files behind
the signed URLs are written to a folder, so that Spark can check our responses without the connector.
"""

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import requests
from delta_sharing.fake_checkpoint import get_fake_checkpoint_byte_array

Line = dict[str, Any]


def snapshot(lines: list[Line], folder: Path) -> None:
    """Writes all lines as version 0, as the connector does for any version."""
    protocol, metadata, *others = lines
    head = [{"protocol": protocol["protocol"]["deltaProtocol"]}, {"metaData": metadata["metaData"]["deltaMetadata"]}]
    _write(folder, 0, head + [_local(line["file"], folder) for line in others if "file" in line], 0)


def commits(lines: list[Line], folder: Path) -> tuple[int, int]:
    """Writes each line into the commit of its version. Returns the first and the last version."""
    protocol, *others = lines
    actions: dict[int, list[Line]] = defaultdict(list)
    times: dict[int, int] = {}
    for line in sorted(others, key=lambda line: line["file"]["id"] if "file" in line else ""):
        if "file" in line:
            times.setdefault(line["file"]["version"], line["file"]["timestamp"])
            actions[line["file"]["version"]].append(_local(line["file"], folder))
        else:
            actions[line["metaData"]["version"]].append({"metaData": line["metaData"]["deltaMetadata"]})
    first, last = min(actions), max(actions)
    actions[first].append({"protocol": protocol["protocol"]["deltaProtocol"]})
    for version in range(first, last + 1):
        _write(folder, version, actions[version], times.get(version, 0))
    if first > 0:
        (folder / "_delta_log" / f"{first - 1:020d}.checkpoint.parquet").write_bytes(get_fake_checkpoint_byte_array())
    return first, last


def _local(file: Line, folder: Path) -> Line:
    """Returns the action of a file, with its data file and deletion vector downloaded to the folder."""
    ((kind, action),) = file["deltaSingleAction"].items()
    action = {**action, "path": _fetched(action["path"], folder / file["id"])}
    vector = action.get("deletionVector")
    if vector and vector["storageType"] == "p":
        path = _fetched(vector["pathOrInlineDv"], folder / file["deletionVectorFileId"])
        action["deletionVector"] = {**vector, "pathOrInlineDv": path}
    return {kind: action}


def _fetched(url: str, file: Path) -> str:
    if not file.exists():
        answer = requests.get(url, timeout=60)
        answer.raise_for_status()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(answer.content)
    return file.as_uri()


def _write(folder: Path, version: int, actions: list[Line], time_ms: int) -> None:
    file = folder / "_delta_log" / f"{version:020d}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(action) + "\n" for action in actions))
    os.utime(file, (time_ms / 1000, time_ms / 1000))
