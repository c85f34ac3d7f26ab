"""Builds and readers with a DynamoDB that fails a third of all requests."""

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


def test_builds_finish_and_write_correct_indexes(env: EmbeddedIndex, proxy: FaultProxy) -> None:
    indexes = env.indexes(proxy.url)
    for _ in range(3):
        head = build(indexes, env.opened)
        assert head is not None
        assert (head.version, head.files) == (env.version, len(env.live))
        env.check_indexed()
        env.commit()
    assert len(proxy.outcomes) > len(FAULTS) // 2  # several kinds of faults occurred


def test_a_reader_answers_from_the_index_or_from_the_log(env: EmbeddedIndex, proxy: FaultProxy) -> None:
    build(env.indexes(), env.opened)
    env.commit()
    for _ in range(3):
        assert paths(env.snapshot(proxy.url)) == env.live
