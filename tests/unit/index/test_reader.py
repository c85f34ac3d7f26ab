"""How a process reads an index: in few requests, no more than it needs, and never a mix of two."""

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from core.delta.cache.snapshots import MAX_BYTES_OVER_INDEX, MAX_COMMITS_OVER_INDEX
from core.delta.tables import DeltaTables
from core.index.layout.buckets import ENTRY
from core.index.read import store
from core.index.read.indexes import DISTRUST_SECONDS, HEAD_SECONDS
from core.index.write import packing
from tests.unit.delta.builder import add, checkpoint, metadata, name, remove
from tests.unit.index.indexed_table import IndexedTable, files, paths, schema_of
from tests.unit.sharing.shared_table import DELTA, SharedTable

pytestmark = pytest.mark.usefixtures("small_chunks")
SELECTIVE = {"predicateHints": ["p = '1' AND id = 17"]}


class Shared(IndexedTable):
    """A table of ten chunks, shared; two commits are newer than its index."""

    def __init__(self, *, newer: bool = True) -> None:
        self.env = SharedTable()
        super().__init__(self.env.lake)
        self.begin(*files(0, 400))
        self.head = self.build()
        if newer:
            where = {"size": 1, "partitionValues": {"p": "1"}}
            self.lake.commit(1, remove("00017.parquet", **where), *files(400, 403))
            self.lake.commit(2, remove("00401.parquet", **where), add("00018.parquet", size=50))
        self.time = 1000.0
        self.serve(self.reader(lambda: self.time))

    def serve(self, tables: DeltaTables) -> None:
        self.env.tables = replace(self.env.tables, delta=tables)

    def asked(self, **body: Any) -> tuple[Counter[str], Counter[str]]:
        """The requests to S3 and to DynamoDB that a query makes."""
        self.lake.requests.clear()
        self.dynamodb.requests.clear()
        self.env.query(DELTA, **body)
        return Counter(self.lake.requests), Counter(self.dynamodb.requests)


def test_a_cold_selective_query_takes_two_requests_to_s3_and_four_to_dynamodb() -> None:
    shared = Shared(newer=False)
    assert shared.asked(**SELECTIVE) == (
        {"ListObjectsV2": 1},
        {"GetItem": 1, "Query": 1, "BatchGetItem": 1},
    )


def test_a_cold_query_after_a_commit_reads_that_and_the_keys_of_its_files() -> None:
    shared = Shared(newer=False)
    shared.lake.commit(1, remove("00017.parquet"), *files(400, 403))
    assert shared.asked(**SELECTIVE) == (
        {"ListObjectsV2": 1, "GetObject": 1},
        {"GetItem": 1, "Query": 1, "BatchGetItem": 2},
    )


def test_a_warm_query_looks_at_the_log_alone_and_reads_what_it_did_not_read_before() -> None:
    shared = Shared()
    shared.asked(**SELECTIVE)
    assert shared.asked(**SELECTIVE) == ({"ListObjectsV2": 1}, {})
    assert shared.asked(predicateHints=["p = '0' AND id = 200"]) == ({"ListObjectsV2": 1}, {"BatchGetItem": 1})


def test_only_chunks_that_may_match_are_read() -> None:
    shared = Shared(newer=False)
    reader = shared.reader()
    snapshot = shared.snapshot(reader)
    assert shared.head.chunks >= 8
    shared.asked(**SELECTIVE)
    selective = len(shared.env.raw)
    shared.asked()
    assert (selective, len(shared.env.raw)) == (3, 402)
    indexes: Any = reader._index
    indexes._store.traffic.items = 0
    assert len(paths(snapshot)) == 400
    assert indexes._store.traffic.items == shared.head.chunks


@pytest.mark.usefixtures("one_by_one")
def test_a_limit_ends_the_reading() -> None:
    shared = Shared(newer=False)
    _, dynamodb = shared.asked(limitHint=15)
    assert dynamodb["BatchGetItem"] <= 1
    _, dynamodb = shared.asked()
    assert dynamodb["BatchGetItem"] >= 5


def test_not_all_chunks_are_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BYTES_PER_GET", 2 * packing.CONTENT_BYTES)
    monkeypatch.setattr(store, "FIRST_BYTES", 2 * packing.CONTENT_BYTES)
    monkeypatch.setattr(store, "KEPT_BYTES", 0)
    env = IndexedTable()
    env.begin(*files(0, 6000))
    chunks = env.build().chunks
    assert chunks > 100
    read: list[weakref.ref[Any]] = []
    batches = env.snapshot().batches(None)
    env.dynamodb.requests.clear()
    for number, batch in enumerate(batches, start=1):
        assert batch.num_files
        read.append(weakref.ref(batch._chunk))  # type: ignore[attr-defined]
        del batch
        gc.collect(0)
        assert sum(chunk() is not None for chunk in read) <= 2
        assert len(env.dynamodb.requests) <= -(-number // 2) + store.GETS_AHEAD
    assert len(read) == chunks


def test_a_query_that_reads_all_does_not_drop_what_selective_ones_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEPT_BYTES", 10 * packing.CONTENT_BYTES)
    shared = Shared(newer=False)
    shared.asked(**SELECTIVE)
    assert shared.asked()[1]["BatchGetItem"] > 0
    assert shared.asked()[1]["BatchGetItem"] > 0
    assert shared.asked(**SELECTIVE)[1] == {}


def test_the_head_is_looked_at_again_after_a_while() -> None:
    shared = Shared()
    shared.asked(**SELECTIVE)
    shared.time += HEAD_SECONDS - 1
    assert shared.asked(**SELECTIVE)[1]["GetItem"] == 0
    shared.time += 1
    assert shared.asked(**SELECTIVE)[1]["GetItem"] == 1


def test_a_newer_build_is_taken_up_by_a_process_that_knows_an_older_one() -> None:
    shared = Shared()
    reader = shared.reader(lambda: shared.time)
    assert f"index-{shared.head.build}" in shared.snapshot(reader).checkpoint_id
    newer = shared.build()
    assert f"index-{shared.head.build}" in shared.snapshot(reader).checkpoint_id
    shared.time += HEAD_SECONDS
    snapshot = shared.snapshot(reader)
    assert snapshot.checkpoint_id == f"2:index-{newer.build}"
    assert paths(snapshot) == paths(DeltaTables().snapshot(shared.lake.storage()))


@pytest.mark.usefixtures("one_by_one")
def test_an_answer_is_of_one_build_whatever_is_built_meanwhile() -> None:
    shared = Shared()
    reader = shared.reader(lambda: shared.time)
    before = shared.snapshot(reader)
    expected = paths(DeltaTables().snapshot(shared.lake.storage()))
    batches = before.batches(None)
    told = [file.path for file in next(batches).adds()]
    shared.lake.commit(3, *(remove(f"{number:05d}.parquet") for number in range(100, 400)))
    shared.build()
    shared.time += HEAD_SECONDS
    assert shared.snapshot(reader).num_files == before.num_files - 300
    told += [file.path for batch in batches for file in batch.adds()]
    assert sorted(told) == expected


def test_beyond_a_number_of_commits_the_log_is_read() -> None:
    shared = Shared(newer=False)
    for version in range(1, MAX_COMMITS_OVER_INDEX + 1):
        shared.lake.commit(version, add(f"new-{version}"))
    assert "index" in shared.snapshot().checkpoint_id
    shared.lake.commit(MAX_COMMITS_OVER_INDEX + 1, add("last"))
    snapshot = shared.snapshot()
    assert "index" not in snapshot.checkpoint_id
    assert snapshot.summary == DeltaTables().snapshot(shared.lake.storage()).summary


def test_beyond_a_size_of_commits_the_log_is_read() -> None:
    shared = Shared(newer=False)
    shared.lake.commit(1, add("small"))
    assert "index" in shared.snapshot().checkpoint_id
    shared.lake.commit(2, add("large", stats="x" * MAX_BYTES_OVER_INDEX))
    snapshot = shared.snapshot()
    assert "index" not in snapshot.checkpoint_id
    assert snapshot.num_files == 402


def test_a_log_with_a_gap_is_refused_as_it_is_without_an_index() -> None:
    shared = Shared()
    shared.lake.delete(name(1))
    for tables in (DeltaTables(), shared.reader()):
        with pytest.raises(Exception, match="the commit of version 1 is missing"):
            shared.snapshot(tables)


def test_a_checkpoint_in_the_place_of_cleaned_up_commits_is_read_from_the_log() -> None:
    shared = Shared()
    adds = [{"add": action["add"]} for action in files(0, 5)]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    shared.lake.put(name(2, "checkpoint.parquet"), checkpoint(protocol, metadata(), *adds))
    shared.lake.delete(name(0), name(1))
    shared.lake.hint(2)
    assert paths(shared.snapshot()) == [action["add"]["path"] for action in files(0, 5)]


@pytest.mark.parametrize("newer", [False, True], ids=["as indexed", "with a commit since"])
def test_a_version_that_states_its_own_time_has_it_also_if_its_commit_is_gone(newer: bool) -> None:
    env = IndexedTable()
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}}
    about = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    env.lake.put(name(5, "checkpoint.parquet"), checkpoint(protocol, about, *files(0, 5)), at_ms=77)
    env.build()
    if newer:
        env.lake.commit(6, {"commitInfo": {"inCommitTimestamp": 1234}}, add("new"))
    snapshot = env.snapshot()
    assert "index" in snapshot.checkpoint_id
    assert snapshot.summary == DeltaTables().snapshot(env.lake.storage()).summary


def test_an_index_that_failed_is_left_alone_for_a_while() -> None:
    shared = Shared(newer=False)
    removed = {key: shared.dynamodb.items[key] for key in shared.keys("C")}
    shared.remove(set(removed))
    assert len(shared.env.query(DELTA)) == 402
    shared.dynamodb.items |= removed
    assert shared.asked()[1] == {}
    shared.time += DISTRUST_SECONDS - 1
    assert shared.asked()[1] == {}


ASKED: dict[str, dict[str, Any]] = {
    "the latest version": {},
    "by its number": {"version": 2},
    "an older version": {"version": 0},
    "an older moment": {"timestamp": "1970-01-01T00:00:01Z"},
    "a range": {"startingVersion": 0},
    "a limit": {"limitHint": 4000},
    "a predicate": {"predicateHints": ["id > 390"]},
    "json hints": {
        "jsonPredicateHints": '{"op":"equal","children":[{"op":"column","name":"p","valueType":"string"},'
        '{"op":"literal","value":"1","valueType":"string"}]}'
    },
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("capabilities", ["", DELTA], ids=["parquet", "delta"])
def test_an_answer_has_the_same_lines_with_an_index(asked: str, capabilities: str) -> None:
    shared = Shared()
    shared.env.query(capabilities, **ASKED[asked])
    head, lines = shared.env.raw[:2], sorted(shared.env.raw)
    shared.serve(DeltaTables())
    shared.env.query(capabilities, **ASKED[asked])
    assert shared.env.raw[:2] == head
    assert sorted(shared.env.raw) == lines


@pytest.mark.parametrize("warm", [False, True])
def test_pages_are_the_answer_in_pieces_in_the_order_of_the_log(warm: bool) -> None:
    shared = Shared()
    if warm:
        shared.env.query(DELTA)
    pages = shared.env.pages(shared.env.query, DELTA, maxFiles=150)
    shared.serve(DeltaTables())
    assert pages == shared.env.pages(shared.env.query, DELTA, maxFiles=150)
    assert [len(page) for page in pages] == [152, 152, 103]


def test_changes_are_the_same_with_an_index() -> None:
    shared = Shared()
    feed = {"delta.enableChangeDataFeed": "true"}
    schema = schema_of(id="long", s="string", p="string")
    shared.lake.commit(3, metadata(schemaString=schema, configuration=feed))
    shared.lake.commit(4, add("late", size=4))
    shared.build()
    shared.lake.commit(5, add("later", size=4))
    shared.env.query(DELTA)
    with_index = shared.env.changes(DELTA, startingVersion=3)
    shared.serve(DeltaTables())
    assert with_index == shared.env.changes(DELTA, startingVersion=3)
    assert len(with_index) > 3


@pytest.mark.usefixtures("one_by_one")
def test_a_refreshed_answer_goes_on_from_the_log_if_the_index_fails() -> None:
    shared = Shared(newer=False)
    first = shared.env.query(f"{DELTA};includeendstreamaction=true", includeRefreshToken=True)
    token = first[-1]["endStreamAction"]["refreshToken"]
    shared.remove(shared.keys("C"))
    store_of: Any = shared.env.tables.delta._index
    store_of._store._kept.clear()
    refreshed = shared.env.query(DELTA, refreshToken=token, limitHint=10**6, includeRefreshToken=True)
    assert len([line for line in refreshed if "file" in line]) == 400


BUCKET_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "sizes": lambda content: bytes(byte ^ 8 * (place % ENTRY.size == 15) for place, byte in enumerate(content)),
    "cut": lambda content: content[:-7],
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("damage", BUCKET_DAMAGE)
def test_totals_are_the_logs_also_if_a_bucket_is_damaged(damage: str) -> None:
    shared = Shared()
    for key in shared.keys("K"):
        item = shared.dynamodb.items[key]
        item["content"] = {"B": BUCKET_DAMAGE[damage](item["content"]["B"])}
    assert shared.snapshot().summary == DeltaTables().snapshot(shared.lake.storage()).summary
