"""Builds and readers behind a DynamoDB that throttles, fails and breaks off a third of all requests."""

from collections.abc import Iterator

import pytest

from cli.embedded.ministack import EmbeddedAws
from tests.fault_proxy import FAULTS, FaultProxy, fault_proxy
from tests.job.index.builder import build
from tests.job.index.embedded import EmbeddedIndex, paths


@pytest.fixture(params=[1, 2])
def proxy(aws: EmbeddedAws, request: pytest.FixtureRequest) -> Iterator[FaultProxy]:
    with fault_proxy(aws.port, share=1 / 3, seed=request.param) as running:
        yield running


def test_builds_finish_and_what_they_wrote_is_right(world: EmbeddedIndex, proxy: FaultProxy) -> None:
    indexes = world.indexes(proxy.url)
    for _ in range(3):
        head = build(indexes, world.opened)
        assert head is not None
        assert (head.version, head.files) == (world.version, len(world.live))
        world.check_indexed()
        world.commit()
    assert len(proxy.outcomes) > len(FAULTS) // 2  # kinds of faults


def test_a_reader_answers_from_the_index_or_from_the_log(world: EmbeddedIndex, proxy: FaultProxy) -> None:
    build(world.indexes(), world.opened)
    world.commit()
    for _ in range(3):
        assert paths(world.snapshot(proxy.url)) == world.live
