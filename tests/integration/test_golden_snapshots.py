"""Every golden table, written by real writers: our snapshot against `deltalake` and against the log's own files."""

import json
from pathlib import Path

import boto3
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from cli.embedded.ministack import EmbeddedAws
from core.delta.tables import DeltaTables
from core.errors import SharingError
from tests.conftest import GOLDEN_TABLES
from tests.unit.delta.builder import TableInS3

pytestmark = pytest.mark.xdist_group("golden-tables")
BUCKET = "delta-tests"
NAMES = sorted(path.name for path in GOLDEN_TABLES.glob("*/"))


@pytest.fixture(scope="module")
def golden_in_s3(aws: EmbeddedAws, golden_tables: Path) -> EmbeddedAws:
    s3 = boto3.client("s3", **aws.client_arguments())
    s3.create_bucket(Bucket=BUCKET)
    for file in golden_tables.glob("*/_delta_log/**/*"):
        if file.is_file():
            key = f"golden/{file.relative_to(golden_tables).as_posix()}"
            s3.put_object(Bucket=BUCKET, Key=key, Body=file.read_bytes())
    return aws


def judged(directory: Path) -> DeltaTable | None:
    """The table as `deltalake` reads it from disk, if it does and the reader version is ours."""
    try:
        table = DeltaTable(directory)
    except DeltaError:
        return None
    return table if table.protocol().min_reader_version == 1 else None


def as_written(log: Path) -> tuple[dict, dict[str, dict]]:
    """Metadata and live files by brute force: every commit from the first on, a checkpoint where one is missing."""
    metadata: dict = {}
    files: dict[str, dict] = {}
    for version in sorted({int(file.name[:20]) for file in log.glob("[0-9]*")}):
        commit = log / f"{version:020d}.json"
        for action in commit_rows(commit) if commit.exists() else checkpoint_rows(log, version):
            metadata = action.get("metaData") or metadata
            if added := action.get("add"):
                files[added["path"]] = added
            if removed := action.get("remove"):
                files.pop(removed["path"], None)
    return metadata, files


def commit_rows(commit: Path) -> list[dict]:
    return [json.loads(line) for line in commit.read_text().splitlines() if line]


def checkpoint_rows(log: Path, version: int) -> list[dict]:
    rows = []
    for part in sorted(log.glob(f"{version:020d}.checkpoint*.parquet")):
        rows += pq.read_table(part, columns=["add", "metaData"]).to_pylist(maps_as_pydicts="strict")
    return rows


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_table_is_read_as_deltalake_reads_it_or_refused(name, golden_in_s3, golden_tables):
    storage = TableInS3(golden_in_s3, prefix=f"golden/{name}").storage()
    reference = judged(golden_tables / name)
    if reference is None:
        with pytest.raises(SharingError) as refused:
            DeltaTables().snapshot(storage)
        assert 400 <= refused.value.status < 500
        assert "golden" not in refused.value.message
        return

    snapshot = DeltaTables().snapshot(storage)

    assert snapshot.version == reference.version()
    assert DeltaTables().latest_version(storage) == reference.version()
    adds = reference.get_add_actions()
    paths, sizes = adds.column("path").to_pylist(), adds.column("size_bytes").to_pylist()
    assert sorted(zip(paths, sizes, strict=True)) == [(file.path, file.size) for file in snapshot.adds()]
    assert (snapshot.num_files, snapshot.size) == (len(paths), sum(sizes))
    assert json.loads(snapshot.metadata.schema_string) == json.loads(reference.schema().to_json())
    assert list(snapshot.metadata.partition_columns) == reference.metadata().partition_columns
    assert snapshot.metadata.id == str(reference.metadata().id)
    assert snapshot.metadata.configuration == reference.metadata().configuration
    assert snapshot.protocol.min_writer_version == reference.protocol().min_writer_version

    metadata, files = as_written(golden_tables / name / "_delta_log")
    assert snapshot.metadata.schema_string == metadata["schemaString"]
    for file in snapshot.adds():
        written = files[file.path]
        assert file.partition_values == written["partitionValues"]
        assert file.stats == written.get("stats")
        assert file.modification_time == written["modificationTime"]


def test_the_golden_tables_cover_both_what_is_read_and_what_is_refused(golden_tables):
    readable = [name for name in NAMES if judged(golden_tables / name)]
    assert len(readable) > 50
    assert len(NAMES) - len(readable) > 30
