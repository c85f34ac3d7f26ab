"""Random histories of a table: compares snapshots and ranges with a simple model and with `deltalake`."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.delta import reader
from core.delta.cache import snapshots
from core.delta.log import checkpoint, commits, listing, rows
from core.delta.tables import DeltaTables
from core.errors import MalformedRequestError
from tests.examples import examples
from tests.property.delta_history import STEPS, History, Step, expected, expected_files, seen
from tests.unit.delta.builder import TableInMemory, commit, compaction


@pytest.fixture(params=["default", "tiny"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiny limits, a table of five files takes the code paths of a large one."""
    if request.param == "tiny":
        monkeypatch.setattr(checkpoint, "BATCH_ROWS", 2)
        monkeypatch.setattr(checkpoint, "DECODED_BYTES", 0)
        monkeypatch.setattr(commits, "AHEAD_BYTES", 1)
        monkeypatch.setattr(listing, "LOOK_BACK", 0)
        monkeypatch.setattr(rows, "MAX_CACHED_PARTITIONS", 1)
        monkeypatch.setattr(reader, "MAX_IN_MEMORY", 0)
        monkeypatch.setattr(snapshots, "MANY_COMMITS", 1)
        monkeypatch.setattr(snapshots, "MANY_FILES", 1)


histories = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@histories
@given(steps=st.lists(STEPS, min_size=3, max_size=7), data=st.data())
def test_a_compaction_in_any_order_that_is_not_reconciled_changes_nothing(
    steps: list[Step], data: st.DataObject
) -> None:
    history = History(TableInMemory())
    for step in steps:
        history.commit(step)
    last = data.draw(st.integers(1, history.latest.version))
    first = data.draw(st.integers(0, last - 1))
    actions = [action for actions in history.commits[first : last + 1] for action in actions]
    history.table.put(compaction(first, last), commit(*data.draw(st.permutations(actions))))
    for state in history.states:
        snapshot = DeltaTables().snapshot(history.table.storage(), version=state.version)
        assert seen(snapshot) == expected(state)


@pytest.mark.usefixtures("limits")
@histories
@given(steps=st.lists(STEPS, min_size=1, max_size=7), data=st.data())
def test_every_version_equals_the_model(steps: list[Step], data: st.DataObject) -> None:
    history, cached = History(TableInMemory()), DeltaTables()
    storage = history.table.storage  # a new session for each request
    for step in steps:
        history.commit(step)
        if step.looked_at:
            assert seen(cached.snapshot(storage())) == expected(history.latest)
        for shape in step.shapes:
            history.shape(shape, step.reach)
    latest = expected(history.latest)
    assert seen(cached.snapshot(storage())) == latest
    assert seen(DeltaTables().snapshot(storage())) == latest

    shared = DeltaTables()
    for state in data.draw(st.permutations(history.states)):
        for tables in (shared, DeltaTables()):
            if state.version >= history.earliest:
                assert seen(tables.snapshot(storage(), version=state.version)) == expected(state)
                assert seen(tables.snapshot(storage(), timestamp_ms=1000 * state.version)) == expected(state)
            else:
                with pytest.raises(MalformedRequestError, match=f"earliest available version is {history.earliest}"):
                    tables.snapshot(storage(), version=state.version)

    with tempfile.TemporaryDirectory() as folder:
        table = history.read_by_deltalake(Path(folder))
        adds = table.get_add_actions()
        assert table.version() == latest["version"]
        assert dict(zip(adds.column("path").to_pylist(), adds.column("size_bytes").to_pylist(), strict=True)) == {
            path: file.size for path, file in latest["files"].items()
        }


@pytest.mark.usefixtures("limits")
@histories
@given(steps=st.lists(STEPS, min_size=1, max_size=7), data=st.data())
def test_a_range_has_all_commits_in_every_shape_of_the_log(steps: list[Step], data: st.DataObject) -> None:
    history, tables = History(TableInMemory()), DeltaTables()
    for step in steps:
        history.commit(step)
        for shape in step.shapes:
            history.shape(shape, step.reach)
    start = data.draw(st.integers(history.earliest, history.latest.version))
    end = data.draw(st.integers(start, history.latest.version))
    found = list(tables.commits(history.table.storage(), start, end))
    assert [(each.version, each.timestamp) for each in found] == [(v, 1000 * v) for v in range(start, end + 1)]
    for each, actions in zip(found, history.commits[start : end + 1], strict=True):
        assert list(each.files) == expected_files(actions)
        assert (each.metadata is not None) == any("metaData" in action for action in actions)
        assert (each.protocol is not None) == any("protocol" in action for action in actions)
