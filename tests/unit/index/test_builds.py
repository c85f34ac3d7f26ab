"""Builds after builds: what each writes, who wins, and when what is left of the others is removed."""

import random

import pytest

from core.delta.tables import DeltaTables
from core.index.builds import GRACE_SECONDS, Build, LostRaceError
from core.index.root import Root
from core.index.update import MAX_TAIL_FILES, TooManyChangesError
from core.index.writer import WriteFailedError
from tests.memory_dynamodb import error
from tests.unit.delta.builder import add, metadata, remove
from tests.unit.index.world import IndexedTable, files, paths, schema_of

pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.fixture
def world() -> IndexedTable:
    world = IndexedTable()
    world.begin(*files(0, 400))
    return world


def root_of(world: IndexedTable, build: str) -> Root:
    return Root.unpack(world.store.root(world.table, build))


def check_read(world: IndexedTable) -> None:
    """That the index alone gives what the log gives."""
    reader = world.reader()
    expected = DeltaTables().snapshot(world.lake.storage())
    snapshot = world.snapshot(reader)
    assert "index" in snapshot.origin
    assert snapshot.head == expected.head
    reads = len(world.lake.s3.keys_read)
    assert sorted(snapshot.adds()) == sorted(expected.adds())
    assert len(world.lake.s3.keys_read) == reads


def items_of(world: IndexedTable, build: str) -> set[tuple[str, str]]:
    return {key for key in world.dynamodb.items if build in key[0] or build in key[1]}


def test_a_build_that_goes_on_rewrites_only_the_chunks_that_lost_files(world: IndexedTable) -> None:
    first = world.build()
    world.lake.commit(1, remove("00007.parquet"), *files(400, 405), add("00011.parquet", size=77))
    second = world.build()
    before, after = root_of(world, first.build), root_of(world, second.build)
    kept = [chunk for chunk in after.chunks if chunk.place.build == first.build]
    assert len(before.chunks) > 5
    assert len(before.chunks) - 2 <= len(kept) < len(before.chunks)
    assert sum(chunk.files for chunk in after.chunks if chunk.in_tail) == 6
    assert after.version == second.version == 1
    check_read(world)


def test_builds_that_go_on_from_each_other_stay_right(world: IndexedTable) -> None:
    """Through many of them: files that are removed, added again, and removed from the tail."""
    choice = random.Random(7)
    live = {f"{number:05d}.parquet" for number in range(400)}
    world.build()
    for version in range(1, 25):
        gone = choice.sample(sorted(live), 4)
        coming = [f"{number:05d}.parquet" for number in choice.sample(range(450), 5)]
        coming = [path for path in coming if path not in gone]
        live = live - set(gone) | set(coming)
        world.lake.commit(version, *map(remove, gone), *(add(path, size=version) for path in coming))
        if choice.random() < 0.7:
            world.build(at=version * 1000.0)
            check_read(world)
    world.build(at=10**6)
    assert paths(world.snapshot()) == sorted(live)
    check_read(world)


def test_a_table_that_loses_all_its_files_and_gets_others(world: IndexedTable) -> None:
    world.build()
    world.lake.commit(1, *(remove(f"{number:05d}.parquet") for number in range(400)))
    assert world.build().files == 0
    check_read(world)
    world.lake.commit(2, *files(500, 510))
    assert world.build().files == 10
    check_read(world)


def test_an_empty_table_is_indexed() -> None:
    world = IndexedTable()
    world.begin()
    assert world.build().chunks == 0
    check_read(world)
    world.lake.commit(1, *files(0, 3))
    assert world.build().files == 3
    check_read(world)


def test_other_columns_ask_for_a_build_of_all(world: IndexedTable) -> None:
    world.build()
    world.lake.commit(1, metadata(schemaString=schema_of(id="long", s="string", more="long", p="string")))
    with pytest.raises(TooManyChangesError):
        world.build()
    world.build(anew=True)
    check_read(world)


def test_a_tail_that_has_grown_too_long_asks_for_a_build_of_all(world: IndexedTable) -> None:
    world.build()
    world.lake.commit(1, *(add(f"{number}") for number in range(MAX_TAIL_FILES + 1)))
    with pytest.raises(TooManyChangesError):
        world.build()


def test_of_two_builds_the_first_that_is_done_wins(world: IndexedTable) -> None:
    head = world.build()
    world.lake.commit(1, *files(400, 410))
    won = world.build_on(head, head)
    for older in (head, None):
        with pytest.raises(LostRaceError) as lost:
            world.build_on(older, head)
        assert lost.value.winner == won
    assert world.writer.head(world.table) == won
    check_read(world)


def test_two_first_builds_at_once_are_one(world: IndexedTable) -> None:
    won = world.build_on(None, None)
    with pytest.raises(LostRaceError):
        world.build_on(None, None)
    assert world.writer.head(world.table) == won


def fail_after(world: IndexedTable, writes: int) -> None:
    """Whatever is written after so many requests never arrives: as when the process is killed."""
    left = iter(range(writes))

    def before(operation: str) -> None:
        if operation in ("BatchWriteItem", "PutItem") and next(left, None) is None:
            raise error("AccessDeniedException", 400)

    world.dynamodb.before = before


def test_a_build_that_ends_at_any_point_changes_nothing_and_is_removed_later(world: IndexedTable) -> None:
    head = world.build()
    world.lake.commit(1, *files(400, 440), remove("00003.parquet"))
    untouched = dict(world.dynamodb.items)
    before = paths(world.snapshot())
    for writes in range(6):
        fail_after(world, writes)
        for older in (head, None):
            with pytest.raises(Exception, match="AccessDenied|throttled"):
                world.build_on(older, head, at=10.0)
        world.dynamodb.before = lambda _: None
        assert world.writer.head(world.table) == head
        assert paths(world.snapshot()) == before
        check_read(world)
    assert {key: world.dynamodb.items[key] for key in untouched} == untouched
    live = world.build(at=10.0 + GRACE_SECONDS, anew=True)
    assert {key[0].split("#")[1] for key in world.keys("C") | world.keys("K")} == {head.build, live.build}
    check_read(world)


def test_what_is_live_no_more_stays_for_those_who_still_read_it_and_then_goes(world: IndexedTable) -> None:
    old = world.build(at=0.0)
    everything = items_of(world, old.build)
    world.build(at=10_000.0, anew=True)
    assert items_of(world, old.build) == everything
    world.build(at=10_000.0 + GRACE_SECONDS - 1, anew=True)
    assert items_of(world, old.build) == everything
    live = world.build(at=10_000.0 + GRACE_SECONDS, anew=True)
    assert items_of(world, old.build) == set()
    assert items_of(world, live.build)


def test_chunks_that_a_later_root_names_stay(world: IndexedTable) -> None:
    old = world.build(at=0.0)
    for version in range(1, 6):
        world.lake.commit(version, *files(400 + version, 401 + version), remove(f"{version:05d}.parquet"))
        world.build(at=version * 10_000.0)
        check_read(world)
    live = world.writer.head(world.table)
    assert live is not None
    named = [chunk.place for chunk in root_of(world, live.build).chunks]
    assert any(place.build == old.build for place in named)
    kept = {(key[0].split("#")[1], int(key[1])) for key in world.keys("C")}
    lately = {build for build, _ in kept} - {place.build for place in named}
    assert len(lately) <= 1  # the one before, within its time
    world.build(at=10**6, anew=True)
    world.build(at=2 * 10**6, anew=True)
    assert items_of(world, old.build) == set()
    assert len({key[0].split("#")[1] for key in world.keys("C")}) == 2


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("anew", [False, True], ids=["going on", "anew"])
def test_a_reader_keeps_what_it_began_to_read_when_a_newer_build_is_live(world: IndexedTable, anew: bool) -> None:
    """Also the chunks that its root took over from a build that is long past."""
    world.build(at=0.0)
    world.lake.commit(1, *files(400, 401))
    world.build(at=100_000.0)
    expected = paths(DeltaTables().snapshot(world.lake.storage()))
    batches = world.snapshot().batches(None)
    told = [file.path for file in next(batches).adds()]
    world.lake.commit(2, *(remove(f"{number:05d}.parquet") for number in range(0, 400, 10)))
    world.build(at=200_000.0, anew=anew)
    reads = len(world.lake.s3.keys_read)
    told += [file.path for batch in batches for file in batch.adds()]
    assert sorted(told) == expected
    assert len(world.lake.s3.keys_read) == reads


def test_a_build_under_way_is_not_taken_for_dead(world: IndexedTable) -> None:
    going_on = Build(world.writer, world.table, now=lambda: 5000.0).begin()
    world.build(at=5000.0 + GRACE_SECONDS - 1)
    assert items_of(world, going_on.name)
    world.build(at=5000.0 + GRACE_SECONDS, anew=True)
    assert not items_of(world, going_on.name)


def test_a_build_that_dynamodb_does_not_take_says_so(world: IndexedTable) -> None:
    def before(operation: str) -> None:
        if operation == "BatchWriteItem":
            raise error("ThrottlingException", 400)

    world.dynamodb.before = before
    with pytest.raises(WriteFailedError):
        world.build()
    world.dynamodb.before = lambda _: None
    assert world.writer.head(world.table) is None
