"""Snapshots from the files of a log segment: every form of checkpoint, in memory or on disk."""

import itertools
import os
import tempfile
import threading
from pathlib import Path

import pytest

from core.delta import reader
from core.delta.snapshot import Snapshot
from core.delta.tables import DeltaTables
from core.errors import AnswerTooLargeError, DamagedLogError, SharingError, TableFilesError
from tests.unit.delta.builder import (
    MODERN_PROTOCOL,
    PROTOCOL,
    TableInMemory,
    add,
    checkpoint,
    commit,
    compaction,
    metadata,
    name,
    paths,
    remove,
    sidecar,
    v2_name,
    vector,
)

TOP = [{"checkpointMetadata": {"version": 2}}, MODERN_PROTOCOL, metadata(name="at the checkpoint")]
SIDECARS = {
    "one.parquet": checkpoint(add("a", size=1), add("b", size=20, deletionVector=vector("v"))),
    "two.parquet": checkpoint(add("c", size=300)),
}
NAMED = [sidecar(path, content) for path, content in SIDECARS.items()]


def table_at_checkpoint(**files: bytes) -> TableInMemory:
    """A table whose log begins with the checkpoint of version 2."""
    table = TableInMemory()
    for path, content in files.items():
        table.put(path, content)
    for path, content in SIDECARS.items():
        table.put(f"_delta_log/_sidecars/{path}", content)
    table.commit(3, remove("a"), add("d", size=4000))
    return table


def read(table: TableInMemory) -> Snapshot:
    return DeltaTables().snapshot(table.storage())


def totals(snapshot: Snapshot) -> tuple[int, int, int]:
    return snapshot.num_files, snapshot.size, snapshot.num_deletion_vectors


CHECKPOINTS = {
    "JSON with sidecars": {v2_name(2, "json"): commit(*TOP, *NAMED)},
    "Parquet with sidecars": {v2_name(2, "parquet"): checkpoint(*TOP, *NAMED)},
    "classic name with sidecars": {name(2, "checkpoint.parquet"): checkpoint(*TOP, *NAMED)},
    "JSON with a sidecar and a file": {v2_name(2, "json"): commit(*TOP, NAMED[0], add("c", size=300))},
    "Parquet with a sidecar and a file": {v2_name(2, "parquet"): checkpoint(*TOP, NAMED[0], add("c", size=300))},
    "JSON alone": {
        v2_name(2, "json"): commit(
            *TOP, add("a", size=1), add("b", size=20, deletionVector=vector("v")), add("c", size=300)
        )
    },
    "parts": {
        name(2, "checkpoint.0000000001.0000000002.parquet"): SIDECARS["one.parquet"],
        name(2, "checkpoint.0000000002.0000000002.parquet"): checkpoint(add("c", size=300), *TOP),
    },
    "sidecar by its absolute path": {
        v2_name(2, "json"): commit(
            *TOP,
            NAMED[0],
            sidecar("s3://delta-tests/tables/one/_delta_log/_sidecars/two.parquet", SIDECARS["two.parquet"]),
        )
    },
}


@pytest.mark.parametrize("form", CHECKPOINTS)
@pytest.mark.parametrize("on_disk", [False, True])
def test_every_form_of_checkpoint_gives_the_same_snapshot(monkeypatch, form, on_disk):
    if on_disk:
        monkeypatch.setattr(reader, "MAX_IN_MEMORY", 0)
    table = table_at_checkpoint(**CHECKPOINTS[form])
    snapshot = read(table)
    assert paths(snapshot) == ["b", "c", "d"]
    assert totals(snapshot) == (3, 4320, 1)
    assert (snapshot.version, snapshot.metadata.name) == (3, "at the checkpoint")
    older = DeltaTables().snapshot(table.storage(), version=2)
    assert paths(older) == ["a", "b", "c"]
    assert totals(older) == (3, 321, 1)


FORMS = ["JSON with sidecars", "Parquet with sidecars", "classic name with sidecars", "parts"]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(FORMS, 2)))
def test_one_checkpoint_is_read_if_a_version_has_two(one, other):
    snapshot = read(table_at_checkpoint(**CHECKPOINTS[one], **CHECKPOINTS[other]))
    assert (paths(snapshot), totals(snapshot)) == (["b", "c", "d"], (3, 4320, 1))


def test_sidecars_are_read_in_parallel():
    together = threading.Barrier(len(SIDECARS), timeout=60)
    table = table_at_checkpoint(**CHECKPOINTS["JSON with sidecars"])
    table.s3.on_get = lambda key: together.wait() if "_sidecars" in key else None
    assert read(table).num_files == 3


@pytest.mark.parametrize(
    "path",
    [
        "s3://delta-tests/tables/another/_delta_log/_sidecars/two.parquet",
        "s3://another-bucket/tables/one/_delta_log/_sidecars/two.parquet",
        "s3://delta-tests/tables/one-more/two.parquet",
        "file:///etc/passwd",
        "/etc/passwd",
        "../../../another/_delta_log/_sidecars/two.parquet",
    ],
)
def test_a_sidecar_outside_the_table_is_refused(path):
    table = table_at_checkpoint(**{v2_name(2, "json"): commit(*TOP, sidecar(path, SIDECARS["two.parquet"]))})
    with pytest.raises(DamagedLogError, match="names a sidecar outside of the table") as raised:
        read(table)
    assert path not in raised.value.message


@pytest.mark.parametrize(
    "path",
    [
        "..%2F..%2F..%2Fanother%2F_delta_log%2F_sidecars%2Ftwo.parquet",
        "s3://delta-tests/tables/one/../another/_delta_log/_sidecars/two.parquet",
    ],
)
def test_dots_do_not_escape_the_table(path):
    table = table_at_checkpoint(**{v2_name(2, "json"): commit(*TOP, sidecar(path, SIDECARS["two.parquet"]))})
    table.s3.objects["tables/another/_delta_log/_sidecars/two.parquet"] = (SIDECARS["two.parquet"], 0)
    with pytest.raises(SharingError) as raised:
        read(table)
    assert raised.value.status == 400


def test_the_path_of_a_sidecar_is_percent_encoded():
    table = table_at_checkpoint(**{v2_name(2, "json"): commit(*TOP, sidecar("a%20b.parquet", SIDECARS["one.parquet"]))})
    table.put("_delta_log/_sidecars/a b.parquet", SIDECARS["one.parquet"])
    assert paths(read(table)) == ["b", "d"]


@pytest.mark.parametrize("missing", SIDECARS)
def test_a_missing_sidecar_is_an_error(missing):
    table = table_at_checkpoint(**CHECKPOINTS["JSON with sidecars"])
    table.delete(f"_delta_log/_sidecars/{missing}")
    with pytest.raises(TableFilesError, match="^table files missing$"):
        read(table)


def test_a_checkpoint_without_files_is_an_empty_table():
    table = table_at_checkpoint(**{v2_name(2, "json"): commit(*TOP)})
    assert paths(read(table)) == ["d"]


def test_compacted_commits_are_read_instead_of_their_originals():
    table = TableInMemory()
    table.commit(0, MODERN_PROTOCOL, metadata(), add("a"), add("b"))
    table.put(
        compaction(1, 3),
        commit(
            metadata(name="renamed"),
            remove("a"),
            remove("b"),
            add("b", deletionVector=vector("v")),
            add("c"),
        ),
    )
    table.commit(4, remove("c"), add("d"))
    snapshot = read(table)
    assert ([*paths(snapshot)], snapshot.metadata.name, snapshot.num_deletion_vectors) == (["b", "d"], "renamed", 1)


NOT_RECONCILED = {
    "a path added and removed": commit(add("b"), remove("a"), remove("b"), add("c"), add("a")),
    "a path added twice": commit(remove("a"), add("b"), remove("b"), add("c"), add("a"), add("c", size=9)),
    "two metadata actions": commit(metadata(name="old"), metadata(name="new"), remove("b"), add("c"), add("a")),
}


@pytest.fixture(params=NOT_RECONCILED.values(), ids=NOT_RECONCILED.keys())
def not_reconciled(request) -> TableInMemory:
    table = TableInMemory()
    table.commit(0, MODERN_PROTOCOL, metadata(name="first"), add("a", size=1))
    table.commit(1, remove("a"), add("b"), metadata(name="old"))
    table.commit(2, remove("b"), add("a", size=20), metadata(name="new"))
    table.commit(3, add("c", size=300))
    table.put(compaction(1, 3), request.param)
    table.commit(4, add("d", size=4000))
    return table


def test_the_commits_are_read_instead_of_a_compaction_that_is_not_reconciled(not_reconciled):
    snapshot = read(not_reconciled)
    assert (paths(snapshot), totals(snapshot)) == (["a", "c", "d"], (3, 4320, 0))
    assert snapshot.metadata.name == "new"
    keys = not_reconciled.s3.keys_read
    assert [key.rpartition("/")[2][:20] for key in keys if key.endswith("json")].count(f"{2:020d}") == 1


def test_a_compaction_that_is_not_reconciled_is_damage_if_its_commits_were_deleted(not_reconciled):
    not_reconciled.delete(name(2))
    with pytest.raises(DamagedLogError, match="the commits that it replaces are missing") as refused:
        read(not_reconciled)
    assert refused.value.file == compaction(1, 3)


@pytest.fixture
def spool(monkeypatch, tmp_path) -> Path:
    """The temporary directory, with every checkpoint too large for memory."""
    monkeypatch.setattr(reader, "MAX_IN_MEMORY", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_large_checkpoint_is_on_disk_as_long_as_its_snapshot_exists(spool):
    tables, table = DeltaTables(), table_at_checkpoint(**CHECKPOINTS["Parquet with sidecars"])
    snapshot = tables.snapshot(table.storage())
    assert open_files_in(spool) == 3
    assert list(spool.iterdir()) == []  # unlinked, so no file outlives the process
    del tables
    assert len(list(snapshot.adds())) == 3
    del snapshot
    assert open_files_in(spool) == 0


def open_files_in(folder: Path) -> int:
    links = (file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink())
    return sum(link.is_relative_to(folder) for link in links)


class FullDisk:
    """A temporary file on a full disk: `/dev/full` fails in the same way."""

    def __init__(self, *, buffering: int = -1, **_: object) -> None:
        handle, self.name = tempfile.mkstemp()  # the reader unlinks the name
        os.close(handle)
        self._file = Path("/dev/full").open("r+b", buffering)  # noqa: SIM115

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


@pytest.mark.usefixtures("spool")
def test_a_checkpoint_larger_than_the_disk_is_a_400(monkeypatch):
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", FullDisk)
    with pytest.raises(AnswerTooLargeError, match="larger than the temporary storage") as raised:
        read(table_at_checkpoint(**CHECKPOINTS["classic name with sidecars"]))
    assert raised.value.status == 400


def test_a_checkpoint_that_is_deleted_during_the_read_leaves_no_file(spool):
    table = table_at_checkpoint(**CHECKPOINTS["JSON with sidecars"])
    table.delete("_delta_log/_sidecars/two.parquet")
    with pytest.raises(TableFilesError):
        read(table)
    assert list(spool.iterdir()) == []


WITH_TIMESTAMPS = metadata(configuration={"delta.enableInCommitTimestamps": "true"})


def commit_info(time: int):
    return {"commitInfo": {"inCommitTimestamp": time}}


def test_an_in_commit_timestamp_is_the_time_of_the_snapshot():
    table = TableInMemory()
    table.commit(0, commit_info(50), PROTOCOL, WITH_TIMESTAMPS, at_ms=1000)
    table.commit(1, commit_info(60), add("a"), at_ms=2000)
    assert read(table).timestamp == 60
    assert DeltaTables().snapshot(table.storage(), version=0).timestamp == 50


def test_an_in_commit_timestamp_is_read_even_if_the_version_has_a_checkpoint():
    table = TableInMemory()
    table.commit(4, commit_info(60), add("a"), at_ms=2000)
    table.put(name(4, "checkpoint.parquet"), checkpoint(PROTOCOL, WITH_TIMESTAMPS, add("a")), at_ms=3000)
    assert read(table).timestamp == 60
    table.delete(name(4))
    assert read(table).timestamp == 3000


def test_a_checkpoint_and_ten_commits_take_thirteen_requests():
    table = TableInMemory()
    table.put(name(10, "checkpoint.parquet"), checkpoint(PROTOCOL, metadata(), add("a")))
    table.hint(10)
    for version in range(10, 21):
        table.commit(version, add(str(version)))
    assert read(table).num_files == 11
    assert len(table.requests) == 13
    assert sorted(table.requests) == ["GetObject"] * 12 + ["ListObjectsV2"]


def test_commits_and_checkpoint_are_read_in_parallel():
    table = table_at_checkpoint(**CHECKPOINTS["parts"])
    together = threading.Barrier(3, timeout=60)
    table.s3.on_get = lambda key: None if key.endswith("_last_checkpoint") else together.wait()
    assert read(table).num_files == 3
