"""Random histories of a table: streams and change feeds, as a client gets them, against a plain model."""

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


def played(steps: list[Step]) -> tuple[SharedTable, History]:
    env = SharedTable()
    history = History(env.lake)
    for step in steps:
        history.commit(step)
        for shape in step.shapes:
            history.shape(shape, step.reach)
    return env, history


def line_of(version: int, file: FileAction) -> dict[str, Any]:
    """What a client is told of a file, but for its URL."""
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


def told(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for line in lines:
        if (file := line.get("file")) is not None:
            ((kind, action),) = file["deltaSingleAction"].items()
            shown = {name: file.get(name) for name in ("id", "version", "timestamp", "deletionVectorFileId")}
            shown |= {name: action[name] for name in ("size", "partitionValues")}
            cardinality = action.get("deletionVector", {}).get("cardinality")
            found.append(shown | {"kind": kind, "cardinality": cardinality})
    return found


def moved(file: FileAction) -> bool:
    return not isinstance(file, Cdc) and not file.data_change


def streamed(actions: list[Action]) -> list[FileAction]:
    return [file for file in expected_files(actions) if not isinstance(file, Cdc) and not moved(file)]


def fed(actions: list[Action]) -> list[FileAction]:
    recorded = [file for file in expected_files(actions) if isinstance(file, Cdc)]
    found_nothing = any(action.get("commitInfo", {}).get("operation") == "MERGE" for action in actions)
    return recorded if recorded or found_nothing else streamed(actions)


@settings(max_examples=examples(80), deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=6), asked=RANGES)
def test_a_stream_and_a_change_feed_have_what_was_committed(steps: list[Step], asked: list[int]) -> None:
    env, history = played(steps)
    start, end = (min(version, history.latest.version) for version in asked)
    commits = list(enumerate(history.commits))[start : end + 1]
    versions = {"startingVersion": start, "endingVersion": end}
    if start < history.earliest:
        for answer in (env.query, env.changes):
            with pytest.raises(MalformedRequestError, match=f"earliest available version is {history.earliest}"):
                answer(DELTA, **versions)
        return
    lines = env.query(DELTA, **versions)
    assert told(lines) == [line_of(version, file) for version, actions in commits for file in streamed(actions)]

    off = [state.version for state in history.states[start : end + 1] if not state.feed]
    if off:
        with pytest.raises(InvalidParameterError, match=rf"change data was not recorded for version \[{off[0]}\]"):
            env.changes(DELTA, **versions)
    else:
        lines = env.changes(DELTA, **versions)
        assert told(lines) == [line_of(version, file) for version, actions in commits for file in fed(actions)]


@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=6), asked=RANGES, with_metadata=st.booleans())
def test_metadata_stands_where_it_changed(steps: list[Step], asked: list[int], with_metadata: bool) -> None:
    env, history = played([step for step in steps if step.feed])
    start, end = (min(version, history.latest.version) for version in asked)
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
