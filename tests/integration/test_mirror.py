"""Copies of local tables in the embedded AWS, which follow the tables and survive a restart."""

import hashlib
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from arro3.core import Array, DataType, Table
from deltalake import DeltaTable, write_deltalake

from cli.embedded.ministack import EmbeddedAws
from cli.embedded.mirror import LOOK_SECONDS, Mirror
from cli.embedded.setup import DATA_BUCKET, s3_client
from tests.integration.test_embedded_setup import storage_credentials


class Copies:
    """A mirror, and the objects that it wrote and removed, in order."""

    def __init__(self, aws: EmbeddedAws, **options: Any) -> None:
        self.written: list[str] = []
        self.removed: list[str] = []
        self.s3 = s3_client(aws)
        self.s3.meta.events.register("before-parameter-build.s3.PutObject", self._put)
        self.s3.meta.events.register("before-parameter-build.s3.DeleteObject", self._delete)
        self.mirror = Mirror(self.s3, DATA_BUCKET, **options)

    def identities(self, location: str) -> dict[str, tuple[object, ...]]:
        """Returns what identifies each copy: its ETag and its time."""
        prefix = location.removeprefix(f"s3://{DATA_BUCKET}/")
        listed = self.s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix=prefix)["Contents"]
        return {entry["Key"]: (entry["ETag"], entry["LastModified"], entry["Size"]) for entry in listed}

    def _put(self, params, **_):
        self.written.append(params["Key"].partition("/")[2])

    def _delete(self, params, **_):
        self.removed.append(params["Key"].partition("/")[2])


@pytest.fixture
def copies(aws, functions) -> Copies:
    return Copies(aws)


@pytest.fixture
def open_copy(functions):
    """Returns a function that opens a mirrored table with the storage role."""
    credentials = storage_credentials(functions)

    def open_table(location: str) -> DeltaTable:
        return DeltaTable(
            location,
            storage_options={
                "aws_endpoint": functions["AWS_ENDPOINT_URL"],
                "aws_allow_http": "true",
                "aws_region": functions["AWS_REGION"],
                "aws_access_key_id": credentials["AccessKeyId"],
                "aws_secret_access_key": credentials["SecretAccessKey"],
                "aws_session_token": credentials["SessionToken"],
            },
        )

    return open_table


def numbers(first: int) -> Table:
    values = Array(list(range(first, first + 3)), type=DataType.int64())
    parts = Array(["a b", "é", "x"], type=DataType.string())
    return Table.from_pydict({"number": values, "part": parts})


def append(table: Path, first: int) -> None:
    write_deltalake(str(table), numbers(first), mode="append", partition_by=["part"])


def test_a_copy_has_all_files_of_the_table(copies, open_copy, tmp_path):
    table = tmp_path / "my table"
    append(table, 0)
    progress = []
    location = copies.mirror.add(table, on_copied=lambda done, total: progress.append((done, total)))
    assert location.startswith(f"s3://{DATA_BUCKET}/my-table-")
    copy = open_copy(location)
    assert copy.version() == 0
    files = {path.relative_to(table).as_posix() for path in table.rglob("*.parquet")}
    assert {name for name in copies.written if name.endswith(".parquet")} == files
    assert len(files) == 3
    assert progress[-1] == (4, 4)


def test_only_what_changed_is_copied_again(copies, open_copy, tmp_path):
    append(tmp_path, 0)
    location = copies.mirror.add(tmp_path)
    copies.written.clear()
    copies.mirror.refresh()
    assert copies.written == []
    append(tmp_path, 3)
    copies.mirror.refresh()
    assert len(copies.written) == 4
    assert open_copy(location).version() == 1


def test_commits_are_copied_in_order_after_their_files_and_the_last_checkpoint_at_the_end(copies, tmp_path):
    for version in range(3):
        append(tmp_path, version)
    DeltaTable(str(tmp_path)).create_checkpoint()
    sidecars = tmp_path / "_delta_log" / "_sidecars"
    sidecars.mkdir()
    (sidecars / "sidecar.parquet").touch()
    copies.mirror.add(tmp_path)
    log = [name for name in copies.written if name.startswith("_delta_log")]
    assert copies.written[-len(log) :] == log
    assert log == [
        "_delta_log/_sidecars/sidecar.parquet",
        *(f"_delta_log/{version:020}.json" for version in range(3)),
        "_delta_log/00000000000000000002.checkpoint.parquet",
        "_delta_log/_last_checkpoint",
    ]


def test_a_commit_made_while_the_directory_is_listed_is_copied_in_the_next_round(
    copies, open_copy, tmp_path, monkeypatch
):
    append(tmp_path, 0)
    scandir = os.scandir
    read = []

    def scandir_then_commit(directory):
        found = list(scandir(directory))
        read.append(directory)
        if len(read) == 1:
            append(tmp_path, 3)
        return found

    monkeypatch.setattr(os, "scandir", scandir_then_commit)
    location = copies.mirror.add(tmp_path)
    assert read
    assert open_copy(location).version() == 0
    copies.mirror.refresh()
    assert open_copy(location).version() == 1


def test_removed_files_are_deleted_from_the_log_first(copies, tmp_path):
    append(tmp_path, 0)
    location = copies.mirror.add(tmp_path)
    shutil.rmtree(tmp_path)
    copies.mirror.refresh()
    assert copies.removed[0] == "_delta_log/00000000000000000000.json"
    assert len(copies.removed) == 4
    prefix = location.removeprefix(f"s3://{DATA_BUCKET}/")
    assert copies.s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix=prefix)["KeyCount"] == 0


def test_the_copy_of_an_earlier_run_is_updated(copies, aws, open_copy, tmp_path):
    append(tmp_path, 0)
    append(tmp_path, 3)
    location = copies.mirror.add(tmp_path)
    shutil.rmtree(tmp_path / "_delta_log")
    append(tmp_path, 6)
    later = Copies(aws)
    assert later.mirror.add(tmp_path) == location
    assert open_copy(location).count() == 3
    assert later.removed == ["_delta_log/00000000000000000001.json"]


def test_copies_of_an_earlier_run_are_kept_with_their_identity(aws, functions, tmp_path, monkeypatch):
    table, kept = tmp_path / "table", tmp_path / "kept"
    append(table, 0)
    append(table, 3)
    first = Copies(aws, kept=kept)
    location = first.mirror.add(table)
    before = first.identities(location)
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read a file that has not changed"))
    later = Copies(aws, kept=kept)
    assert later.mirror.add(table) == location
    assert (later.written, later.removed) == ([], [])
    assert later.identities(location) == before
    assert len(before) == 8


@pytest.mark.parametrize("kept", ["missing", "damaged", "of another format"])
def test_without_a_record_of_the_earlier_run_the_contents_are_compared(aws, functions, tmp_path, kept):
    table, folder = tmp_path / "table", tmp_path / "kept"
    append(table, 0)
    first = Copies(aws, kept=folder)
    location = first.mirror.add(table)
    before = first.identities(location)
    (record,) = folder.iterdir()
    if kept == "missing":
        record.unlink()
    else:
        record.write_text("{" if kept == "damaged" else '{"format": 0, "files": {}}')
    (table / "changed").write_bytes(b"1")
    progress = []
    later = Copies(aws, kept=folder)
    later.mirror.add(table, on_copied=lambda done, total: progress.append((done, total)))
    assert later.written == ["changed"]
    assert progress[-1] == (5, 5)
    assert later.identities(location).items() > before.items()


def test_a_file_is_copied_again_even_if_size_and_modification_time_are_the_same(aws, functions, tmp_path):
    table, kept = tmp_path / "table", tmp_path / "kept"
    append(table, 0)
    file = table / "file"
    file.write_bytes(b"old")
    location = Copies(aws, kept=kept).mirror.add(table)
    status = file.stat()
    file.write_bytes(b"new")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    later = Copies(aws, kept=kept)
    later.mirror.add(table)
    assert later.written == ["file"]
    key = f"{location.removeprefix(f's3://{DATA_BUCKET}/')}/file"
    assert later.s3.get_object(Bucket=DATA_BUCKET, Key=key)["Body"].read() == b"new"


def test_a_copy_that_was_changed_behind_our_back_is_replaced(aws, functions, tmp_path):
    table, kept = tmp_path / "table", tmp_path / "kept"
    append(table, 0)
    (table / "file").write_bytes(b"content")
    location = Copies(aws, kept=kept).mirror.add(table)
    later = Copies(aws, kept=kept)
    key = f"{location.removeprefix(f's3://{DATA_BUCKET}/')}/file"
    later.s3.put_object(Bucket=DATA_BUCKET, Key=key, Body=b"changed")
    later.written.clear()
    later.mirror.add(table)
    assert later.written == ["file"]


def test_commits_after_a_replaced_one_are_copied_again_even_if_their_content_is_the_same(copies, aws, tmp_path):
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version in range(3):
        (log / f"{version:020}.json").write_text(f"commit {version}")
    copies.mirror.add(tmp_path)
    shutil.rmtree(log)
    log.mkdir()
    for version, content in enumerate(("commit 0", "changed 1", "commit 2")):
        (log / f"{version:020}.json").write_text(content)
    later = Copies(aws)
    later.mirror.add(tmp_path)
    assert later.written == [f"_delta_log/{version:020}.json" for version in (1, 2)]


def test_data_files_are_copied_in_parallel(copies, tmp_path):
    append(tmp_path, 0)
    both_run = threading.Barrier(2, timeout=60)
    data = (name for name in ("first", "second"))

    def meet(params, **_):
        if "_delta_log" not in params["Key"] and next(data, None):
            both_run.wait()

    copies.s3.meta.events.register("before-parameter-build.s3.PutObject", meet)
    copies.mirror.add(tmp_path)
    assert not both_run.broken
    assert len(copies.written) == 4


def let_log_settle(table: Path) -> None:
    """Dates the last change of the log back. A change within the last two seconds is looked at again."""
    log = table / "_delta_log"
    os.utime(log, (1_700_000_000, 1_700_000_000))


def test_a_round_without_a_commit_looks_only_at_the_directory_of_the_log(copies, tmp_path, monkeypatch):
    append(tmp_path, 0)
    let_log_settle(tmp_path)
    copies.mirror.add(tmp_path)
    copies.written.clear()
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda _: pytest.fail("listed the files"))
        copies.mirror.refresh()
    append(tmp_path, 3)
    copies.mirror.refresh()
    assert len(copies.written) == 4


def test_a_commit_right_after_the_last_look_is_not_missed(copies, tmp_path, monkeypatch):
    """The times of two changes may be the same, so a log that has just changed is looked at again."""
    append(tmp_path, 0)
    copies.mirror.add(tmp_path)
    status = (tmp_path / "_delta_log").stat()
    copies.written.clear()
    append(tmp_path, 3)
    os.utime(tmp_path / "_delta_log", ns=(status.st_atime_ns, status.st_mtime_ns))
    copies.mirror.refresh()
    assert copies.written[-1] == "_delta_log/00000000000000000001.json"


def test_files_that_change_without_a_commit_are_found_after_a_minute(aws, functions, tmp_path):
    time = 0.0
    copies = Copies(aws, now=lambda: time)
    append(tmp_path, 0)
    let_log_settle(tmp_path)
    copies.mirror.add(tmp_path)
    next(tmp_path.rglob("*.parquet")).unlink()
    time = LOOK_SECONDS - 1
    copies.mirror.refresh()
    assert copies.removed == []
    time = LOOK_SECONDS
    copies.mirror.refresh()
    assert len(copies.removed) == 1


def test_what_a_watched_table_gets_is_kept_for_the_next_run(aws, functions, tmp_path):
    table, kept = tmp_path / "table", tmp_path / "kept"
    append(table, 0)
    first = Copies(aws, kept=kept)
    location = first.mirror.add(table)
    with first.mirror.watching(poll_seconds=3600):
        append(table, 3)
        first.mirror.refresh()
    (record,) = kept.iterdir()
    files = json.loads(record.read_text())["files"]
    prefix = location.removeprefix(f"s3://{DATA_BUCKET}/")
    assert {f"{prefix}/{name}" for name in files} == set(first.identities(location))


def test_links_pipes_and_checksums_are_not_copied(copies, tmp_path):
    outside, table = tmp_path / "secret", tmp_path / "table"
    outside.mkdir()
    (outside / "file").write_text("secret")
    append(table, 0)
    (table / "link-to-directory").symlink_to(outside)
    (table / "_delta_log" / "link-to-directory").symlink_to(outside)
    (table / "link-to-file").symlink_to(outside / "file")
    (table / ".part.crc").touch()
    os.mkfifo(table / "pipe")
    copies.mirror.add(table)
    assert {Path(name).suffix for name in copies.written} == {".parquet", ".json"}


def test_a_log_that_is_a_link_is_not_copied(copies, tmp_path):
    outside, table = tmp_path / "outside", tmp_path / "table"
    append(outside, 0)
    table.mkdir()
    (table / "_delta_log").symlink_to(outside / "_delta_log")
    copies.mirror.add(table)
    assert copies.written == []


def test_a_table_that_cannot_be_read_is_retried_and_does_not_stop_the_others(copies, tmp_path, caplog, monkeypatch):
    for name in ("first", "second"):
        append(tmp_path / name, 0)
        copies.mirror.add(tmp_path / name)
        append(tmp_path / name, 3)
    scandir = os.scandir

    def one_fails(directory):
        if "first" in Path(directory).parts:
            raise PermissionError("not yours")
        return scandir(directory)

    copies.written.clear()
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", one_fails)
        copies.mirror.refresh()
    assert "not yours" in caplog.text
    assert len(copies.written) == 4
    copies.mirror.refresh()
    assert len(copies.written) == 8


def test_a_watched_table_follows_its_directory(copies, open_copy, tmp_path):
    append(tmp_path, 0)
    location = copies.mirror.add(tmp_path)
    arrived = threading.Event()
    copies.s3.meta.events.register(
        "after-call.s3.PutObject",
        lambda **_: arrived.set() if copies.written[-1].endswith("1.json") else None,
    )
    with copies.mirror.watching(poll_seconds=0.05):
        append(tmp_path, 3)
        assert arrived.wait(60)
    assert open_copy(location).version() == 1
