"""Reading an index: few requests, only the chunks that are needed, and never a mix of two builds."""

import gc
import json
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from core.delta.cache.snapshots import MAX_BYTES_OVER_INDEX, MAX_COMMITS_OVER_INDEX
from core.delta.tables import DeltaTables
from core.errors import ChangedLogError
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
    """A shared table with an index of about ten chunks, and two commits after it unless `newer` is false."""

    def __init__(self, *, newer: bool = True) -> None:
        self.env = SharedTable()
        super().__init__(self.env.lake)
        self.begin(*files(0, 400))
        self.head = self.build()
        if newer:
            fields = {"size": 1, "partitionValues": {"p": "1"}}
            self.lake.commit(1, remove("00017.parquet", **fields), *files(400, 403))
            self.lake.commit(2, remove("00401.parquet", **fields), add("00018.parquet", size=50))
        self.time = 1000.0
        self.serve(self.reader(lambda: self.time))

    def serve(self, tables: DeltaTables) -> None:
        self.env.tables = replace(self.env.tables, delta=tables)

    def lake_version(self) -> int:
        return DeltaTables().latest_version(self.lake.storage())

    def requests(self, **body: Any) -> tuple[Counter[str], Counter[str]]:
        """Counts the requests to S3 and to DynamoDB that a query makes."""
        self.lake.requests.clear()
        self.dynamodb.requests.clear()
        self.env.query(DELTA, **body)
        return Counter(self.lake.requests), Counter(self.dynamodb.requests)


def test_a_cold_selective_query_makes_one_request_to_s3_and_three_to_dynamodb() -> None:
    shared = Shared(newer=False)
    assert shared.requests(**SELECTIVE) == (
        {"ListObjectsV2": 1},
        {"GetItem": 1, "Query": 1, "BatchGetItem": 1},
    )


def test_a_cold_query_after_a_commit_also_reads_the_commit_and_the_buckets_of_its_files() -> None:
    shared = Shared(newer=False)
    shared.lake.commit(1, remove("00017.parquet"), *files(400, 403))
    assert shared.requests(**SELECTIVE) == (
        {"ListObjectsV2": 1, "GetObject": 1},
        {"GetItem": 1, "Query": 1, "BatchGetItem": 2},
    )


def test_a_warm_query_lists_the_log_and_reads_only_chunks_that_are_not_cached() -> None:
    shared = Shared()
    shared.requests(**SELECTIVE)
    assert shared.requests(**SELECTIVE) == ({"ListObjectsV2": 1}, {})
    assert shared.requests(predicateHints=["p = '0' AND id = 200"]) == ({"ListObjectsV2": 1}, {"BatchGetItem": 1})


def test_only_chunks_that_may_match_are_read() -> None:
    shared = Shared(newer=False)
    reader = shared.reader()
    snapshot = shared.snapshot(reader)
    assert shared.head.chunks >= 8
    shared.requests(**SELECTIVE)
    selective = len(shared.env.raw)
    shared.requests()
    assert (selective, len(shared.env.raw)) == (3, 402)
    indexes: Any = reader._index
    indexes._store.traffic.items = 0
    assert len(paths(snapshot)) == 400
    assert indexes._store.traffic.items == shared.head.chunks


@pytest.mark.usefixtures("one_chunk_per_read")
def test_a_query_stops_reading_at_its_limit() -> None:
    shared = Shared(newer=False)
    _, dynamodb = shared.requests(limitHint=15)
    assert dynamodb["BatchGetItem"] <= 1
    _, dynamodb = shared.requests()
    assert dynamodb["BatchGetItem"] >= 5


def test_only_a_few_chunks_are_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BYTES_PER_GET", 2 * packing.CONTENT_BYTES)
    monkeypatch.setattr(store, "CACHE_BYTES", 0)
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


def test_a_query_that_reads_every_chunk_does_not_evict_cached_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CACHE_BYTES", 10 * packing.CONTENT_BYTES)
    shared = Shared(newer=False)
    shared.requests(**SELECTIVE)
    assert shared.requests()[1]["BatchGetItem"] > 0
    assert shared.requests()[1]["BatchGetItem"] > 0
    assert shared.requests(**SELECTIVE)[1] == {}


def test_the_head_is_read_again_after_a_while() -> None:
    shared = Shared()
    shared.requests(**SELECTIVE)
    shared.time += HEAD_SECONDS - 1
    assert shared.requests(**SELECTIVE)[1]["GetItem"] == 0
    shared.time += 1
    assert shared.requests(**SELECTIVE)[1]["GetItem"] == 1


def test_a_process_switches_to_a_newer_build() -> None:
    shared = Shared()
    reader = shared.reader(lambda: shared.time)
    assert f"index-{shared.head.build}" in shared.snapshot(reader).checkpoint_id
    newer = shared.build()
    assert f"index-{shared.head.build}" in shared.snapshot(reader).checkpoint_id
    shared.time += HEAD_SECONDS
    snapshot = shared.snapshot(reader)
    assert snapshot.checkpoint_id == f"2:index-{newer.build}"
    assert paths(snapshot) == paths(DeltaTables().snapshot(shared.lake.storage()))


@pytest.mark.usefixtures("one_chunk_per_read")
def test_an_answer_comes_from_one_build_even_if_another_finishes_meanwhile() -> None:
    shared = Shared()
    reader = shared.reader(lambda: shared.time)
    before = shared.snapshot(reader)
    expected = paths(DeltaTables().snapshot(shared.lake.storage()))
    batches = before.batches(None)
    found = [file.path for file in next(batches).adds()]
    shared.lake.commit(3, *(remove(f"{number:05d}.parquet") for number in range(100, 400)))
    shared.build()
    shared.time += HEAD_SECONDS
    assert shared.snapshot(reader).num_files == before.num_files - 300
    found += [file.path for batch in batches for file in batch.adds()]
    assert sorted(found) == expected


def test_the_log_is_read_if_too_many_commits_follow_the_index() -> None:
    shared = Shared(newer=False)
    for version in range(1, MAX_COMMITS_OVER_INDEX + 1):
        shared.lake.commit(version, add(f"new-{version}"))
    assert "index" in shared.snapshot().checkpoint_id
    shared.lake.commit(MAX_COMMITS_OVER_INDEX + 1, add("last"))
    snapshot = shared.snapshot()
    assert "index" not in snapshot.checkpoint_id
    assert snapshot.summary == DeltaTables().snapshot(shared.lake.storage()).summary


def test_the_log_is_read_if_the_commits_after_the_index_are_too_large() -> None:
    shared = Shared(newer=False)
    shared.lake.commit(1, add("small"))
    assert "index" in shared.snapshot().checkpoint_id
    shared.lake.commit(2, add("large", stats="x" * MAX_BYTES_OVER_INDEX))
    snapshot = shared.snapshot()
    assert "index" not in snapshot.checkpoint_id
    assert snapshot.num_files == 402


def test_a_log_with_a_gap_is_rejected_with_and_without_an_index() -> None:
    shared = Shared()
    shared.lake.delete(name(1))
    for tables in (DeltaTables(), shared.reader()):
        with pytest.raises(Exception, match="the commit of version 1 is missing"):
            shared.snapshot(tables)


def test_the_log_is_read_if_the_indexed_commits_were_cleaned_up() -> None:
    shared = Shared()
    adds = [{"add": action["add"]} for action in files(0, 5)]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    shared.lake.put(name(2, "checkpoint.parquet"), checkpoint(protocol, metadata(), *adds))
    shared.lake.delete(name(0), name(1))
    shared.lake.hint(2)
    assert paths(shared.snapshot()) == [action["add"]["path"] for action in files(0, 5)]


@pytest.mark.parametrize("newer", [False, True], ids=["the indexed version", "a later version"])
def test_an_in_commit_timestamp_is_the_same_as_from_the_log_if_the_commit_was_cleaned_up(newer: bool) -> None:
    env = IndexedTable()
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}}
    with_timestamps = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    env.lake.put(name(5, "checkpoint.parquet"), checkpoint(protocol, with_timestamps, *files(0, 5)), at_ms=77)
    env.build()
    if newer:
        env.lake.commit(6, {"commitInfo": {"inCommitTimestamp": 1234}}, add("new"))
    snapshot = env.snapshot()
    assert "index" in snapshot.checkpoint_id
    assert snapshot.summary == DeltaTables().snapshot(env.lake.storage()).summary


def test_a_failed_index_is_not_used_for_a_while() -> None:
    shared = Shared(newer=False)
    removed = {key: shared.dynamodb.items[key] for key in shared.keys("C")}
    shared.remove(set(removed))
    assert len(shared.env.query(DELTA)) == 402
    shared.dynamodb.items |= removed
    assert shared.requests()[1] == {}
    shared.time += DISTRUST_SECONDS - 1
    assert shared.requests()[1] == {}


QUERIES: dict[str, dict[str, Any]] = {
    "the latest version": {},
    "the latest version by number": {"version": 2},
    "an older version": {"version": 0},
    "an older timestamp": {"timestamp": "1970-01-01T00:00:01Z"},
    "a range": {"startingVersion": 0},
    "a limit": {"limitHint": 4000},
    "a predicate": {"predicateHints": ["id > 390"]},
    "json hints": {
        "jsonPredicateHints": '{"op":"equal","children":[{"op":"column","name":"p","valueType":"string"},'
        '{"op":"literal","value":"1","valueType":"string"}]}'
    },
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("capabilities", ["", DELTA], ids=["parquet", "delta"])
def test_an_answer_has_the_same_lines_with_an_index(query: str, capabilities: str) -> None:
    shared = Shared()
    shared.env.query(capabilities, **QUERIES[query])
    head, lines = shared.env.raw[:2], sorted(shared.env.raw)
    shared.serve(DeltaTables())
    shared.env.query(capabilities, **QUERIES[query])
    assert shared.env.raw[:2] == head
    assert sorted(shared.env.raw) == lines


@pytest.mark.usefixtures("one_chunk_per_read")
@pytest.mark.parametrize("warm", [False, True])
def test_pages_read_only_the_chunks_of_their_files(warm: bool) -> None:
    """Each page comes from another process, or all come from one."""
    shared = Shared()
    everything = sorted(shared.env.query(DELTA)[2:], key=str)
    chunks: list[int] = []

    def between() -> None:
        chunks.append(shared.dynamodb.requests.count("BatchGetItem"))
        shared.dynamodb.requests.clear()
        shared.lake.s3.keys_read.clear()
        if not warm:
            shared.serve(shared.reader(way=None))

    between()
    pages = shared.env.pages(shared.env.query, DELTA, between=between, maxFiles=50)
    assert [len(page) - 2 for page in pages] == [50] * 8 + [1]
    assert sorted((json.loads(line) for page in pages for line in page[2:]), key=str) == everything
    assert max(chunks[1:]) <= 8 < shared.head.chunks


def test_pages_continue_with_a_build_that_was_replaced() -> None:
    shared = Shared()
    expected = [line for page in shared.env.pages(shared.env.query, DELTA, maxFiles=100) for line in page[2:]]

    def between() -> None:
        number = shared.lake_version() + 1
        shared.lake.commit(number, remove("00020.parquet"), add(f"later-{number}", size=1))
        shared.build(at=float(number), full=number % 2 == 0)
        shared.serve(shared.reader(way=None))

    pages = shared.env.pages(shared.env.query, DELTA, between=between, maxFiles=100)
    assert [line for page in pages for line in page[2:]] == expected


@pytest.mark.parametrize("part", ["ROOT", "C"])
def test_a_page_is_refused_if_its_build_cannot_be_read(part: str) -> None:
    shared = Shared()
    token = shared.env.query(DELTA, maxFiles=100)[-1]["endStreamAction"]["nextPageToken"]
    shared.serve(shared.reader())
    shared.remove(shared.keys(part))
    with pytest.raises(ChangedLogError, match="restart the query"):
        shared.env.query(DELTA, maxFiles=100, pageToken=token)
    restarted = shared.env.pages(shared.env.query, DELTA, maxFiles=100)
    assert sum(len(page) - 2 for page in restarted) == 401


@pytest.mark.usefixtures("one_chunk_per_read")
def test_a_first_page_comes_from_the_log_if_the_index_fails() -> None:
    shared = Shared()
    shared.remove(shared.keys("C"))
    pages = shared.env.pages(shared.env.query, DELTA, maxFiles=100)
    shared.serve(DeltaTables())
    assert pages == shared.env.pages(shared.env.query, DELTA, maxFiles=100)


def test_the_change_feed_is_the_same_with_an_index() -> None:
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


@pytest.mark.usefixtures("one_chunk_per_read")
def test_a_refresh_continues_from_the_log_if_the_index_fails() -> None:
    shared = Shared(newer=False)
    first = shared.env.query(f"{DELTA};includeendstreamaction=true", includeRefreshToken=True)
    token = first[-1]["endStreamAction"]["refreshToken"]
    shared.remove(shared.keys("C"))
    indexes: Any = shared.env.tables.delta._index
    indexes._store._cache.clear()
    refreshed = shared.env.query(DELTA, refreshToken=token, limitHint=10**6, includeRefreshToken=True)
    assert len([line for line in refreshed if "file" in line]) == 400


BUCKET_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "sizes": lambda content: bytes(byte ^ 8 * (offset % ENTRY.size == 15) for offset, byte in enumerate(content)),
    "truncated": lambda content: content[:-7],
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("damage", BUCKET_DAMAGE)
def test_totals_are_correct_even_if_a_bucket_is_damaged(damage: str) -> None:
    shared = Shared()
    for key in shared.keys("K"):
        item = shared.dynamodb.items[key]
        item["content"] = {"B": BUCKET_DAMAGE[damage](item["content"]["B"])}
    assert shared.snapshot().summary == DeltaTables().snapshot(shared.lake.storage()).summary
