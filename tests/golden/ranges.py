"""What the log says of a range of versions: the actions that a streaming read and a change feed are made of."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tests.golden.expectation import DELETION_VECTORS, DELTA_ONLY, PARQUET, lies_elsewhere, needs, refusal
from tests.golden.folder import GoldenTable
from tests.golden.plain_log import Action, BrokenLogError, PlainLog, State

RangeAction = tuple[int, str, Action]
"""The version, the kind of action, and the log's own words."""
ActionsOf = Callable[[PlainLog, int], list[RangeAction]]

CHANGE_FEED = "delta.enableChangeDataFeed"
MERGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def streamed(log: PlainLog, version: int) -> list[RangeAction]:
    """The files of a commit that changed the table's data, in the order of the log."""
    files = [(kind, action[kind]) for action in log.commit(version) for kind in ("add", "remove") if kind in action]
    return [(version, kind, file) for kind, file in files if file["dataChange"]]


def changed(log: PlainLog, version: int) -> list[RangeAction]:
    """The files of a commit that its changed rows are in: those that were written for the feed, if there are any."""
    commit = log.commit(version)
    written = [(version, "cdc", action["cdc"]) for action in commit if "cdc" in action]
    return written or ([] if _merged_nothing(commit) else streamed(log, version))


def actions_from(log: PlainLog, start: int, actions_of: ActionsOf) -> list[RangeAction]:
    return [action for version in versions_from(log, start) for action in actions_of(log, version)]


def range_refusal(table: GoldenTable, start: int, actions_of: ActionsOf, answer_format: str) -> str | None:
    """Why the actions of a range cannot be told in a format."""
    for version in versions_from(table.log, start):
        try:
            state, actions = table.log.state(version), actions_of(table.log, version)
        except BrokenLogError as broken:
            return str(broken)
        with_vectors = any("deletionVector" in file for _, _, file in actions)
        if answer_format == PARQUET and (with_vectors or (needs(state) & DELTA_ONLY) - {DELETION_VECTORS}):
            return f"version {version} needs delta format"
        if any(lies_elsewhere(file) for _, _, file in actions):
            return "a file lies elsewhere"
        reasons = [_removal_refusal(table, state, file) for _, kind, file in actions if kind == "remove"]
        if reason := refusal(state) or next(filter(None, reasons), None):
            return reason
    return None


def _removal_refusal(table: GoldenTable, state: State, removed: Action) -> str | None:
    """Old writers say of a removed file no more than its path."""
    if "partitionValues" not in removed and state.metadata["partitionColumns"]:
        return "a removed file's partition is known nowhere"
    if "size" not in removed and not _exists(table, removed):
        return "a removed file's size is known nowhere"
    return None


def feed_is_off(log: PlainLog, start: int) -> bool:
    """Whether some version of the range has no change feed."""
    return any(log.state(version).configuration.get(CHANGE_FEED) != "true" for version in versions_from(log, start))


def python_reads_changes(table: GoldenTable, start: int, answer_format: str) -> bool:
    """Whether the published Python client takes an answer: in delta format the columns must stay the same."""
    schemas = {table.log.state(version).metadata["schemaString"] for version in versions_from(table.log, start)}
    return answer_format == PARQUET or len(schemas) == 1


def is_plain(table: GoldenTable, start: int, actions: list[RangeAction]) -> bool:
    """Whether the files of a range can be read as they are, and are all there."""
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
