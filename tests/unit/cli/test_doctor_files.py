"""How `sluice doctor` finds one file per location, and files outside the locations."""

import pytest

from cli.doctor.checks import CheckFailedError
from cli.doctor.files import live_files
from core.delta.model import Add, DeletionVector, Metadata, Protocol
from core.delta.snapshot import Snapshot
from core.storage.location import S3Location
from tests.unit.delta.builder import numbered

TABLE, ARCHIVE = S3Location("bucket", "table"), S3Location("other", "archive")


def snapshot(*adds: Add) -> Snapshot:
    batches = numbered([adds])
    return Snapshot(0, 0, Protocol(1, 2), Metadata("id", "{}"), len(adds), 0, 0, lambda *_: iter(batches), "", "")


def add(path: str, vector: DeletionVector | None = None) -> Add:
    return Add(path, {}, 1, 0, True, None, vector)


def vector(storage_type: str, path: str) -> DeletionVector:
    return DeletionVector(storage_type, path, 1, 4, 1)


def test_one_file_of_each_location_is_found_and_a_path_is_decoded_once():
    files = snapshot(add("a%2520b.parquet"), add("second.parquet"), add("s3a://other/archive/old%20one.parquet"))
    assert live_files(files, [TABLE, ARCHIVE, S3Location("bucket", "unused")]) == {
        TABLE: S3Location("bucket", "table/a%20b.parquet"),
        ARCHIVE: S3Location("other", "archive/old one.parquet"),
    }


def test_a_deletion_vector_must_be_in_a_location_of_the_table_too():
    inside = [
        add("one", vector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L")),
        add("two", vector("u", "ab^-aqEH.-t@S}K{vb[*k^")),
        add("three", vector("p", "s3://other/archive/vector.bin")),
    ]
    assert live_files(snapshot(*inside), [TABLE, ARCHIVE]) == {TABLE: S3Location("bucket", "table/one")}
    with pytest.raises(CheckFailedError, match="1, such as s3://other/archive/vector.bin"):
        live_files(snapshot(*inside), [TABLE])


def test_only_a_few_of_many_files_outside_are_named():
    outside = [add(f"s3://elsewhere/{number}") for number in range(5000)]
    with pytest.raises(CheckFailedError) as failure:
        live_files(snapshot(*outside), [TABLE, ARCHIVE])
    assert failure.value.detail == (
        "files outside of the table's locations: 5,000, such as s3://elsewhere/0, s3://elsewhere/1, s3://elsewhere/2"
    )
