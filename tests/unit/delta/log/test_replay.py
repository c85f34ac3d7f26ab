"""Replay: the table that results from a checkpoint and the commits after it."""

import gc
import itertools

import pytest

from core.delta.log.checkpoint import Checkpoint
from core.delta.log.replay import Replay, ReplayState
from core.delta.log.segment import LogSegment
from core.delta.model import Add, DeletionVector
from core.delta.snapshot import LoadedSnapshot, Snapshot
from core.errors import DamagedLogError, UnsupportedOperationError
from core.storage.objects import ObjectInfo
from tests.unit.delta.builder import (
    MODERN_PROTOCOL,
    PROTOCOL,
    SCHEMA,
    add,
    checkpoint,
    commit,
    metadata,
    paths,
    remove,
    vector,
)

SEGMENT = LogSegment(version=7, timestamp=70, tip=ObjectInfo("tip", 1, 70), checkpoint=(), commits=(), checkpoint_id="")
STATS = '{ "numRecords":1, "minValues":{"id":1.0}, "text":"é\\u0041" }'


def from_commit(*actions):
    return replayed(commit(*actions))


def from_parquet(*actions):
    return replayed(at=Checkpoint([checkpoint(*actions)]))


def from_manifest(*actions):
    return replayed(at=Checkpoint([], commit(*actions)))


def replayed(*commits: bytes, base: LoadedSnapshot | None = None, at: Checkpoint | None = None) -> LoadedSnapshot:
    replay = Replay(base and base.state, at)
    for each in commits:
        replay.apply(each)
    return LoadedSnapshot.of(replay.result(SEGMENT))


def files(snapshot: Snapshot) -> dict[str, str | None]:
    """Each live path with the name of its vector."""
    return {file.path: file.deletion_vector and file.deletion_vector.path_or_inline_dv for file in snapshot.adds()}


@pytest.mark.parametrize("form", [from_commit, from_parquet, from_manifest])
def test_a_file_is_returned_as_the_log_wrote_it(form):
    more = {
        "tags": {"a": "b", "none": None},
        "baseRowId": 0,
        "defaultRowCommitVersion": 3,
        "clusteringProvider": "liquid",
    }
    actions = [
        add("p=a%20b/1.parquet", size=2**40, p="a b", stats=STATS),
        add("2.parquet", p=None),
        add("3", p="", tags={}),
        add("4", deletionVector=vector("x^{", offset=0, cardinality=2**33), **more),
        add("5", deletionVector=vector("inline", offset=None)),
        add("/absolute", p="é\u2028"),
    ]
    snapshot = form(MODERN_PROTOCOL, metadata(), *actions).snapshot
    by_path = {file.path: file for file in snapshot.adds()}
    assert list(map(by_path.get, (action["add"]["path"] for action in actions))) == [
        Add("p=a%20b/1.parquet", {"p": "a b"}, 2**40, 5, True, STATS),
        Add("2.parquet", {"p": None}, 1, 5, True, None),
        Add("3", {"p": ""}, 1, 5, True, None, None, {"tags": {}}),
        Add("4", {"p": "x"}, 1, 5, True, None, DeletionVector("u", "x^{", 0, 40, 2**33), more),
        Add("5", {"p": "x"}, 1, 5, True, None, DeletionVector("u", "inline", None, 40, 2)),
        Add("/absolute", {"p": "é\u2028"}, 1, 5, True, None),
    ]
    assert (snapshot.num_files, snapshot.size, snapshot.num_deletion_vectors) == (6, 2**40 + 5, 2)
    assert (snapshot.version, snapshot.timestamp) == (7, 70)


@pytest.mark.parametrize("form", [from_commit, from_parquet, from_manifest])
def test_metadata_and_protocol_are_returned_as_the_log_wrote_them(form):
    snapshot = form(MODERN_PROTOCOL, metadata(name="trips", configuration={"a.b": "c"})).snapshot
    assert snapshot.metadata.schema_string == SCHEMA
    assert snapshot.metadata.id == "11111111-2222-3333-4444-555555555555"
    assert snapshot.metadata.name == "trips"
    assert snapshot.metadata.description is None
    assert snapshot.metadata.partition_columns == ("p",)
    assert (snapshot.metadata.provider, snapshot.metadata.options) == ("parquet", {})
    assert snapshot.metadata.configuration == {"a.b": "c"}
    assert snapshot.metadata.created_time == 1700000000000
    protocol = snapshot.protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == protocol.writer_features == ("deletionVectors", "v2Checkpoint")


def test_the_newest_action_of_a_file_wins():
    at = Checkpoint([checkpoint(PROTOCOL, metadata(), *map(add, ("kept", "removed", "again")), remove("ghost"))])
    snapshot = replayed(
        commit(remove("removed"), remove("again"), add("new")),
        commit(add("again", size=9), remove("new"), remove("never there")),
        at=at,
    ).snapshot
    assert sorted((file.path, file.size) for file in snapshot.adds()) == [("again", 9), ("kept", 1)]
    assert (snapshot.num_files, snapshot.size) == (2, 10)


def test_paths_are_compared_as_written():
    snapshot = replayed(commit(PROTOCOL, metadata(), add("a%20b"), add("a b")), commit(remove("a b"))).snapshot
    assert paths(snapshot) == ["a%20b"]


CHANGES = {
    "first vector": [remove("f"), add("f", deletionVector=vector("one"))],
    "another vector": [remove("f", deletionVector=vector("one")), add("f", deletionVector=vector("two"))],
    "another offset": [
        remove("f", deletionVector=vector("one")),
        add("f", deletionVector=vector("one", offset=9)),
    ],
    "no vector": [remove("f", deletionVector=vector("one")), add("f")],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("order", [1, -1], ids=["remove first", "add first"])
@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_a_commit_may_change_the_vector_of_a_path_in_either_order(change, order, from_checkpoint):
    removed, added = CHANGES[change]
    before = add("f", **{key: value for key, value in removed["remove"].items() if key == "deletionVector"})
    start = [MODERN_PROTOCOL, metadata(), before]
    changed = commit(*[removed, added][::order])
    at = Checkpoint([checkpoint(*start)]) if from_checkpoint else None
    snapshot = (replayed(changed, at=at) if at else replayed(commit(*start), changed)).snapshot
    (file,) = snapshot.adds()
    expected = added["add"].get("deletionVector")
    found = file.deletion_vector and {"offset": file.deletion_vector.offset, "name": file.deletion_vector[1]}
    assert found == (expected and {"offset": expected["offset"], "name": expected["pathOrInlineDv"]})
    assert (snapshot.num_files, snapshot.num_deletion_vectors) == (1, int(expected is not None))


def test_a_remove_with_another_vector_keeps_the_file():
    snapshot = replayed(
        commit(MODERN_PROTOCOL, metadata(), add("a", deletionVector=vector("one")), add("b")),
        commit(remove("a"), remove("a", deletionVector=vector("two")), remove("b", deletionVector=vector("one"))),
    ).snapshot
    assert files(snapshot) == {"a": "one", "b": None}


@pytest.mark.parametrize("cut", range(5))
def test_checkpoint_commits_and_base_may_be_divided_at_any_version(cut):
    commits = [
        [MODERN_PROTOCOL, metadata(), add("a"), add("b", size=5)],
        [remove("a"), add("c", deletionVector=vector("one"))],
        [add("a", size=7), remove("c", deletionVector=vector("one")), add("c", deletionVector=vector("two"))],
        [remove("b"), metadata(name="renamed")],
    ]
    whole = replayed(*(commit(*actions) for actions in commits)).snapshot
    base = replayed(*(commit(*actions) for actions in commits[:cut])) if cut else None
    rest = [commit(*actions) for actions in commits[cut:]]
    rebased = replayed(*rest, base=base).snapshot
    assert list(rebased.adds()) == list(whole.adds())
    assert rebased.metadata == whole.metadata
    if base:
        actions = [MODERN_PROTOCOL, metadata(name=base.snapshot.metadata.name), *map(as_action, base.snapshot.adds())]
        for at in (Checkpoint([checkpoint(*actions)]), Checkpoint([], commit(*actions))):
            again = replayed(*rest, at=at).snapshot
            assert sorted(again.adds()) == sorted(whole.adds())
            assert (again.num_files, again.size, again.num_deletion_vectors) == (2, 8, 1)


def test_files_of_commits_come_first_sorted_by_path_and_vector():
    at = Checkpoint([checkpoint(MODERN_PROTOCOL, metadata(), add("y"), add("x"))])
    first = commit(add("c"), add("a", deletionVector=vector("two")), add("b"))
    second = commit(add("a", deletionVector=vector("one")), add("c", size=9), add("0"))
    for snapshot in (
        replayed(first, second, at=at).snapshot,
        replayed(second, base=replayed(first, at=at)).snapshot,
        replayed(second + first.replace(b'"path": "c"', b'"path": "d"') + commit(remove("d")), at=at).snapshot,
    ):
        assert [file.path for file in snapshot.adds()] == ["0", "a", "a", "b", "c", "y", "x"]
        vectors = [file.deletion_vector for file in snapshot.adds() if file.path == "a"]
        assert [each and each.path_or_inline_dv for each in vectors] == ["one", "two"]


def as_action(file: Add):
    vector_name = file.deletion_vector and vector(file.deletion_vector.path_or_inline_dv)
    return add(file.path, size=file.size, **{"deletionVector": vector_name} if vector_name else {})


def test_a_snapshot_does_not_change_when_it_is_the_base_of_a_later_one():
    base = replayed(commit(PROTOCOL, metadata(), add("a"), add("b")))
    remaining = base.snapshot.adds()
    first = next(remaining)
    later = replayed(commit(remove("a"), add("c"), metadata(name="renamed")), base=base).snapshot
    assert paths(later) == ["b", "c"]
    assert [first.path, *(file.path for file in remaining)] == ["a", "b"]
    assert (base.snapshot.metadata.name, later.metadata.name) == (None, "renamed")
    assert base.snapshot.num_files == 2


def test_a_snapshot_does_not_keep_earlier_ones_in_memory():
    gc.collect()
    before = number_alive()
    latest = replayed(commit(PROTOCOL, metadata(), add("a")))
    for number in range(5):
        latest = replayed(commit(add(str(number))), base=latest)
    gc.collect()
    assert number_alive() <= before + 1
    assert latest.snapshot.num_files == 6


def number_alive() -> int:
    return sum(isinstance(thing, ReplayState) for thing in gc.get_objects())


def test_the_files_can_be_iterated_repeatedly_and_concurrently():
    snapshot = replayed(commit(add("d")), at=Checkpoint([checkpoint(PROTOCOL, metadata(), *map(add, "abc"))])).snapshot
    one, other = snapshot.adds(), snapshot.adds()
    together = list(itertools.chain.from_iterable(zip(one, other, strict=True)))
    assert together[::2] == together[1::2] == list(snapshot.adds())


@pytest.mark.parametrize(("actions", "what"), [([metadata()], "protocol"), ([PROTOCOL], "metaData")])
@pytest.mark.parametrize("form", [from_commit, from_parquet, from_manifest])
def test_a_log_without_protocol_or_metadata_is_refused(form, actions, what):
    with pytest.raises(DamagedLogError, match=f"has no {what}"):
        form(*actions)


NO_SCHEMA = {"metaData": {"id": "1", "format": {"provider": "parquet"}}}
REPLACED = {
    "metadata without a schema": NO_SCHEMA,
    "metadata that is empty": {"metaData": {}},
    "metadata with an invalid schema": metadata(schemaString="{"),
    "a protocol without a writer version": {"protocol": {"minReaderVersion": 1}},
}


@pytest.mark.parametrize("replaced", REPLACED.values(), ids=REPLACED.keys())
@pytest.mark.parametrize("form", [from_commit, from_parquet, from_manifest])
def test_an_invalid_action_is_tolerated_after_it_was_replaced(form, replaced):
    first = [action for action in (PROTOCOL, metadata()) if action.keys() != replaced.keys()]
    with pytest.raises(DamagedLogError, match=f"{next(iter(replaced))}: "):
        form(*first, replaced, add("a"))
    start = {
        from_commit: lambda actions: (Replay(), [commit(*actions)]),
        from_parquet: lambda actions: (Replay(checkpoint=Checkpoint([checkpoint(*actions)])), []),
        from_manifest: lambda actions: (Replay(checkpoint=Checkpoint([], commit(*actions))), []),
    }
    replay, commits = start[form]([*first, replaced, add("a")])
    for each in (*commits, commit(add("c")), commit(MODERN_PROTOCOL, metadata(name="repaired"), add("b"))):
        replay.apply(each)
    snapshot = LoadedSnapshot.of(replay.result(SEGMENT)).snapshot
    assert paths(snapshot) == ["a", "b", "c"]
    assert snapshot.metadata.name == "repaired"


def test_two_different_actions_in_one_commit_are_tolerated_after_they_were_replaced():
    two = commit(PROTOCOL, metadata(name="one"), metadata(name="two"), add("a"))
    with pytest.raises(DamagedLogError, match="metaData: this commit has another one that differs"):
        replayed(two)
    assert replayed(two, commit(metadata(name="three"))).snapshot.metadata.name == "three"


def test_a_table_with_an_unknown_feature_is_refused():
    unknown = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["someday"]}
    with pytest.raises(UnsupportedOperationError, match="someday"):
        from_commit({"protocol": unknown}, metadata())


def test_a_table_that_was_upgraded_to_an_unknown_protocol_is_refused():
    base = from_commit(PROTOCOL, metadata())
    with pytest.raises(UnsupportedOperationError):
        replayed(commit({"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}), base=base)


def test_an_in_commit_timestamp_is_the_time_of_the_version():
    def at(time):
        return commit({"commitInfo": {"inCommitTimestamp": time}})

    start = commit(PROTOCOL, metadata(configuration={"delta.enableInCommitTimestamps": "true"}))
    assert replayed(start, at(5), at(6)).snapshot.timestamp == 6
    assert replayed(at(6), base=replayed(start, at(5))).snapshot.timestamp == 6


def test_an_in_commit_timestamp_may_be_read_separately():
    replay = Replay()
    replay.apply(commit(PROTOCOL, metadata(configuration={"delta.enableInCommitTimestamps": "true"})))
    assert replay.lacks_in_commit_timestamp
    assert replay.result(SEGMENT, in_commit_timestamp=9).timestamp == 9
    assert replay.result(SEGMENT).timestamp == SEGMENT.timestamp


@pytest.mark.parametrize(("action", "min_bytes"), [(add("a" * 1000, stats="x" * 10_000), 11_000), (remove("a"), 200)])
def test_the_memory_of_a_file_is_counted(action, min_bytes):
    base = from_commit(PROTOCOL, metadata())
    assert replayed(commit(action), base=base).state.memory_bytes - base.state.memory_bytes >= min_bytes
