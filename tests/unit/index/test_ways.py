"""Queries read the log or the index, whichever is faster, and one of them if the other fails."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from core.delta import source
from core.delta.tables import DeltaTables
from core.errors import DamagedLogError
from core.sharing.call import Observed
from tests.unit.delta.builder import add, checkpoint, metadata, name
from tests.unit.index.indexed_table import IndexedTable, files, schema_of
from tests.unit.sharing.shared_table import DELTA, SharedTable

pytestmark = pytest.mark.usefixtures("small_chunks")
SELECTIVE = {"predicateHints": ["id = 17"]}
FILES = 400


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file counts a thousand times, so that small tables are estimated like large ones."""
    for constant in ("LOG_FILE", "LOG_FILE_BY_PARTITION", "LOG_FILE_BY_STATISTICS", "INDEX_FILE", "OPEN_LOG_BYTE"):
        monkeypatch.setattr(source, constant, 1000 * getattr(source, constant))
    monkeypatch.setattr(source, "LOG_BATCH", 8)


class Shared(IndexedTable):
    """A shared table with a checkpoint, an index of the same version, and a commit after both."""

    def __init__(self) -> None:
        self.env = SharedTable()
        super().__init__(self.env.lake)
        self.begin(*files(0, FILES))
        top = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}]
        top.append(metadata(schemaString=schema_of(id="long", s="string", p="string")))
        self.lake.put(name(0, "checkpoint.parquet"), checkpoint(*top, *files(0, FILES)))
        self.lake.hint(0)
        self.head = self.build()
        self.lake.commit(1, add("later", size=1))
        self.env.new_process = lambda: self.reader(way=None)
        self.env.restart()

    def query(self, **body: Any) -> tuple[Observed, int, int]:
        """Returns what was observed, and the numbers of checkpoints and of chunks read, by requests."""
        self.lake.s3.keys_read.clear()
        self.dynamodb.requests.clear()
        self.env.query(DELTA, **body)
        checkpoints = sum("checkpoint.parquet" in key for key in self.lake.s3.keys_read)
        return self.env.observed, checkpoints, Counter(self.dynamodb.requests)["BatchGetItem"]


def test_a_full_listing_reads_no_chunk_and_a_selective_one_reads_no_checkpoint() -> None:
    shared = Shared()
    observed, checkpoints, chunks = shared.query(**SELECTIVE)
    assert (observed.source, observed.files_listed, checkpoints) == ("index", 2, 0)
    assert chunks > 0
    observed, checkpoints, chunks = shared.query()
    assert (observed.source, observed.files_listed, checkpoints, chunks) == ("log", FILES + 1, 1, 0)
    observed, checkpoints, _ = shared.query(**SELECTIVE)
    assert (observed.source, observed.files_listed, checkpoints) == ("index", 2, 0)


def test_a_process_holds_both_and_the_cache_counts_both() -> None:
    shared = Shared()
    shared.query(**SELECTIVE)
    shared.query()
    (cached,) = shared.env.tables.delta._cache._tables.values()
    assert cached.latest is not None
    assert cached.indexed is not None
    shared.env.tables.delta._cache._limits = replace(shared.env.tables.delta._cache._limits, memory_bytes=0)
    shared.query()
    assert (cached.latest, cached.indexed, cached.index) == (None, None, None)


def test_a_limit_reads_the_index_in_a_new_process_and_the_log_in_memory_after_that() -> None:
    shared = Shared()
    observed, checkpoints, _ = shared.query(limitHint=5)
    assert (observed.source, checkpoints) == ("index", 0)
    shared.query()
    observed, _, chunks = shared.query(limitHint=5)
    assert (observed.source, chunks) == ("log", 0)


def test_metadata_of_a_new_process_comes_from_the_index() -> None:
    shared = Shared()
    shared.lake.s3.keys_read.clear()
    shared.env.metadata(DELTA)
    assert not any("checkpoint.parquet" in key for key in shared.lake.s3.keys_read)
    with_index = shared.env.raw
    shared.env.tables = replace(shared.env.tables, delta=DeltaTables())
    shared.env.metadata(DELTA)
    assert shared.env.raw == with_index


def test_both_ways_have_the_same_first_lines_and_the_same_files() -> None:
    answers = []
    for way in source.Way:
        shared = Shared()
        shared.env.tables = replace(shared.env.tables, delta=shared.reader(way=way))
        assert shared.query()[0].source == way
        answers.append([*shared.env.raw[:2], *sorted(shared.env.raw[2:])])
    assert answers[0] == answers[1]


def test_the_index_answers_if_the_log_cannot_be_read() -> None:
    shared = Shared()
    shared.query()
    expected = sorted(shared.env.raw)
    shared.lake.put(name(0, "checkpoint.parquet"), b"PAR1 not a checkpoint PAR1")
    shared.env.restart()
    assert shared.query()[0].source == "index"
    assert sorted(shared.env.raw) == expected
    shared.remove(shared.keys("ROOT"))
    shared.env.restart()
    with pytest.raises(DamagedLogError):
        shared.query()


def test_a_failing_index_does_not_drop_the_log_in_memory() -> None:
    shared = Shared()
    shared.query()
    shared.remove(shared.keys("C"))
    observed, checkpoints, _ = shared.query(**SELECTIVE)
    assert (observed.files_listed, checkpoints) == (2, 1)  # the rest of the answer comes from the log, read again
    observed, checkpoints, _ = shared.query(**SELECTIVE)
    assert (observed.source, observed.files_listed, checkpoints) == ("log", 2, 0)
