"""An index never changes an answer: random tables at random moments, with an index of any age or state, or none."""

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
from core.delta.tables import DeltaTables
from core.index.layout.items import table_of
from core.index.read import store
from core.index.read.indexes import StoredIndexes
from core.index.read.store import IndexStore
from core.index.write import packing
from core.index.write.writer import IndexWriter
from core.sharing.answers import delta_answer
from core.sharing.answers.file_lines import delta_files, file_lines
from core.sharing.call import Observed
from core.sharing.selection import Selection
from pipeline.local_build import IndexTable, build_later, build_small, older_index
from pipeline.storage import TableObjects
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
    "a damaged chunk": lambda env: damaged(env.chunks[-1]),
    "a missing chunk": lambda env: env.remove(lambda pk: pk == env.chunks[-1]["pk"]["S"]),
    "all chunks gone": lambda env: env.remove(lambda pk: "#C" in pk),
    "buckets gone": lambda env: env.remove(lambda pk: "#K" in pk),
    "no root": lambda env: env.remove(lambda pk: pk.endswith("#ROOT")),
    "a damaged root": lambda env: [damaged(item) for (pk, _), item in env.dynamodb.items.items() if "#ROOT" in pk],
    "all is gone": lambda env: env.dynamodb.items.clear(),
    "no answer": lambda env: setattr(env.dynamodb, "before", refused),
    "never all of it": lambda env: setattr(env.dynamodb, "unprocessed", lambda _: True),
    "another log": lambda env: env.table.commit(1, add("other.parquet")),
}


class Indexed:
    """A table in memory with its index, and two processes that read it: one with the index, one without."""

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
        return DeltaTables(index=StoredIndexes(self.indexes.store, now=lambda: float(next(ticks))))

    def build(self, *, anew: bool) -> None:
        opened = TableObjects(cast("Any", self.table.objects()), self.table.location)
        live = self.indexes.live(table_of(opened.location.uri))
        older = None if anew or live is None else older_index(self.indexes, opened, live)
        if older is None or build_later(self.indexes, opened, older) is None:
            build_small(self.indexes, opened, live.build if live else None)


def refused(_: str) -> None:
    raise error("ProvisionedThroughputExceededException", 400)


def lines(snapshot: Snapshot, hint: str | None = None, limit: int | None = None) -> list[bytes]:
    """As an answer has them, in delta format, sorted."""
    selection = Selection.of(QueryRequest(predicate_hints=(hint,) if hint else (), limit_hint=limit), snapshot.metadata)
    kept = selection.kept(snapshot.batches(selection.predicate), Observed())
    return sorted(line for each in kept for line in _lines(each.files))


def _lines(files: FileBatch) -> Iterator[bytes]:
    paths = list(files.paths)
    vectors = [vector and vector._asdict() for vector in files.deletion_vectors]
    fields = files.add_fields(delta_answer.FIELDS)
    fields = {**fields, "deletionVector": vectors} if any(vectors) else fields
    for block in file_lines(delta_files("add", paths, paths, None, fields, 99), files.num_files):
        yield from block.splitlines()


def same(env: Indexed, tables: DeltaTables, hint: str) -> None:
    expected = DeltaTables().snapshot(env.table.storage())
    snapshot = tables.snapshot(env.table.storage())
    assert snapshot.summary == expected.summary
    assert lines(snapshot) == lines(expected)
    assert lines(snapshot, hint) == lines(expected, hint)


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Iterator[None]:
    """Of some files each, read one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "CONTENT_BYTES", 5500)
        patch.setattr(store, "BYTES_PER_GET", 1)
        patch.setattr(store, "GETS_AHEAD", 1)
        patch.setattr(store, "FIRST_BYTES", 1)
        yield


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(st.tuples(STEPS, st.sampled_from(["no", "later", "anew"])), max_size=6), st.sampled_from(HINTS))
def test_an_answer_is_the_same_with_an_index_of_any_age(steps: list[tuple[Step, str]], hint: str) -> None:
    env = Indexed()
    history = History(env.table)
    for step, when in steps:
        history.commit(step)
        for shape in step.shapes:
            history.shape(shape, step.reach)
        if when != "no":
            env.build(anew=when == "anew")
        if step.looked_at:
            same(env, env.warm, hint)
    same(env, env.warm, hint)
    same(env, env.reader(), hint)


def damaged(item: dict[str, Any]) -> None:
    content = bytearray(item["content"]["B"])
    content[len(content) // 2] ^= 1
    item["content"] = {"B": bytes(content)}


def large_history(env: Indexed) -> History:
    """Some chunks' files, and two commits after the index."""
    history = History(env.table)
    texts = [hashlib.sha512(bytes([number])).hexdigest() for number in range(150)]
    files = [add(f"{number}.parquet", size=number, stats=stats_text(number, text)) for number, text in enumerate(texts)]
    env.table.commit(1, *files)
    env.build(anew=True)
    env.table.commit(2, remove("3.parquet"), add("new.parquet", size=5))
    env.table.commit(3, add("4.parquet", size=50))
    return history


@pytest.mark.parametrize("fault", FAULTS)
def test_an_index_that_cannot_be_read_is_none(fault: str) -> None:
    env = Indexed()
    large_history(env)
    assert len(env.chunks) > 3
    FAULTS[fault](env)
    same(env, env.reader(), "id > 5")
    same(env, env.warm, "id > 5")


@pytest.mark.parametrize("fault", ["a damaged chunk", "a missing chunk", "all is gone", "no answer"])
@pytest.mark.parametrize("told", [1, 2, 4])
def test_an_index_that_fails_in_the_middle_of_an_answer_leaves_the_rest_to_the_log(
    monkeypatch: pytest.MonkeyPatch, fault: str, told: int
) -> None:
    monkeypatch.setattr(store, "KEPT_BYTES", 0)
    env = Indexed()
    large_history(env)
    expected = DeltaTables().snapshot(env.table.storage())
    batches = env.reader().snapshot(env.table.storage()).batches(None)
    files = [file for _ in range(told) for file in next(batches).adds()]
    FAULTS[fault](env)
    if fault in ("all is gone", "no answer") and told > 1:  # nobody knows any more what was told
        with pytest.raises(UnusableIndexError):
            list(batches)
        return
    files += [file for batch in batches for file in batch.adds()]
    assert sorted(file.path for file in files) == sorted(file.path for file in expected.adds())
