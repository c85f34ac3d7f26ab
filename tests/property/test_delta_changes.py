"""Random histories of a table: compares streams and change feeds, as a client receives them, with a simple model."""

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.model import Cdc, FileAction
from core.errors import InvalidParameterError, MalformedRequestError
from tests.examples import examples
from tests.property.delta_history import STEPS, History, Step, expected_files
from tests.unit.delta.builder import Action
from tests.unit.sharing.shared_table import DELTA, SharedTable

RANGES = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(sorted)


def table_after(steps: list[Step]) -> tuple[SharedTable, History]:
    env = SharedTable()
    history = History(env.lake)
    for step in steps:
        history.commit(step)
        for shape in step.shapes:
            history.shape(shape, step.reach)
    return env, history


def line_of(version: int, file: FileAction) -> dict[str, Any]:
    """What a client receives for a file, without its URL."""
    vector = None if isinstance(file, Cdc) else file.deletion_vector
    return {
        "kind": type(file).__name__.lower(),
        "id": hashlib.sha256(file.path.encode()).hexdigest(),
        "version": version,
        "timestamp": 1000 * version,
        "size": file.size,
        "partitionValues": file.partition_values,
        "cardinality": vector and vector.cardinality,
        "deletionVectorFileId": vector and hashlib.sha256(vector.path_or_inline_dv.encode()).hexdigest(),
    }


def received(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for line in lines:
        if (file := line.get("file")) is not None:
            ((kind, action),) = file["deltaSingleAction"].items()
            shown = {name: file.get(name) for name in ("id", "version", "timestamp", "deletionVectorFileId")}
            shown |= {name: action[name] for name in ("size", "partitionValues")}
            cardinality = action.get("deletionVector", {}).get("cardinality")
            found.append(shown | {"kind": kind, "cardinality": cardinality})
    return found


def only_rearranged(file: FileAction) -> bool:
    return not isinstance(file, Cdc) and not file.data_change


def streamed(actions: list[Action]) -> list[FileAction]:
    return [file for file in expected_files(actions) if not isinstance(file, Cdc) and not only_rearranged(file)]


def change_feed(actions: list[Action]) -> list[FileAction]:
    change_files = [file for file in expected_files(actions) if isinstance(file, Cdc)]
    changed_no_row = any(action.get("commitInfo", {}).get("operation") == "MERGE" for action in actions)
    return change_files if change_files or changed_no_row else streamed(actions)


@settings(max_examples=examples(80), deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=6), requested=RANGES)
def test_a_stream_and_a_change_feed_have_all_committed_changes(steps: list[Step], requested: list[int]) -> None:
    env, history = table_after(steps)
    start, end = (min(version, history.latest.version) for version in requested)
    commits = list(enumerate(history.commits))[start : end + 1]
    versions = {"startingVersion": start, "endingVersion": end}
    if start < history.earliest:
        for answer in (env.query, env.changes):
            with pytest.raises(MalformedRequestError, match=f"earliest available version is {history.earliest}"):
                answer(DELTA, **versions)
        return
    lines = env.query(DELTA, **versions)
    assert received(lines) == [line_of(version, file) for version, actions in commits for file in streamed(actions)]

    off = [state.version for state in history.states[start : end + 1] if not state.feed]
    if off:
        with pytest.raises(InvalidParameterError, match=rf"change data was not recorded for version \[{off[0]}\]"):
            env.changes(DELTA, **versions)
    else:
        lines = env.changes(DELTA, **versions)
        assert received(lines) == [
            line_of(version, file) for version, actions in commits for file in change_feed(actions)
        ]


@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=6), requested=RANGES, with_metadata=st.booleans())
def test_metadata_is_sent_for_each_version_that_changed_it(
    steps: list[Step], requested: list[int], with_metadata: bool
) -> None:
    env, history = table_after([step for step in steps if step.feed])
    start, end = (min(version, history.latest.version) for version in requested)
    start, end = max(start, history.earliest), max(end, history.earliest)
    changed = [
        version
        for version in range(start + 1, end + 1)
        if any("metaData" in action for action in history.commits[version])
    ]
    lines = env.changes(DELTA, startingVersion=start, endingVersion=end, includeHistoricalMetadata=str(with_metadata))
    found = [line["metaData"] for line in lines if "metaData" in line]
    shown = [start, *changed] if with_metadata else [history.latest.version]
    assert [each["version"] for each in found] == shown
    assert [each["deltaMetadata"].get("name") for each in found] == [history.states[version].name for version in shown]
