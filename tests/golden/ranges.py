"""Reads the actions of a range of versions from the log: the expectation for streaming reads and change feeds."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tests.golden.expectation import DELETION_VECTORS, DELTA_ONLY, PARQUET, is_outside, needs, refusal
from tests.golden.folder import GoldenTable
from tests.golden.plain_log import Action, BrokenLogError, PlainLog, State

RangeAction = tuple[int, str, Action]
"""The version, the kind of action, and the action as in the log."""
ActionsOf = Callable[[PlainLog, int], list[RangeAction]]

CHANGE_FEED = "delta.enableChangeDataFeed"
MERGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def streamed(log: PlainLog, version: int) -> list[RangeAction]:
    """Returns the files of a commit that changed data, in the order of the log."""
    files = [(kind, action[kind]) for action in log.commit(version) for kind in ("add", "remove") if kind in action]
    return [(version, kind, file) for kind, file in files if file["dataChange"]]


def changed(log: PlainLog, version: int) -> list[RangeAction]:
    """Returns the files with the changed rows of a commit: its change files (`cdc`), if it has any."""
    commit = log.commit(version)
    written = [(version, "cdc", action["cdc"]) for action in commit if "cdc" in action]
    return written or ([] if _merged_nothing(commit) else streamed(log, version))


def actions_from(log: PlainLog, start: int, actions_of: ActionsOf) -> list[RangeAction]:
    return [action for version in versions_from(log, start) for action in actions_of(log, version)]


def range_refusal(table: GoldenTable, start: int, actions_of: ActionsOf, answer_format: str) -> str | None:
    """Returns why a range is refused in a format, if it is."""
    for version in versions_from(table.log, start):
        try:
            state, actions = table.log.state(version), actions_of(table.log, version)
        except BrokenLogError as broken:
            return str(broken)
        with_vectors = any("deletionVector" in file for _, _, file in actions)
        if answer_format == PARQUET and (with_vectors or (needs(state) & DELTA_ONLY) - {DELETION_VECTORS}):
            return f"version {version} needs delta format"
        if any(is_outside(file) for _, _, file in actions):
            return "a file is outside the table"
        reasons = [_removal_refusal(table, state, file) for _, kind, file in actions if kind == "remove"]
        if reason := refusal(state) or next(filter(None, reasons), None):
            return reason
    return None


def _removal_refusal(table: GoldenTable, state: State, removed: Action) -> str | None:
    """Returns why a removed file cannot be relayed, if it cannot. Old writers recorded only its path."""
    if "partitionValues" not in removed and state.metadata["partitionColumns"]:
        return "the partition of a removed file is unknown"
    if "size" not in removed and not _exists(table, removed):
        return "the size of a removed file is unknown"
    return None


def feed_is_off(log: PlainLog, start: int) -> bool:
    """Whether the change feed is disabled at any version of the range."""
    return any(log.state(version).configuration.get(CHANGE_FEED) != "true" for version in versions_from(log, start))


def python_reads_changes(table: GoldenTable, start: int, answer_format: str) -> bool:
    """Whether the published Python client can read the range. In delta format, the schema must not change."""
    schemas = {table.log.state(version).metadata["schemaString"] for version in versions_from(table.log, start)}
    return answer_format == PARQUET or len(schemas) == 1


def is_plain(table: GoldenTable, start: int, actions: list[RangeAction]) -> bool:
    """Whether all files of a range exist and can be read without deletion vectors and column mapping."""
    states = [table.log.state(version) for version in versions_from(table.log, start)]
    if any(needs(state) & DELTA_ONLY for state in states):
        return False
    return all(_exists(table, file) for _, _, file in actions)


def versions_from(log: PlainLog, start: int) -> range:
    return range(start, log.versions[-1] + 1)


def _exists(table: GoldenTable, file: Action) -> bool:
    return (table.directory / unquote(file["path"])).is_file()


def _merged_nothing(commit: list[Action]) -> bool:
    info: dict[str, Any] = next((action["commitInfo"] for action in commit if "commitInfo" in action), {})
    metrics = info.get("operationMetrics", {})
    return info.get("operation") == "MERGE" and all(metrics.get(name) == "0" for name in MERGED_ROWS)
