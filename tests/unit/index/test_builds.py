"""Sequences of builds: what each one writes, which one wins, and when the items of the others are deleted."""

import random

import pytest

from core.delta.tables import DeltaTables
from core.index.layout import root
from core.index.layout.root import Root
from core.index.write.build import Build, LostRaceError
from core.index.write.cleanup import PATIENCE_SECONDS, REPLACED_SECONDS, UNFINISHED_SECONDS
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
    """Checks that the index has the files of the log, and that they are read without the log."""
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


def test_an_incremental_build_rewrites_only_the_chunks_that_lost_files(env: IndexedTable) -> None:
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


def test_a_long_sequence_of_incremental_builds_stays_correct(env: IndexedTable) -> None:
    """Files are removed, added again, and removed from the tail."""
    chance = random.Random(7)
    live = {f"{number:05d}.parquet" for number in range(400)}
    env.build()
    for version in range(1, 25):
        removed = chance.sample(sorted(live), 4)
        added = [f"{number:05d}.parquet" for number in chance.sample(range(450), 5)]
        added = [path for path in added if path not in removed]
        live = live - set(removed) | set(added)
        env.lake.commit(version, *map(remove, removed), *(add(path, size=version) for path in added))
        if chance.random() < 0.7:
            env.build(at=version * 1000.0)
            check_read(env)
    env.build(at=10**6)
    assert paths(env.snapshot()) == sorted(live)
    check_read(env)


def test_a_table_can_lose_all_files_and_get_new_ones(env: IndexedTable) -> None:
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


def test_a_change_of_columns_requires_a_full_build(env: IndexedTable) -> None:
    env.build()
    env.lake.commit(1, metadata(schemaString=schema_of(id="long", s="string", more="long", p="string")))
    with pytest.raises(TooManyChangesError):
        env.build()
    env.build(full=True)
    check_read(env)


def test_a_tail_that_is_too_long_requires_a_full_build(env: IndexedTable) -> None:
    env.build()
    env.lake.commit(1, *(add(f"{number}") for number in range(MAX_TAIL_FILES + 1)))
    with pytest.raises(TooManyChangesError):
        env.build()


def test_the_first_of_two_concurrent_builds_to_finish_wins(env: IndexedTable) -> None:
    head = env.build()
    env.lake.commit(1, *files(400, 410))
    won = env.build_on(head, head)
    for older in (head, None):
        with pytest.raises(LostRaceError) as lost:
            env.build_on(older, head)
        assert lost.value.winner == won
    assert env.writer.head(env.table) == won
    check_read(env)


def test_only_one_of_two_concurrent_first_builds_wins(env: IndexedTable) -> None:
    won = env.build_on(None, None)
    with pytest.raises(LostRaceError):
        env.build_on(None, None)
    assert env.writer.head(env.table) == won


def fail_after(env: IndexedTable, writes: int) -> None:
    """Fails every write after the first `writes`, as if the process had been killed."""
    left = iter(range(writes))

    def before(operation: str) -> None:
        if operation in ("BatchWriteItem", "PutItem") and next(left, None) is None:
            raise error("AccessDeniedException", 400)

    env.dynamodb.before = before


def test_a_build_that_dies_at_any_point_changes_nothing_and_is_deleted_later(env: IndexedTable) -> None:
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
    live = env.build(at=10.0 + UNFINISHED_SECONDS + PATIENCE_SECONDS, full=True)
    assert {key[0].split("#")[1] for key in env.keys("C") | env.keys("K")} == {head.build, live.build}
    check_read(env)


def test_a_replaced_build_stays_for_the_grace_period_and_is_then_deleted(env: IndexedTable) -> None:
    old = env.build(at=0.0)
    everything = items_of(env, old.build)
    env.build(at=10_000.0, full=True)
    assert items_of(env, old.build) == everything
    env.build(at=10_000.0 + REPLACED_SECONDS - 1, full=True)
    assert items_of(env, old.build) == everything
    live = env.build(at=10_000.0 + REPLACED_SECONDS + PATIENCE_SECONDS, full=True)
    assert items_of(env, old.build) == set()
    assert items_of(env, live.build)


def test_a_build_of_an_older_format_is_replaced_and_deleted_after_the_grace_period(
    env: IndexedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older_release:
        older_release.setattr(root, "FORMAT", root.FORMAT - 1)
        old = env.build(at=0.0)
    assert "index" not in env.snapshot().checkpoint_id
    env.build(at=10.0, full=True)
    check_read(env)
    assert items_of(env, old.build)
    env.build(at=10.0 + REPLACED_SECONDS + PATIENCE_SECONDS, full=True)
    assert items_of(env, old.build) == set()


def test_chunks_that_a_later_root_names_are_kept(env: IndexedTable) -> None:
    old = env.build(at=0.0)
    for version in range(1, 6):
        env.lake.commit(version, *files(400 + version, 401 + version), remove(f"{version:05d}.parquet"))
        env.build(at=version * 100_000.0)
        check_read(env)
    live = env.writer.head(env.table)
    assert live is not None
    named = [chunk.place for chunk in root_of(env, live.build).chunks]
    assert any(place.build == old.build for place in named)
    kept = {(key[0].split("#")[1], int(key[1])) for key in env.keys("C")}
    not_named = {build for build, _ in kept} - {place.build for place in named}
    assert len(not_named) <= 1  # the previous build, that readers may still use
    env.build(at=10**6, full=True)
    env.build(at=2 * 10**6, full=True)
    assert items_of(env, old.build) == set()
    assert len({key[0].split("#")[1] for key in env.keys("C")}) == 2


@pytest.mark.usefixtures("one_chunk_per_read")
@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
def test_a_reader_can_finish_with_an_index_that_was_replaced(env: IndexedTable, full: bool) -> None:
    """Its root also names chunks of an earlier build, whose grace period is over."""
    env.build(at=0.0)
    env.lake.commit(1, *files(400, 401))
    env.build(at=100_000.0)
    expected = paths(DeltaTables().snapshot(env.lake.storage()))
    batches = env.snapshot().batches(None)
    found = [file.path for file in next(batches).adds()]
    env.lake.commit(2, *(remove(f"{number:05d}.parquet") for number in range(0, 400, 10)))
    env.build(at=200_000.0, full=full)
    reads = len(env.lake.s3.keys_read)
    found += [file.path for batch in batches for file in batch.adds()]
    assert sorted(found) == expected
    assert len(env.lake.s3.keys_read) == reads


def test_a_running_build_is_not_deleted_within_the_grace_period(env: IndexedTable) -> None:
    running = Build(env.writer, env.table, now=lambda: 5000.0).begin()
    env.build(at=5000.0 + UNFINISHED_SECONDS - 1)
    assert items_of(env, running.name)
    env.build(at=5000.0 + UNFINISHED_SECONDS + PATIENCE_SECONDS, full=True)
    assert not items_of(env, running.name)


def test_a_build_fails_if_dynamodb_throttles_every_write(env: IndexedTable) -> None:
    def before(operation: str) -> None:
        if operation == "BatchWriteItem":
            raise error("ThrottlingException", 400)

    env.dynamodb.before = before
    with pytest.raises(WriteFailedError):
        env.build()
    env.dynamodb.before = lambda _: None
    assert env.writer.head(env.table) is None
