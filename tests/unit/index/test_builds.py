"""Builds after builds: what each writes, who wins, and when what is left of the others is removed."""

import random

import pytest

from core.delta.tables import DeltaTables
from core.index.layout.root import Root
from core.index.write.build import Build, LostRaceError
from core.index.write.cleanup import GRACE_SECONDS
from core.index.write.incremental_build import MAX_TAIL_FILES, TooManyChangesError
from core.index.write.writer import WriteFailedError
from tests.memory_dynamodb import error
from tests.unit.delta.builder import add, metadata, remove
from tests.unit.index.indexed_table import IndexedTable, files, paths, schema_of

pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.fixture
def env() -> IndexedTable:
    env = IndexedTable()
    env.begin(*files(0, 400))
    return env


def root_of(env: IndexedTable, build: str) -> Root:
    return Root.unpack(env.store.root(env.table, build))


def check_read(env: IndexedTable) -> None:
    """That the index alone gives what the log gives."""
    reader = env.reader()
    expected = DeltaTables().snapshot(env.lake.storage())
    snapshot = env.snapshot(reader)
    assert "index" in snapshot.checkpoint_id
    assert snapshot.summary == expected.summary
    reads = len(env.lake.s3.keys_read)
    assert sorted(snapshot.adds()) == sorted(expected.adds())
    assert len(env.lake.s3.keys_read) == reads


def items_of(env: IndexedTable, build: str) -> set[tuple[str, str]]:
    return {key for key in env.dynamodb.items if build in key[0] or build in key[1]}


def test_a_build_that_goes_on_rewrites_only_the_chunks_that_lost_files(env: IndexedTable) -> None:
    first = env.build()
    env.lake.commit(1, remove("00007.parquet"), *files(400, 405), add("00011.parquet", size=77))
    second = env.build()
    before, after = root_of(env, first.build), root_of(env, second.build)
    kept = [chunk for chunk in after.chunks if chunk.place.build == first.build]
    assert len(before.chunks) > 5
    assert len(before.chunks) - 2 <= len(kept) < len(before.chunks)
    assert sum(chunk.files for chunk in after.chunks if chunk.in_tail) == 6
    assert after.version == second.version == 1
    check_read(env)


def test_builds_that_go_on_from_each_other_stay_right(env: IndexedTable) -> None:
    """Through many of them: files that are removed, added again, and removed from the tail."""
    choice = random.Random(7)
    live = {f"{number:05d}.parquet" for number in range(400)}
    env.build()
    for version in range(1, 25):
        gone = choice.sample(sorted(live), 4)
        coming = [f"{number:05d}.parquet" for number in choice.sample(range(450), 5)]
        coming = [path for path in coming if path not in gone]
        live = live - set(gone) | set(coming)
        env.lake.commit(version, *map(remove, gone), *(add(path, size=version) for path in coming))
        if choice.random() < 0.7:
            env.build(at=version * 1000.0)
            check_read(env)
    env.build(at=10**6)
    assert paths(env.snapshot()) == sorted(live)
    check_read(env)


def test_a_table_that_loses_all_its_files_and_gets_others(env: IndexedTable) -> None:
    env.build()
    env.lake.commit(1, *(remove(f"{number:05d}.parquet") for number in range(400)))
    assert env.build().files == 0
    check_read(env)
    env.lake.commit(2, *files(500, 510))
    assert env.build().files == 10
    check_read(env)


def test_an_empty_table_is_indexed() -> None:
    env = IndexedTable()
    env.begin()
    assert env.build().chunks == 0
    check_read(env)
    env.lake.commit(1, *files(0, 3))
    assert env.build().files == 3
    check_read(env)


def test_other_columns_ask_for_a_build_of_all(env: IndexedTable) -> None:
    env.build()
    env.lake.commit(1, metadata(schemaString=schema_of(id="long", s="string", more="long", p="string")))
    with pytest.raises(TooManyChangesError):
        env.build()
    env.build(anew=True)
    check_read(env)


def test_a_tail_that_has_grown_too_long_asks_for_a_build_of_all(env: IndexedTable) -> None:
    env.build()
    env.lake.commit(1, *(add(f"{number}") for number in range(MAX_TAIL_FILES + 1)))
    with pytest.raises(TooManyChangesError):
        env.build()


def test_of_two_builds_the_first_that_is_done_wins(env: IndexedTable) -> None:
    head = env.build()
    env.lake.commit(1, *files(400, 410))
    won = env.build_on(head, head)
    for older in (head, None):
        with pytest.raises(LostRaceError) as lost:
            env.build_on(older, head)
        assert lost.value.winner == won
    assert env.writer.head(env.table) == won
    check_read(env)


def test_two_first_builds_at_once_are_one(env: IndexedTable) -> None:
    won = env.build_on(None, None)
    with pytest.raises(LostRaceError):
        env.build_on(None, None)
    assert env.writer.head(env.table) == won


def fail_after(env: IndexedTable, writes: int) -> None:
    """Whatever is written after so many requests never arrives: as when the process is killed."""
    left = iter(range(writes))

    def before(operation: str) -> None:
        if operation in ("BatchWriteItem", "PutItem") and next(left, None) is None:
            raise error("AccessDeniedException", 400)

    env.dynamodb.before = before


def test_a_build_that_ends_at_any_point_changes_nothing_and_is_removed_later(env: IndexedTable) -> None:
    head = env.build()
    env.lake.commit(1, *files(400, 440), remove("00003.parquet"))
    untouched = dict(env.dynamodb.items)
    before = paths(env.snapshot())
    for writes in range(6):
        fail_after(env, writes)
        for older in (head, None):
            with pytest.raises(Exception, match="AccessDenied|throttled"):
                env.build_on(older, head, at=10.0)
        env.dynamodb.before = lambda _: None
        assert env.writer.head(env.table) == head
        assert paths(env.snapshot()) == before
        check_read(env)
    assert {key: env.dynamodb.items[key] for key in untouched} == untouched
    live = env.build(at=10.0 + GRACE_SECONDS, anew=True)
    assert {key[0].split("#")[1] for key in env.keys("C") | env.keys("K")} == {head.build, live.build}
    check_read(env)


def test_what_is_live_no_more_stays_for_those_who_still_read_it_and_then_goes(env: IndexedTable) -> None:
    old = env.build(at=0.0)
    everything = items_of(env, old.build)
    env.build(at=10_000.0, anew=True)
    assert items_of(env, old.build) == everything
    env.build(at=10_000.0 + GRACE_SECONDS - 1, anew=True)
    assert items_of(env, old.build) == everything
    live = env.build(at=10_000.0 + GRACE_SECONDS, anew=True)
    assert items_of(env, old.build) == set()
    assert items_of(env, live.build)


def test_chunks_that_a_later_root_names_stay(env: IndexedTable) -> None:
    old = env.build(at=0.0)
    for version in range(1, 6):
        env.lake.commit(version, *files(400 + version, 401 + version), remove(f"{version:05d}.parquet"))
        env.build(at=version * 10_000.0)
        check_read(env)
    live = env.writer.head(env.table)
    assert live is not None
    named = [chunk.place for chunk in root_of(env, live.build).chunks]
    assert any(place.build == old.build for place in named)
    kept = {(key[0].split("#")[1], int(key[1])) for key in env.keys("C")}
    lately = {build for build, _ in kept} - {place.build for place in named}
    assert len(lately) <= 1  # the one before, within its time
    env.build(at=10**6, anew=True)
    env.build(at=2 * 10**6, anew=True)
    assert items_of(env, old.build) == set()
    assert len({key[0].split("#")[1] for key in env.keys("C")}) == 2


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("anew", [False, True], ids=["going on", "anew"])
def test_a_reader_keeps_what_it_began_to_read_when_a_newer_build_is_live(env: IndexedTable, anew: bool) -> None:
    """Also the chunks that its root took over from a build that is long past."""
    env.build(at=0.0)
    env.lake.commit(1, *files(400, 401))
    env.build(at=100_000.0)
    expected = paths(DeltaTables().snapshot(env.lake.storage()))
    batches = env.snapshot().batches(None)
    told = [file.path for file in next(batches).adds()]
    env.lake.commit(2, *(remove(f"{number:05d}.parquet") for number in range(0, 400, 10)))
    env.build(at=200_000.0, anew=anew)
    reads = len(env.lake.s3.keys_read)
    told += [file.path for batch in batches for file in batch.adds()]
    assert sorted(told) == expected
    assert len(env.lake.s3.keys_read) == reads


def test_a_build_under_way_is_not_taken_for_dead(env: IndexedTable) -> None:
    going_on = Build(env.writer, env.table, now=lambda: 5000.0).begin()
    env.build(at=5000.0 + GRACE_SECONDS - 1)
    assert items_of(env, going_on.name)
    env.build(at=5000.0 + GRACE_SECONDS, anew=True)
    assert not items_of(env, going_on.name)


def test_a_build_that_dynamodb_does_not_take_says_so(env: IndexedTable) -> None:
    def before(operation: str) -> None:
        if operation == "BatchWriteItem":
            raise error("ThrottlingException", 400)

    env.dynamodb.before = before
    with pytest.raises(WriteFailedError):
        env.build()
    env.dynamodb.before = lambda _: None
    assert env.writer.head(env.table) is None
