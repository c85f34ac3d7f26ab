"""Killed and concurrent builds: a reader sees one index or the other, never a mix."""

import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.embedded.ministack import EmbeddedAws
from core.delta.log.listing import whole_log
from core.delta.reader import read_snapshot
from core.delta.source import Way
from core.delta.tables import DeltaTables
from core.index.read.indexes import StoredIndexes
from core.index.write.build import Build
from core.index.write.cleanup import REPLACED_SECONDS
from core.index.write.full_build import build_full
from core.index.write.version_build import indexed
from tests.job.index.builder import LOST, build
from tests.job.index.embedded import EmbeddedIndex, paths

ROOT = Path(__file__).parents[3]
KILLS = 20
ROUNDS = 4


@contextlib.contextmanager
def builder(aws: EmbeddedAws, env: EmbeddedIndex) -> Iterator["subprocess.Popen[str]"]:
    location = env.lake.location
    arguments = [location.bucket, location.prefix, env.index_table, json.dumps(aws.client_arguments())]
    command = [sys.executable, "-m", "tests.job.index.builder", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def printed_lines(process: "subprocess.Popen[str]") -> Iterator[str]:
    """The lines that the process prints, one before each request to DynamoDB."""
    assert process.stdout is not None
    for line in process.stdout:
        yield line.strip()


def build_after_grace_periods(env: EmbeddedIndex, periods: int) -> str:
    """Makes a full build when the grace periods of earlier builds are over. Returns its name."""
    log = whole_log(*env.opened)
    replayed = read_snapshot(*env.opened, log.segment(log.version))
    writer, at = env.indexes().writer, time.time() + periods * 2 * REPLACED_SECONDS
    live = writer.head(env.table)
    files = [(add, None) for add in replayed.snapshot.adds()]
    build = Build(writer, env.table, now=lambda: at).begin()
    return build_full(build, indexed(replayed), files, live.build if live else None).build


def test_a_build_may_be_killed_at_any_point(aws: EmbeddedAws, env: EmbeddedIndex) -> None:
    chance = random.Random(11)
    killed = 0
    while killed < KILLS:
        env.commit()
        with builder(aws, env) as process:
            left = chance.randrange(1, 22)
            for _ in printed_lines(process):
                left -= 1
                if left == 0:
                    process.kill()
                    killed += 1
                    break
        env.check_read()
        if chance.random() < 0.2:
            build(env.indexes(), env.opened)
            env.check_indexed()
    build(env.indexes(), env.opened)
    env.check_indexed()
    assert len(env.builds()) > 5
    build_after_grace_periods(env, 1)
    live = build_after_grace_periods(env, 2)
    env.check_indexed()
    before = {build for build in env.builds() if build != live}
    assert len(before) == 1  # within its grace period
    items = {sk for pk, sk in env.items() if pk == env.table}
    assert items == {"HEAD", f"B{live}", *(f"B{build}" for build in before)}


def test_one_of_two_concurrent_builds_wins_and_readers_see_one_index_or_the_other(
    aws: EmbeddedAws, env: EmbeddedIndex
) -> None:
    ticks = iter(range(0, 10**9, 20))  # the head is read again each time
    index = StoredIndexes(env.indexes().store, now=lambda: float(next(ticks)))
    reader = DeltaTables(index=index, way=Way.INDEX)
    lost = 0
    for _ in range(ROUNDS):
        env.commit()
        with builder(aws, env) as one, builder(aws, env) as other:
            for process in (one, other):
                for line in printed_lines(process):
                    assert paths(reader.snapshot(env.lake.storage())) == env.live
                    lost += line == LOST
            assert [process.wait(60) for process in (one, other)] == [0, 0]
        env.check_indexed()
        assert paths(reader.snapshot(env.lake.storage())) == env.live
    assert lost <= ROUNDS  # never both


@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
def test_a_build_after_a_killed_one_is_correct(aws: EmbeddedAws, env: EmbeddedIndex, full: bool) -> None:
    if not full:
        build(env.indexes(), env.opened)
        env.commit()
    with builder(aws, env) as process:
        for number, operation in enumerate(printed_lines(process)):
            if number > 2 and operation == "BatchWriteItem":
                process.kill()
                break
    head = build(env.indexes(), env.opened)
    assert head is not None
    assert (head.version, head.files) == (env.version, len(env.live))
    env.check_indexed()
