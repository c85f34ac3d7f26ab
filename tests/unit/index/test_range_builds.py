"""Builds in ranges, for tables that do not fit in memory: the same files in the same order as in one piece."""

from collections.abc import Iterator
from typing import Any

import pytest

from core.delta.log.listing import whole_log
from core.delta.reader import read_snapshot
from core.errors import ChangedLogError, LongLogError
from core.index.layout.chunk import Chunk
from core.index.layout.root import Root
from core.index.read.table_index import StoredIndex
from core.index.write import full_build
from core.index.write.build import Build
from core.index.write.full_build import build_full, build_in_ranges
from core.index.write.version_build import index_of_version, indexed
from core.storage.objects import TableObjects
from tests.unit.delta.builder import PROTOCOL, Action, add, metadata, remove
from tests.unit.index.indexed_table import IndexedTable, check_same, files, paths, schema_of

pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.fixture(autouse=True)
def small_ranges() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(full_build, "RANGE_FILES", 50)
        patch.setattr(full_build, "MAX_WAITING_FILES", 70)
        patch.setattr(full_build, "SAMPLED_FILES", 100)
        patch.setattr(full_build, "COMPARED_FILES", 40)
        yield


def without_stats(count: int) -> list[Action]:
    return [add(f"{number}.parquet", p="0", size=1) for number in range(count)]


def shuffled(count: int) -> list[Action]:
    made = files(0, count)
    return [made[number * 7919 % count] for number in range(count)]


def built(env: IndexedTable, *, in_ranges: bool) -> list[str]:
    """Builds the index and returns its paths in the order of its chunks."""
    opened = TableObjects(env.lake.objects(), env.lake.location)
    log = whole_log(*opened)
    replayed = read_snapshot(*opened, log.segment(log.version))
    build = Build(env.writer, env.table).begin()
    head = env.writer.head(env.table)
    expected = head.build if head else None
    if in_ranges:
        build_in_ranges(build, indexed(replayed), replayed.snapshot, expected)
    else:
        build_full(build, indexed(replayed), [(each, None) for each in replayed.snapshot.adds()], expected)
    root = Root.unpack(env.store.root(env.table, build.name))
    index = StoredIndex(env.store, env.table, build.name, root)
    return [path for content in index.read(index.root.chunks) for path in Chunk(content).files.paths]


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 300])
def test_files_are_in_the_same_order_as_in_a_build_in_one_piece(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for sample in ("SAMPLED_FILES", "COMPARED_FILES"):  # the same order, because it is chosen from all files
        monkeypatch.setattr(full_build, sample, 1000)
    env = IndexedTable()
    env.begin(*(shuffled(count) if count else []))
    assert built(env, in_ranges=True) == built(env, in_ranges=False)


@pytest.mark.parametrize("actions", [shuffled(300), without_stats(300)], ids=["with statistics", "without"])
def test_a_table_is_read_from_the_index_as_from_its_log(actions: list[Action]) -> None:
    env = IndexedTable()
    env.begin(*actions)
    built(env, in_ranges=True)
    check_same(env, ["id = 17", "id > 250", "p = '1'", "s IS NULL", "id < 0"])


def test_files_with_the_same_key_fill_several_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    env = IndexedTable()
    env.begin(*without_stats(300))
    sizes = []
    read = full_build._Ranges.rows

    def rows(self: Any) -> Iterator[Any]:
        for batch in read(self):
            sizes.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(full_build._Ranges, "rows", rows)
    assert len(built(env, in_ranges=True)) == 300
    assert len(sizes) > 3
    assert max(sizes) < 150


def test_the_index_of_a_version_is_built_once_and_is_live_only_for_the_latest() -> None:
    env = IndexedTable()
    env.begin(*files(0, 120))
    env.lake.commit(1, remove("00003.parquet"), *files(120, 125))
    opened = TableObjects(env.lake.objects(), env.lake.location)
    log = whole_log(*opened)
    old = index_of_version(env.indexes, opened, 0, log.tip(0), max_log_bytes=1e9)
    assert env.writer.head(env.table) is None
    assert env.reader().snapshot(env.lake.storage()).num_files == 124
    latest = index_of_version(env.indexes, opened, 1, log.tip(1), max_log_bytes=1e9)
    head = env.writer.head(env.table)
    assert head is not None
    assert latest == f"1:index-{head.build}"
    assert index_of_version(env.indexes, opened, 1, log.tip(1), max_log_bytes=0) == latest
    for checkpoint_id, version, num_files in ((old, 0, 120), (latest, 1, 124)):
        snapshot = env.reader().snapshot_from_checkpoint(env.lake.storage(), checkpoint_id, version)
        assert len(paths(snapshot)) == snapshot.num_files == num_files


def test_an_older_index_is_used_if_few_commits_follow_and_updated_if_many_do(monkeypatch: pytest.MonkeyPatch) -> None:
    env = IndexedTable()
    env.begin(*files(0, 120))
    opened = TableObjects(env.lake.objects(), env.lake.location)
    first = index_of_version(env.indexes, opened, 0, whole_log(*opened).tip(0), max_log_bytes=1e9)
    env.lake.commit(1, *files(120, 121))
    log = whole_log(*opened)
    assert index_of_version(env.indexes, opened, 1, log.tip(1), max_log_bytes=0) == first
    monkeypatch.setattr("core.delta.cache.snapshots.MAX_COMMITS_OVER_INDEX", 0)
    updated = index_of_version(env.indexes, opened, 1, log.tip(1), max_log_bytes=0)
    assert updated.startswith("1:index-")
    assert env.snapshot().checkpoint_id == updated


def test_a_long_or_replaced_log_is_not_indexed() -> None:
    env = IndexedTable()
    env.begin(*files(0, 10))
    opened = TableObjects(env.lake.objects(), env.lake.location)
    tip = whole_log(*opened).tip(0)
    with pytest.raises(LongLogError):
        index_of_version(env.indexes, opened, 0, tip, max_log_bytes=10)
    schema = schema_of(id="long", s="string", p="string")
    env.lake.commit(0, PROTOCOL, metadata(schemaString=schema), *files(0, 9))
    with pytest.raises(ChangedLogError):
        index_of_version(env.indexes, opened, 0, tip, max_log_bytes=1e9)
    assert env.writer.head(env.table) is None
