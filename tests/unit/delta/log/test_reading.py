"""Checkpoints read from a position on: the same files as from the start, and only the row groups that hold them."""

import tempfile
import threading
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.delta.log import checkpoint as checkpoint_module
from core.delta.log import reading
from core.delta.log.checkpoint import Checkpoint
from core.delta.log.footer import RowGroups
from core.delta.log.parquet import CheckpointFile, ParquetFile
from core.delta.log.rows import FileRows
from tests.unit.delta.builder import MODERN_PROTOCOL, Action, add, checkpoint, commit, metadata, parquet, remove

TOP = [MODERN_PROTOCOL, metadata()]
FILES = [add(f"{number:03d}", size=number, stats='{"numRecords":1}') for number in range(100)]
PATHS = [file["add"]["path"] for file in FILES]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_module, "DECODED_BYTES", 0)
    monkeypatch.setattr(checkpoint_module, "BATCH_ROWS", 8)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of files of the batches that are decoded."""
    batches: list[int] = []
    original = FileRows.check

    def check(self: FileRows) -> None:
        batches.append(self.num_files)
        original(self)

    monkeypatch.setattr(FileRows, "check", check)
    return batches


def grouped(*actions: Action, rows: int = 10, **options: Any) -> bytes:
    """A checkpoint with row groups of `rows` rows."""
    return parquet(pq.read_table(BytesIO(checkpoint(*actions))), row_group_size=rows, **options)


def paths_after(read: Checkpoint, number: int) -> list[str]:
    paths = []
    for before, batch in read.batches(None, number):
        paths += batch.paths[max(number - before, 0) :]
    return paths


SHAPES: dict[str, tuple[list[ParquetFile], bytes]] = {
    "one row group": ([checkpoint(*TOP, *FILES)], b""),
    "row groups": ([grouped(*TOP, *FILES)], b""),
    "row groups smaller than a batch": ([grouped(*TOP, *FILES, rows=3)], b""),
    "rows of other actions": (
        [grouped(*TOP, *FILES[:50], *[remove(f"x{number}") for number in range(30)], *FILES[50:])],
        b"",
    ),
    "parts": ([grouped(*TOP, *FILES[:33]), checkpoint(), grouped(*FILES[33:80]), checkpoint(*FILES[80:])], b""),
    "a manifest": ([grouped(*FILES[7:60]), grouped(*FILES[60:])], commit(*TOP, *FILES[:7])),
    "a page index": ([grouped(*TOP, *FILES, write_page_index=True, data_page_version="2.0")], b""),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_from_any_position_yields_the_remaining_files(shape: str) -> None:
    read = Checkpoint(*SHAPES[shape])
    for number in range(len(PATHS) + 2):
        assert paths_after(read, number) == PATHS[number:]
        assert paths_after(Checkpoint(*SHAPES[shape]), number) == PATHS[number:]


def test_a_file_on_disk_is_read_like_one_in_memory() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(grouped(*TOP, *FILES))
        read = Checkpoint([file])
        size = file.seek(0, 2)
        for number in (0, 1, 50, 99, 100):
            assert paths_after(read, number) == PATHS[number:]
        assert file.seek(0, 2) == size


def test_the_same_types_are_decoded_from_any_row_group() -> None:
    """The Arrow schema in the metadata of the file says how columns are decoded."""
    table = pa.table({"add": pa.array([file["add"] | {"partitionValues": []} for file in FILES])})
    table = table.cast(
        pa.schema([pa.field("add", pa.struct([_large(field) for field in table.schema.field("add").type]))])
    )
    file = CheckpointFile(parquet(table, row_group_size=10), "")
    (whole, *_), (part, *_) = file.batches(8), file.batches(8, 5)
    assert whole.schema == part.schema
    assert "LargeUtf8" in repr(whole.schema)


def _large(field: pa.Field) -> pa.Field:
    return pa.field(field.name, pa.large_string()) if field.type == pa.string() else field


def test_a_page_decodes_only_the_row_groups_of_its_files(decoded: list[int]) -> None:
    read = Checkpoint([grouped(*TOP, *FILES, rows=10)])
    for number in (0, 35, 50, 91):
        decoded.clear()
        next(read.batches(None, number))
        assert sum(decoded) <= 10


def test_an_unusual_footer_is_read_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: RowGroups, file: object) -> None:
        raise ValueError

    monkeypatch.setattr(RowGroups, "__init__", refuse)
    assert paths_after(Checkpoint([grouped(*TOP, *FILES)]), 60) == PATHS[60:]


def page(read: Checkpoint, number: int, size: int) -> list[str]:
    """The files of a page, read like an answer does: it stops after its last file."""
    paths: list[str] = []
    for before, batch in read.batches(None, number):
        paths += batch.paths[max(number - before, 0) :]
        if len(paths) > size:
            break
    return paths[:size]


def test_pages_of_one_row_group_continue_where_the_last_one_stopped(decoded: list[int]) -> None:
    read = Checkpoint([checkpoint(*TOP, *FILES)])
    pages = [page(read, number, 10) for number in range(0, 100, 10)]
    assert [path for each in pages for path in each] == PATHS
    # Each file is decoded once. A batch without progress since a skip point is not kept, so the first may repeat.
    assert sum(decoded) <= len(PATHS) + 2 * 8


def test_two_chains_of_pages_continue_side_by_side(decoded: list[int]) -> None:
    read = Checkpoint([checkpoint(*TOP, *FILES)])
    chains: list[list[str]] = [[], []]
    for number in range(0, 100, 10):
        for chain in chains:
            chain.extend(page(read, number, 10))
    assert chains == [PATHS, PATHS]
    assert sum(decoded) <= 2 * (len(PATHS) + 2 * 8)


def test_a_page_that_is_requested_again_is_the_same() -> None:
    read = Checkpoint([checkpoint(*TOP, *FILES)])
    for number in (0, 40, 40, 20, 60, 41, 60):
        assert page(read, number, 10) == PATHS[number : number + 10]


def test_readings_of_abandoned_answers_are_few_and_end_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(reading.PausedReadings, "__init__", _with_clock(lambda: now))
    read = Checkpoint([checkpoint(*TOP, *FILES)])
    own = read.memory_bytes
    page(read, 30, 10)
    one = read.memory_bytes - own
    assert one > reading.READER_BYTES
    for number in (10, 50, 70, 30):
        batches = read.batches(None, number)
        next(batches)
        del batches
    assert one <= read.memory_bytes - own <= reading.MAX_PAUSED * one * 1.5
    now += reading.IDLE_SECONDS
    page(read, 0, 1)
    assert read.memory_bytes == own


def _with_clock(now: Any) -> Any:
    original = reading.PausedReadings.__init__
    return lambda self: original(self, now)


def test_a_reading_that_fails_is_not_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Checkpoint([checkpoint(*TOP, *FILES)])
    original = FileRows.of.__func__  # type: ignore[attr-defined]
    page(read, 40, 10)

    def failing(*_: object) -> FileRows:
        raise OSError

    monkeypatch.setattr(FileRows, "of", failing)
    with pytest.raises(Exception, match="cannot be decoded"):
        paths_after(read, 50)
    monkeypatch.setattr(FileRows, "of", classmethod(original))
    assert paths_after(read, 50) == PATHS[50:]


def test_threads_share_a_checkpoint() -> None:
    read = Checkpoint([checkpoint(*TOP, *FILES)])
    results: list[list[str]] = []

    def chain(size: int) -> None:
        results.append([path for number in range(0, 100, size) for path in page(read, number, size)])

    threads = [threading.Thread(target=chain, args=(size,)) for size in (7, 10, 10, 13, 25) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [PATHS] * 20


def test_groups_of_no_rows_are_skipped() -> None:
    empty = pq.read_table(BytesIO(checkpoint(*FILES[:1]))).slice(0, 0)
    sink = BytesIO()
    with pq.ParquetWriter(sink, empty.schema) as writer:
        for part in _parts():
            writer.write_table(pq.read_table(BytesIO(part)))
            writer.write_table(empty)
    read = Checkpoint([sink.getvalue()])
    assert [paths_after(read, number) for number in (0, 15, 99)] == [PATHS, PATHS[15:], PATHS[99:]]


def _parts() -> Iterator[bytes]:
    for first in range(0, 100, 20):
        yield checkpoint(*FILES[first : first + 20])
