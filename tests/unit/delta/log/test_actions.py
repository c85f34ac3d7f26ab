"""The actions of a commit: kept as written, or refused if Delta does not allow them."""

import json

import pytest

from core.delta.log.commits import parse_commit
from core.delta.model import Add, Cdc, DeletionVector, Metadata, Protocol, Remove
from core.delta.tables import DeltaTables
from core.errors import DamagedLogError
from tests.unit.delta.builder import (
    MODERN_PROTOCOL,
    PROTOCOL,
    SCHEMA,
    TableInMemory,
    add,
    checkpoint,
    commit,
    metadata,
    name,
    remove,
    vector,
)

STATS = '{ "numRecords":1, "minValues":{"id":1.0}, "text":"é\\u0041" }'
VECTOR = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 2)
MORE = {
    "tags": {"INSERTION_TIME": "1", "none": None},
    "baseRowId": 2**40,
    "defaultRowCommitVersion": 3,
    "clusteringProvider": "liquid",
}


def parsed(content: bytes):
    return parse_commit(content, 7, 70)


def with_fields(action, **changes):
    (kind, fields), *_ = action.items()
    return {kind: fields | changes}


def without(action, field: str):
    (kind, fields), *_ = action.items()
    return {kind: {name: value for name, value in fields.items() if name != field}}


def test_files_are_kept_as_written_and_in_order():
    vector_fields = vector(VECTOR.path_or_inline_dv, offset=4)
    actions = [
        remove("a", partitionValues={"p": None}, size=2, stats=STATS, deletionVector=vector_fields, **MORE),
        add("p=a%20b/1.parquet", size=2**40, p="a b", stats=STATS, deletionVector=vector_fields, **MORE),
        remove("b", dataChange=False),
        add("c", p=None, dataChange=False),
        {"cdc": {"path": "_change_data/d", "partitionValues": {"p": ""}, "size": 9, "dataChange": False, "tags": {}}},
    ]
    assert parsed(commit(*actions)).files == (
        Remove("a", {"p": None}, 2, 1, True, STATS, VECTOR, MORE),
        Add("p=a%20b/1.parquet", {"p": "a b"}, 2**40, 5, True, STATS, VECTOR, MORE),
        Remove("b", None, None, 1, False, None),
        Add("c", {"p": None}, 1, 5, False, None),
        Cdc("_change_data/d", {"p": ""}, 9, {"tags": {}}),
    )


def test_protocol_and_metadata_are_kept_as_written():
    fields = {
        "name": "trips",
        "description": "é",
        "format": {"provider": "parquet", "options": {"a": "b"}},
        "configuration": {"a.b": "c", "unset": None},
    }
    result = parsed(commit(MODERN_PROTOCOL, metadata(**fields)))
    assert result.protocol == Protocol(3, 7, ("deletionVectors", "v2Checkpoint"), ("deletionVectors", "v2Checkpoint"))
    assert result.metadata == Metadata(
        id="11111111-2222-3333-4444-555555555555",
        schema_string=SCHEMA,
        partition_columns=("p",),
        name="trips",
        description="é",
        provider="parquet",
        options={"a": "b"},
        configuration={"a.b": "c"},
        created_time=1700000000000,
    )


@pytest.mark.parametrize("field", ["name", "description", "configuration", "createdTime", "partitionColumns"])
@pytest.mark.parametrize("change", [without, lambda action, field: with_fields(action, **{field: None})])
def test_metadata_may_lack_optional_fields(field, change):
    assert parsed(commit(change(metadata(), field))).metadata


def test_a_vector_is_identified_by_its_storage_path_and_offset():
    assert VECTOR.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert VECTOR._replace(storage_type="i", offset=None).unique_id == "iab^-aqEH.-t@S}K{vb[*k^"


def test_blank_lines_and_unknown_actions_are_ignored():
    content = b"\n" + commit(PROTOCOL, {"newAction": {"x": 1}}, {"txn": {"appId": "a", "version": 1}}) + b"\r\n  \n"
    assert parsed(content + commit(metadata())).metadata


def test_the_last_of_two_duplicate_keys_counts():
    line = json.dumps(add("a")).replace('"path": "a"', '"path": "a", "path": "b"')
    assert [file.path for file in parsed(line.encode()).files] == ["b"]


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"add":{"path":"a"',
        b'{"add":{"path":"a"}}',
        b'{"add":"a"}',
        b'{"remove":{}}',
        b'{"remove":[]}',
        b'["add"]',
        b"7",
        b"null",
        b'{"metaData":{"id":"x"}}',
        b'{"metaData":[]}',
        b'{"protocol":{}}',
        b'{"protocol":1}',
        b'{"commitInfo":1}',
        b'{"commitInfo":{"inCommitTimestamp":"1"}}',
        b"\xff\xfe",
        b'{"add":"\xff"}',
        b'{"add":"\\ud800"}',
        b'{"add":' * 2000 + b"1" + b"}" * 2000,
        b"PAR1",
        commit(add("a"))[:-3],
        commit(with_fields(add("a"), size=10**30)),
        commit(metadata(), metadata(name="another")),
        commit(PROTOCOL, MODERN_PROTOCOL),
    ],
)
def test_a_damaged_commit_is_refused_by_every_read(damaged):
    check_refused(damaged)


@pytest.mark.parametrize(
    "action",
    [
        *(with_fields(add("a"), size=size) for size in (None, "5", True, 1.5)),
        *(with_fields(add("a"), path=path) for path in (5, None, "", ["a"])),
        *(with_fields(add("a"), modificationTime=time) for time in (None, "5")),
        *(with_fields(add("a"), stats=stats) for stats in ({}, 5)),
        *(with_fields(add("a"), partitionValues=values) for values in (["p"], {"p": {}}, {"p": 5}, "p")),
        *(with_fields(add("a"), dataChange=change) for change in (None, "true", 1)),
        *(with_fields(add("a"), deletionVector=value) for value in (5, [], {}, "u")),
        without(add("a"), "partitionValues"),
        without(add("a"), "size"),
        with_fields(add("a"), deletionVector=vector("x") | {"cardinality": "2"}),
        with_fields(add("a"), deletionVector=vector("x") | {"offset": "2"}),
        with_fields(add("a"), deletionVector=vector("x") | {"storageType": None}),
        with_fields(remove("a"), path=5),
        with_fields(remove("a"), size="1"),
        with_fields(remove("a"), deletionTimestamp="1"),
        with_fields(remove("a"), partitionValues={"p": 5}),
        with_fields(MODERN_PROTOCOL, readerFeatures=[5]),
        with_fields(MODERN_PROTOCOL, readerFeatures="deletionVectors"),
        with_fields(PROTOCOL, minReaderVersion="1"),
        metadata(partitionColumns="p"),
        metadata(schemaString=None),
        metadata(schemaString="{"),
        metadata(schemaString="[]"),
        metadata(schemaString='{"type":"struct"}'),
        metadata(schemaString='{"type":"struct","fields":[{"name":5,"type":"long"}]}'),
        metadata(schemaString='{"type":"struct","fields":[{"name":"a","type":5}]}'),
        metadata(schemaString='{"type":"struct","fields":["a"]}'),
        metadata(format=None),
        metadata(format={}),
        metadata(configuration={"a": [5]}),
        metadata(schemaString='{"fields":[{"name":"a","type":"long","metadata":5}]}'),
        metadata(
            schemaString='{"fields":[{"name":"a","type":"long","metadata":{"delta.columnMapping.physicalName":[]}}]}'
        ),
        metadata(id=None),
        metadata(createdTime="1"),
    ],
)
def test_an_action_of_the_wrong_types_is_refused_by_every_read(action):
    check_refused(commit(action))


@pytest.mark.parametrize(
    "cdc",
    [{}, {"path": "a", "partitionValues": {}}, {"path": "a", "size": 1}, {"path": 1, "partitionValues": {}, "size": 1}],
)
def test_a_change_file_of_the_wrong_types_is_refused_when_changes_are_read(cdc):
    with pytest.raises(DamagedLogError, match="^_delta_log/00000000000000000007.json, line 1: cdc: path is"):
        parsed(commit({"cdc": cdc | {"path": 5}}))
    with pytest.raises(DamagedLogError):
        parsed(commit({"cdc": cdc}))


def check_refused(content: bytes) -> None:
    """Checks reads of snapshots and of ranges."""
    table = TableInMemory()
    table.commit(6, MODERN_PROTOCOL, metadata())
    table.put(name(6, "checkpoint.parquet"), checkpoint(MODERN_PROTOCOL, metadata()))
    table.put(name(7), content)
    for read in (lambda: DeltaTables().snapshot(table.storage()), lambda: parsed(content)):
        with pytest.raises(DamagedLogError) as refused:
            read()
        assert (refused.value.file, refused.value.line) == (name(7), len(content.splitlines()))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (commit(add("a"))[:-3], "not valid JSON (unexpected end of data, column 106)"),
        (b"[]", "the line is an array, not an object"),
        (commit(without(add("a"), "size")), "add: size is missing"),
        (commit(add("a", modificationTime="5")), "add: modificationTime is a string, not an integer"),
        (commit(add("a", size=-1)), "add: size is out of range"),
        (commit(add("a", p=5)), "add: a partition value is an integer, not a string"),
        (commit({"remove": "a"}), "remove: the action is a string, not an object"),
        (commit(without(metadata(), "schemaString")), "metaData: schemaString is missing"),
        (
            commit(metadata(schemaString='{"type":')),
            "metaData: schemaString: not valid JSON (unexpected end of data, column 9)",
        ),
        (commit(metadata(configuration={"a": [5]})), "metaData: a value of configuration is an array, not a string"),
        (commit({"protocol": {"minReaderVersion": 1}}), "protocol: minWriterVersion is missing"),
        (
            commit({"commitInfo": {"inCommitTimestamp": "1"}}),
            "commitInfo: inCommitTimestamp is a string, not an integer",
        ),
    ],
)
def test_a_damaged_line_is_named_with_what_is_wrong(line, what):
    with pytest.raises(DamagedLogError) as refused:
        parsed(commit(add("x")) + b"\n" + line)
    assert refused.value.problem == str(refused.value) == f"{name(7)}, line 3: {what}"


def test_the_recipients_text_of_a_damaged_log_names_no_file():
    with pytest.raises(DamagedLogError) as refused:
        parsed(b"{")
    assert (refused.value.status, refused.value.code) == (400, "TABLE_UNREADABLE")
    assert refused.value.message == (
        "The table cannot be read because its transaction log is damaged. Please contact the provider of the table."
    )


def test_identical_duplicates_of_metadata_in_a_commit_are_accepted():
    assert parsed(commit(metadata(), metadata(), PROTOCOL, PROTOCOL)).metadata
