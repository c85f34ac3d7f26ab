"""An index never changes an answer, whatever its age and state. Tested on random tables at random times."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.api.requests.query import QueryRequest
from core.delta.index import UnusableIndexError
from core.delta.log.batch import FileBatch
from core.delta.snapshot import Snapshot
from core.delta.source import Way
from core.delta.tables import DeltaTables
from core.index.layout.items import table_of
from core.index.read import store
from core.index.read.indexes import StoredIndexes
from core.index.read.store import IndexStore
from core.index.write import packing
from core.index.write.version_build import IndexTable, build_incrementally, live_index
from core.index.write.writer import IndexWriter
from core.sharing.answers import delta_answer
from core.sharing.answers.file_lines import delta_files, file_lines
from core.sharing.call import Observed
from core.sharing.selection import Selection
from core.storage.objects import TableObjects
from pipeline.local_build import build_locally
from tests.examples import examples
from tests.memory_dynamodb import MemoryDynamoDB, error
from tests.property.delta_history import STEPS, History, Step, stats_text
from tests.unit.delta.builder import TableInMemory, add, remove

HINTS = [
    "id > 5",
    "id = 3",
    "s = ''",
    "p = 'x'",
    "p IS NULL",
    "p = 'x' AND id < 4",
    "s > 'a' OR p = 'ü b'",
    "id IS NULL",
]

FAULTS: dict[str, Callable[["Indexed"], object]] = {
    "a damaged chunk": lambda env: damage(env.chunks[-1]),
    "a missing chunk": lambda env: env.remove(lambda pk: pk == env.chunks[-1]["pk"]["S"]),
    "missing chunks": lambda env: env.remove(lambda pk: "#C" in pk),
    "missing buckets": lambda env: env.remove(lambda pk: "#K" in pk),
    "a missing root": lambda env: env.remove(lambda pk: pk.endswith("#ROOT")),
    "a damaged root": lambda env: [damage(item) for (pk, _), item in env.dynamodb.items.items() if "#ROOT" in pk],
    "no items": lambda env: env.dynamodb.items.clear(),
    "throttled reads": lambda env: setattr(env.dynamodb, "before", throttle),
    "unprocessed keys": lambda env: setattr(env.dynamodb, "unprocessed", lambda _: True),
    "a replaced commit": lambda env: env.table.commit(1, add("other.parquet")),
}


class Indexed:
    """A table in memory with its index, and a process that reads both during the whole test."""

    def __init__(self) -> None:
        self.table = TableInMemory()
        self.dynamodb = MemoryDynamoDB()
        client = cast("Any", self.dynamodb)
        self.indexes = IndexTable(
            IndexStore(client, "index", sleep=lambda _: None), IndexWriter(client, "index", sleep=lambda _: None)
        )
        self.warm = self.reader()

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return [item for (pk, _), item in self.dynamodb.items.items() if "#C" in pk]

    def remove(self, is_removed: Callable[[str], bool]) -> None:
        for key in [key for key in self.dynamodb.items if is_removed(key[0])]:
            del self.dynamodb.items[key]

    def reader(self) -> DeltaTables:
        ticks = iter(range(0, 10**9, 20))
        return DeltaTables(index=StoredIndexes(self.indexes.store, now=lambda: float(next(ticks))), way=Way.INDEX)

    def build(self, *, full: bool) -> None:
        opened = TableObjects(cast("Any", self.table.objects()), self.table.location)
        live = self.indexes.live(table_of(opened.location.uri))
        older = None if full or live is None else live_index(self.indexes, opened, live)
        if older is None or build_incrementally(self.indexes, opened, older) is None:
            build_locally(self.indexes, opened, live.build if live else None)


def throttle(_: str) -> None:
    raise error("ProvisionedThroughputExceededException", 400)


def lines(snapshot: Snapshot, hint: str | None = None, limit: int | None = None) -> list[bytes]:
    """The file lines of an answer in delta format, sorted."""
    selection = Selection.of(QueryRequest(predicate_hints=(hint,) if hint else (), limit_hint=limit), snapshot.metadata)
    kept = selection.kept(snapshot.batches_after(selection.predicate, 0), Observed())
    return sorted(line for each in kept for line in _lines(each.files))


def _lines(files: FileBatch) -> Iterator[bytes]:
    paths = list(files.paths)
    vectors = [vector and vector._asdict() for vector in files.deletion_vectors]
    fields = files.add_fields(delta_answer.FIELDS)
    fields = {**fields, "deletionVector": vectors} if any(vectors) else fields
    for block in file_lines(delta_files("add", paths, paths, None, fields, 99), files.num_files):
        yield from block.splitlines()


def check_same(env: Indexed, tables: DeltaTables, hint: str) -> None:
    """Checks that `tables` gives the same answers as the log alone."""
    expected = DeltaTables().snapshot(env.table.storage())
    snapshot = tables.snapshot(env.table.storage())
    assert snapshot.summary == expected.summary
    assert lines(snapshot) == lines(expected)
    assert lines(snapshot, hint) == lines(expected, hint)


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Iterator[None]:
    """Chunks of a few files each, read one per request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "CONTENT_BYTES", 5500)
        patch.setattr(store, "BYTES_PER_GET", 1)
        patch.setattr(store, "GETS_AHEAD", 1)
        yield


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(st.tuples(STEPS, st.sampled_from(["none", "incremental", "full"])), max_size=6), st.sampled_from(HINTS))
def test_an_answer_is_the_same_with_an_index_of_any_age(steps: list[tuple[Step, str]], hint: str) -> None:
    env = Indexed()
    history = History(env.table)
    for step, build in steps:
        history.commit(step)
        for shape in step.shapes:
            history.shape(shape, step.reach)
        if build != "none":
            env.build(full=build == "full")
        if step.looked_at:
            check_same(env, env.warm, hint)
    check_same(env, env.warm, hint)
    check_same(env, env.reader(), hint)


def damage(item: dict[str, Any]) -> None:
    content = bytearray(item["content"]["B"])
    content[len(content) // 2] ^= 1
    item["content"] = {"B": bytes(content)}


def make_large_index(env: Indexed) -> None:
    """An index of several chunks, and two commits after it."""
    History(env.table)
    texts = [hashlib.sha512(bytes([number])).hexdigest() for number in range(150)]
    files = [add(f"{number}.parquet", size=number, stats=stats_text(number, text)) for number, text in enumerate(texts)]
    env.table.commit(1, *files)
    env.build(full=True)
    env.table.commit(2, remove("3.parquet"), add("new.parquet", size=5))
    env.table.commit(3, add("4.parquet", size=50))


@pytest.mark.parametrize("fault", FAULTS)
def test_an_index_that_cannot_be_read_does_not_change_answers(fault: str) -> None:
    env = Indexed()
    make_large_index(env)
    assert len(env.chunks) > 3
    FAULTS[fault](env)
    check_same(env, env.reader(), "id > 5")
    check_same(env, env.warm, "id > 5")


@pytest.mark.parametrize("fault", ["a damaged chunk", "a missing chunk", "no items", "throttled reads"])
@pytest.mark.parametrize("batches_read", [1, 2, 4])
def test_an_answer_continues_from_the_log_if_the_index_fails_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, fault: str, batches_read: int
) -> None:
    monkeypatch.setattr(store, "CACHE_BYTES", 0)
    env = Indexed()
    make_large_index(env)
    expected = DeltaTables().snapshot(env.table.storage())
    batches = env.reader().snapshot(env.table.storage()).batches(None)
    files = [file for _ in range(batches_read) for file in next(batches).adds()]
    FAULTS[fault](env)
    if fault in ("no items", "throttled reads") and batches_read > 1:  # the files already sent cannot be read again
        with pytest.raises(UnusableIndexError):
            list(batches)
        return
    files += [file for batch in batches for file in batch.adds()]
    assert sorted(file.path for file in files) == sorted(file.path for file in expected.adds())
