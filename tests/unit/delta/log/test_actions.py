"""The actions of a commit: kept as written, or refused if Delta does not allow them."""

import json

import pytest

from core.delta.log.commits import parse_commit
from core.delta.log.replay import Replay
from core.delta.model import Add, Cdc, DeletionVector, Metadata, Protocol, Remove
from core.errors import MalformedRequestError
from tests.unit.delta.builder import MODERN_PROTOCOL, PROTOCOL, SCHEMA, add, commit, metadata, remove, vector

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
def test_a_damaged_commit_is_a_malformed_request(damaged):
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
    with pytest.raises(MalformedRequestError, match="not a valid Delta action"):
        parsed(commit({"cdc": cdc}))


def check_refused(content: bytes) -> None:
    """Checks reads of snapshots and of ranges."""
    for read in (Replay().apply, parsed):
        with pytest.raises(MalformedRequestError, match="not a valid Delta action"):
            read(content)


def test_identical_duplicates_of_metadata_in_a_commit_are_accepted():
    assert parsed(commit(metadata(), metadata(), PROTOCOL, PROTOCOL)).metadata
