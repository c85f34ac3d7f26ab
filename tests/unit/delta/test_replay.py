import pytest

from core.delta.actions import checkpoint_actions, commit_actions
from core.delta.log import LogSegment
from core.delta.replay import Replay
from core.delta.snapshot import Add
from core.errors import MalformedRequestError, UnsupportedOperationError
from tests.unit.delta.builder import PROTOCOL, SCHEMA, add, checkpoint, commit, metadata, remove

SEGMENT = LogSegment(version=7, timestamp=70, checkpoint=(), commits=())
STATS = '{ "numRecords":1, "minValues":{"id":1.0}, "text":"é\\u0041" }'


def replayed(*files: bytes):
    replay = Replay()
    for file in files:
        replay.apply(checkpoint_actions(file) if file.startswith(b"PAR1") else commit_actions(file))
    return replay.snapshot(SEGMENT)


@pytest.mark.parametrize("form", [commit, checkpoint], ids=["commit", "checkpoint"])
def test_a_file_is_handed_out_as_the_log_wrote_it(form):
    actions = [
        add("p=a%20b/1.parquet", size=2**40, p="a b", stats=STATS),
        add("2.parquet", p=None),
        add("3", p=""),
    ]
    snapshot = replayed(form(PROTOCOL, metadata(), *actions))
    assert list(snapshot.adds()) == [
        Add("2.parquet", {"p": None}, 1, 5, None),
        Add("3", {"p": ""}, 1, 5, None),
        Add("p=a%20b/1.parquet", {"p": "a b"}, 2**40, 5, STATS),
    ]
    assert (snapshot.num_files, snapshot.size) == (3, 2**40 + 2)
    assert (snapshot.version, snapshot.timestamp) == (7, 70)


@pytest.mark.parametrize("form", [commit, checkpoint], ids=["commit", "checkpoint"])
def test_metadata_and_protocol_are_handed_out_as_the_log_wrote_them(form):
    snapshot = replayed(form(PROTOCOL, metadata(name="trips", configuration={"a.b": "c"})))
    assert snapshot.metadata.schema_string == SCHEMA
    assert snapshot.metadata.id == "11111111-2222-3333-4444-555555555555"
    assert snapshot.metadata.name == "trips"
    assert snapshot.metadata.description is None
    assert snapshot.metadata.partition_columns == ("p",)
    assert snapshot.metadata.provider == "parquet"
    assert snapshot.metadata.configuration == {"a.b": "c"}
    assert snapshot.metadata.created_time == 1700000000000
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 2)


def test_the_newest_action_of_a_path_wins():
    snapshot = replayed(
        checkpoint(PROTOCOL, metadata(), add("kept"), add("removed"), add("again", size=1), remove("ghost")),
        commit(remove("removed"), remove("again"), add("new")),
        commit(add("again", size=9), remove("new")),
    )
    assert [(file.path, file.size) for file in snapshot.adds()] == [("again", 9), ("kept", 1)]


def test_a_path_is_the_same_only_if_it_is_written_the_same():
    snapshot = replayed(commit(PROTOCOL, metadata(), add("a%20b"), add("a b")), commit(remove("a b")))
    assert [file.path for file in snapshot.adds()] == ["a%20b"]


def test_files_come_in_one_order_however_the_log_came_to_them():
    one = replayed(commit(PROTOCOL, metadata(), add("b"), add("a"), add("c")))
    other = replayed(checkpoint(PROTOCOL, metadata(), add("c"), add("a")), commit(add("b")))
    assert list(one.adds()) == list(other.adds()) == list(one.adds())


def test_a_snapshot_is_the_base_of_a_later_one_and_stays_as_it_was():
    base = replayed(commit(PROTOCOL, metadata(), add("a"), add("b")))
    later = Replay(base)
    later.apply(commit_actions(commit(remove("a"), add("c"), metadata(name="renamed"))))
    snapshot = later.snapshot(SEGMENT)
    assert [file.path for file in snapshot.adds()] == ["b", "c"]
    assert [file.path for file in base.adds()] == ["a", "b"]
    assert (base.metadata.name, snapshot.metadata.name) == (None, "renamed")


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"add":{"path":"a"',
        b'{"add":{"path":"a"}}',
        b'{"add":"a"}',
        b'{"remove":{}}',
        b'["add"]',
        b"7",
        b'{"metaData":{"id":"x"}}',
        b'{"protocol":{}}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_commit_is_the_tables_fault_and_no_failure_of_ours(damaged):
    with pytest.raises(MalformedRequestError, match="not a valid Delta action"):
        replayed(commit(PROTOCOL, metadata()), damaged)


@pytest.mark.parametrize("damage", [lambda _: b"PAR1", lambda file: file[:200], lambda file: file[:-60] + file[-30:]])
def test_a_damaged_checkpoint_is_the_tables_fault_and_no_failure_of_ours(damage):
    with pytest.raises(MalformedRequestError, match="checkpoint of the table's transaction log is damaged"):
        replayed(damage(checkpoint(PROTOCOL, metadata(), add("a"))))


def test_blank_lines_and_unknown_actions_are_passed_over():
    snapshot = replayed(b"\n" + commit(PROTOCOL, {"newAction": {"x": 1}}) + b"\r\n  \n" + commit(metadata()))
    assert snapshot.num_files == 0


@pytest.mark.parametrize(("actions", "what"), [([metadata()], "protocol"), ([PROTOCOL], "metadata")])
def test_a_log_without_protocol_or_metadata_is_refused(actions, what):
    with pytest.raises(MalformedRequestError, match=f"has no {what}"):
        replayed(commit(*actions))


@pytest.mark.parametrize(
    ("protocol", "named"),
    [
        ({"minReaderVersion": 2, "minWriterVersion": 5}, "reader version 2, which"),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors", "x"]},
            r"reader version 3 \(deletionVectors, x\), which",
        ),
        ({"minReaderVersion": 0, "minWriterVersion": 0}, "reader version 0, which"),
    ],
)
def test_a_table_of_another_reader_version_is_refused_by_name(protocol, named):
    with pytest.raises(UnsupportedOperationError, match=named):
        replayed(commit({"protocol": protocol}, metadata()))


@pytest.mark.parametrize(
    "path", ["s3://bucket/key.parquet", "S3A://b/k", "file:///x", "file:/x", "abfss://c@a/x", "/tmp/x.parquet"]
)
def test_a_live_absolute_path_cannot_be_shared(path):
    with pytest.raises(UnsupportedOperationError) as raised:
        replayed(commit(PROTOCOL, metadata(), add(path)))
    assert raised.value.message == "Table contains absolute paths and cannot be shared through delta sharing"


def test_an_absolute_path_that_was_removed_does_no_harm():
    assert replayed(commit(PROTOCOL, metadata(), add("s3://b/k")), commit(remove("s3://b/k"))).num_files == 0


def test_a_path_that_decodes_to_no_text_is_refused():
    with pytest.raises(MalformedRequestError, match="not valid UTF-8"):
        replayed(commit(PROTOCOL, metadata(), add("a%FF.parquet")))


@pytest.mark.parametrize(
    "action",
    [
        {"add": {**add("a")["add"], "size": None}},
        {"add": {**add("a")["add"], "size": "5"}},
        {"add": {**add("a")["add"], "size": True}},
        {"add": {**add("a")["add"], "path": 5}},
        {"add": {**add("a")["add"], "path": None}},
        {"add": {**add("a")["add"], "modificationTime": None}},
        {"add": {**add("a")["add"], "stats": {}}},
        {"add": {**add("a")["add"], "partitionValues": ["p"]}},
        {"add": {**add("a")["add"], "partitionValues": {"p": {}}}},
        {"remove": {"path": 5}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [5]}},
        {"protocol": {"minReaderVersion": "1", "minWriterVersion": 2}},
        {"metaData": {**metadata()["metaData"], "partitionColumns": "p"}},
        {"metaData": {**metadata()["metaData"], "schemaString": None}},
    ],
)
def test_an_action_of_the_wrong_types_is_a_400_from_the_first_read_on(action):
    with pytest.raises(MalformedRequestError, match="not a valid Delta action"):
        replayed(commit(PROTOCOL, metadata(), action))
