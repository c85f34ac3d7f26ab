"""The cross-check: what it compares, and its result if `deltalake` cannot read the table."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cli.embedded.ministack import EmbeddedAws
from core.delta.cross_check import CrossCheckResult, cross_check
from core.delta.model import Add, Metadata, Protocol
from core.delta.snapshot import Snapshot
from tests.unit.delta import builder
from tests.unit.delta.builder import SCHEMA, TableInS3

FILES = ("p=x/one.parquet", "p=x/two%20words.parquet", "s3://elsewhere/three.parquet")
ADDS = [Add(path, {"p": "x"}, 10, 5, True, None) for path in FILES]
TABLE = builder.metadata(configuration={"delta.appendOnly": "true"})["metaData"]
SNAPSHOT = Snapshot(
    version=0,
    timestamp=0,
    protocol=Protocol(1, 2),
    metadata=Metadata(TABLE["id"], SCHEMA, ("p",), configuration=TABLE["configuration"]),
    num_files=len(ADDS),
    size=30,
    num_deletion_vectors=0,
    batches_after=lambda *_: iter(builder.numbered([ADDS])),
    checkpoint_id="",
    tip="",
)


@pytest.fixture(scope="module")
def table(aws: EmbeddedAws) -> TableInS3:
    table = TableInS3(aws)
    table.commit(0, builder.PROTOCOL, {"metaData": TABLE}, *(builder.add(path, size=10) for path in FILES))
    return table


def test_readers_with_the_same_result_agree(table: TableInS3) -> None:
    assert cross_check(table.storage(), SNAPSHOT) == CrossCheckResult()


def with_metadata(**changes: Any) -> Snapshot:
    return replace(SNAPSHOT, metadata=replace(SNAPSHOT.metadata, **changes))


def with_schema(change: Callable[[list[dict[str, Any]]], object]) -> Snapshot:
    schema = json.loads(SCHEMA)
    change(schema["fields"])
    return with_metadata(schema_string=json.dumps(schema))


def with_adds(*adds: Add) -> Snapshot:
    return replace(SNAPSHOT, batches_after=lambda *_: iter(builder.numbered([adds])))


@pytest.mark.parametrize(
    ("snapshot", "difference"),
    [
        (replace(SNAPSHOT, protocol=Protocol(2, 2)), "reader version: 2 here, 1 to deltalake"),
        (replace(SNAPSHOT, protocol=Protocol(1, 7)), "writer version: 7 here, 2 to deltalake"),
        (replace(SNAPSHOT, protocol=Protocol(1, 2, ("x",))), "reader features: ['x'] here, [] to deltalake"),
        (replace(SNAPSHOT, protocol=Protocol(1, 2, (), ("x",))), "writer features: ['x'] here, [] to deltalake"),
        (with_metadata(id="another"), f"table id: 'another' here, '{TABLE['id']}' to deltalake"),
        (with_metadata(partition_columns=()), "partition columns: [] here, ['p'] to deltalake"),
        (with_metadata(configuration={}), "property delta.appendOnly: None here, 'true' to deltalake"),
        (with_schema(list.reverse), "columns: ['p', 'id'] here, ['id', 'p'] to deltalake"),
        (with_adds(*ADDS[1:]), "files live only in deltalake: 1: p=x/one.parquet (10 bytes)"),
        (with_adds(*ADDS, ADDS[0]), "files live only here: 1: p=x/one.parquet (10 bytes)"),
    ],
)
def test_it_names_only_what_differs(table: TableInS3, snapshot: Snapshot, difference: str) -> None:
    assert cross_check(table.storage(), snapshot) == CrossCheckResult((difference,))


def test_a_different_column_is_shown_for_both_readers(table: TableInS3) -> None:
    snapshot = with_schema(lambda fields: fields[0].update(type="string"))
    (difference,) = cross_check(table.storage(), snapshot).disagreements
    assert difference.startswith("column id: {'name': 'id', 'type': 'string'")
    assert "'type': 'long'" in difference


def test_a_file_of_another_size_is_another_file(table: TableInS3) -> None:
    assert cross_check(table.storage(), with_adds(ADDS[0]._replace(size=11), *ADDS[1:])) == CrossCheckResult(
        (
            "files live only here: 1: p=x/one.parquet (11 bytes)",
            "files live only in deltalake: 1: p=x/one.parquet (10 bytes)",
        )
    )


def test_it_shows_a_few_of_many_different_files(table: TableInS3) -> None:
    more = [Add(f"{number}.parquet", {}, 1, 5, True, None) for number in range(1000)]
    (difference,) = cross_check(table.storage(), with_adds(*ADDS, *more)).disagreements
    assert difference.startswith("files live only here: 1000: 0.parquet (1 bytes), ")
    assert len(difference) < 200


def test_the_version_of_the_snapshot_is_compared_and_not_the_latest(aws: EmbeddedAws) -> None:
    table = TableInS3(aws)
    table.commit(0, builder.PROTOCOL, {"metaData": TABLE}, *(builder.add(path, size=10) for path in FILES))
    table.commit(1, builder.remove(FILES[0]))
    assert cross_check(table.storage(), SNAPSHOT) == CrossCheckResult()
    assert cross_check(table.storage(), replace(with_adds(*ADDS[1:]), version=1)) == CrossCheckResult()


def test_the_refusal_has_the_message_of_deltalake(aws: EmbeddedAws) -> None:
    table = TableInS3(aws)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["soon"], "writerFeatures": ["soon"]}
    table.commit(0, {"protocol": protocol}, {"metaData": TABLE})
    result = cross_check(table.storage(), SNAPSHOT)
    assert not result.disagreements
    assert result.refusal
    assert "soon" in result.refusal


def test_a_panic_is_a_refusal(table: TableInS3, monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """Like a panic in Rust."""

    def panic(*_: object, **__: object) -> None:
        raise Panic("an index is out of bounds\nwith a backtrace")

    monkeypatch.setattr("core.delta.cross_check.DeltaTable", panic)
    assert cross_check(table.storage(), SNAPSHOT) == CrossCheckResult(refusal="an index is out of bounds")


def test_unreachable_storage_raises(table: TableInS3) -> None:
    unreachable = replace(table.storage(), endpoint_url="http://127.0.0.1:1")
    with pytest.raises(OSError, match="Error performing GET"):
        cross_check(unreachable, SNAPSHOT)
