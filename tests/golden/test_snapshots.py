"""Our reader agrees with a simple log reader and with `deltalake` on every version of every golden table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from cli.embedded.ministack import EmbeddedAws
from core.delta.model import Add, Cdc, DeletionVector, FileAction, Metadata, Protocol, Remove
from core.delta.snapshot import Snapshot
from core.delta.tables import DeltaTables
from core.errors import SharingError
from core.storage.location import S3Location
from core.storage.session import StorageSession
from tests.conftest import GOLDEN_TABLES
from tests.golden.expectation import refusal
from tests.golden.folder import GoldenTable, table_parameters, tables_in
from tests.golden.plain_log import Action, BrokenLogError, State
from tests.unit.delta.builder import TableInS3

OPTIONAL_FIELDS = ("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider")


@pytest.fixture(scope="module")
def folder(aws: EmbeddedAws, golden_tables: Path) -> StorageSession:
    """Uploads all logs, without data files."""
    bucket = TableInS3(aws, prefix="golden")
    for table in tables_in(golden_tables):
        for file in (table.directory / "_delta_log").rglob("*"):
            if file.is_file():
                bucket.put(file.relative_to(golden_tables).as_posix(), file.read_bytes())
    return bucket.storage()


@pytest.fixture(params=table_parameters(GOLDEN_TABLES))
def table(request: pytest.FixtureRequest) -> GoldenTable:
    return request.param


@pytest.fixture
def storage(table: GoldenTable, folder: StorageSession) -> StorageSession:
    return replace(folder, location=S3Location(folder.location.bucket, folder.location.key(table.name)))


def expected_state(table: GoldenTable, version: int) -> State | None:
    """Returns the expected state, or None if the log is broken or the table needs an unsupported feature."""
    try:
        state = table.log.state(version)
    except BrokenLogError:
        return None
    return None if refusal(state) else state


def test_every_version_matches_the_log_or_is_refused(table: GoldenTable, storage: StorageSession) -> None:
    tables = DeltaTables()
    for version in reversed(table.log.versions):
        state = expected_state(table, version)
        if state is None:
            check_refused(tables, storage, version)
            continue
        snapshot = tables.snapshot(storage, version=version)
        assert content_of(snapshot, state) == expected_content(state)
        cross_check(table, snapshot)


def test_the_latest_version_is_the_last_one_of_the_log(table: GoldenTable, storage: StorageSession) -> None:
    latest = table.log.versions[-1]
    state = expected_state(table, latest)
    if state is None:
        check_refused(DeltaTables(), storage, None)
        return
    assert content_of(DeltaTables().snapshot(storage), state) == expected_content(state)
    assert DeltaTables().latest_version(storage) == latest


def test_commits_have_their_actions_in_the_order_of_the_log(table: GoldenTable, storage: StorageSession) -> None:
    versions = [version for version in sorted(table.log.commits) if version >= table.log.versions[0]]
    if has_broken_commits(table):
        with pytest.raises(SharingError) as refused:
            list(DeltaTables().commits(storage, versions[0], versions[-1]))
        assert refused.value.status < 500
        return
    commits = list(DeltaTables().commits(storage, versions[0], versions[-1]))
    assert [commit.version for commit in commits] == versions
    for commit in commits:
        assert list(commit.files) == file_actions(table.log.commit(commit.version))
    recorded = {version: time for version in versions if (time := in_commit_timestamp(table.log.commit(version)))}
    assert {commit.version: commit.timestamp for commit in commits if commit.version in recorded} == recorded
    file_times = [commit.timestamp for commit in commits if commit.version not in recorded]
    assert file_times == sorted(set(file_times))


def in_commit_timestamp(commit: list[Action]) -> int | None:
    return next((action["commitInfo"].get("inCommitTimestamp") for action in commit if "commitInfo" in action), None)


def has_broken_commits(table: GoldenTable) -> bool:
    """Whether a commit is missing or has an invalid action."""
    commits = table.log.commits
    metadata = [
        action["metaData"] for version in commits for action in table.log.commit(version) if "metaData" in action
    ]
    return len(commits) <= max(commits) - min(commits) or any("schemaString" not in action for action in metadata)


def check_refused(tables: DeltaTables, storage: StorageSession, version: int | None) -> None:
    with pytest.raises(SharingError) as refused:
        tables.snapshot(storage, version=version)
    assert 400 <= refused.value.status < 500
    assert "golden/" not in refused.value.message


def content_of(snapshot: Snapshot, state: State) -> dict[str, Any]:
    """Returns the content of a snapshot, without its time and without statistics that were converted to JSON."""
    adds = [as_live(add) for add in snapshot.adds()]
    files = {(add.path, add.deletion_vector and add.deletion_vector.unique_id): add for add in adds}
    assert len(files) == len(adds)
    for key, stats in state.struct_stats.items():
        assert json.loads(files[key].stats)["numRecords"] == stats["numRecords"]
        files[key] = files[key]._replace(stats=None)
    return {
        "version": snapshot.version,
        "protocol": snapshot.protocol,
        "metadata": snapshot.metadata,
        "files": files,
        "totals": (snapshot.num_files, snapshot.size, snapshot.num_deletion_vectors),
    }


def expected_content(state: State) -> dict[str, Any]:
    files = {key: as_live(add_of(added)) for key, added in state.files.items()}
    vectors = sum(add.deletion_vector is not None for add in files.values())
    return {
        "version": state.version,
        "protocol": protocol_of(state.protocol),
        "metadata": metadata_of(state.metadata),
        "files": files,
        "totals": (len(files), sum(add.size for add in files.values()), vectors),
    }


def as_live(add: Add) -> Add:
    """Clears `data_change`, which belongs to the commit: a checkpoint has false for the same file."""
    return add._replace(data_change=False)


def protocol_of(action: Action) -> Protocol:
    return Protocol(
        action["minReaderVersion"],
        action["minWriterVersion"],
        tuple(action.get("readerFeatures", ())),
        tuple(action.get("writerFeatures", ())),
    )


def metadata_of(action: Action) -> Metadata:
    return Metadata(
        id=action["id"],
        schema_string=action["schemaString"],
        partition_columns=tuple(action["partitionColumns"]),
        name=action.get("name"),
        description=action.get("description"),
        provider=action["format"]["provider"],
        options=action["format"].get("options", {}),
        configuration=action.get("configuration", {}),
        created_time=action.get("createdTime"),
    )


def vector_of(action: Action) -> DeletionVector | None:
    vector = action.get("deletionVector")
    if vector is None:
        return None
    return DeletionVector(
        vector["storageType"],
        vector["pathOrInlineDv"],
        vector.get("offset"),
        vector["sizeInBytes"],
        vector["cardinality"],
    )


def optional_fields_of(action: Action) -> dict[str, Any] | None:
    return {name: action[name] for name in OPTIONAL_FIELDS if name in action} or None


def add_of(action: Action) -> Add:
    return Add(
        action["path"],
        action["partitionValues"],
        action["size"],
        action["modificationTime"],
        action["dataChange"],
        action.get("stats"),
        vector_of(action),
        optional_fields_of(action),
    )


def file_actions(actions: list[Action]) -> list[FileAction]:
    files: list[FileAction] = []
    for action in actions:
        if added := action.get("add"):
            files.append(add_of(added))
        elif removed := action.get("remove"):
            files.append(
                Remove(
                    removed["path"],
                    removed.get("partitionValues"),
                    removed.get("size"),
                    removed.get("deletionTimestamp"),
                    removed["dataChange"],
                    removed.get("stats"),
                    vector_of(removed),
                    optional_fields_of(removed),
                )
            )
        elif changed := action.get("cdc"):
            files.append(Cdc(changed["path"], changed["partitionValues"], changed["size"], optional_fields_of(changed)))
    return files


def cross_check(table: GoldenTable, snapshot: Snapshot) -> None:
    try:
        reference = DeltaTable(table.directory, version=snapshot.version)
    except DeltaError:
        return
    adds = reference.get_add_actions()
    paths, sizes = adds.column("path").to_pylist(), adds.column("size_bytes").to_pylist()
    assert sorted(zip(paths, sizes, strict=True)) == sorted((add.path, add.size) for add in snapshot.adds())
    assert json.loads(snapshot.metadata.schema_string) == json.loads(reference.schema().to_json())
    assert list(snapshot.metadata.partition_columns) == reference.metadata().partition_columns
    assert snapshot.metadata.configuration == reference.metadata().configuration
    protocol = reference.protocol()
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (
        protocol.min_reader_version,
        protocol.min_writer_version,
    )
    assert set(snapshot.protocol.reader_features) == set(protocol.reader_features or ())
    assert set(snapshot.protocol.writer_features) == set(protocol.writer_features or ())
