"""Workers of asynchronous queries that are killed at random points, and requests to DynamoDB that fail.

A query ends with the right answer, or fails with a message. A reader never sees a part of a build.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.embedded.ministack import EmbeddedAws
from core.api.requests.query import QueryRequest
from core.catalog.model import Table
from core.delta.tables import DeltaTables
from core.index.read.indexes import StoredIndexes
from core.queries.query import DONE, KILLED, LEASE_SECONDS, MAX_ATTEMPTS, AsyncQuery
from core.queries.store import QueryStore
from tests.fault_proxy import PASSED, fault_proxy
from tests.job.index.embedded import EmbeddedIndex, dynamodb_client, paths

ROOT = Path(__file__).parents[2]


class Submitted:
    """A query on a table of its own, with a clock that a test moves instead of waiting for leases."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.aws = aws
        self.env = EmbeddedIndex(aws)
        self.ahead = 0.0
        self.store = QueryStore(dynamodb_client(aws), self.env.index_table, now=lambda: time.time() + self.ahead)
        tip = DeltaTables().tip(self.env.lake.storage(), 0)
        table = Table("t", "s", "share", "1", "2", self.env.lake.location.uri)
        request = QueryRequest(idempotency_key="k")
        self.query = self.store.add(AsyncQuery.submitted("r", "1/2", table, request, 0, tip, now=self.store.now()))

    def run_worker(self, kill_after: int | None, dynamodb_url: str | None = None) -> bool:
        """Runs a worker, and kills it after some requests to DynamoDB. Returns whether it was killed."""
        command = [sys.executable, "-m", "tests.integration.query_worker", self.query.key, self.env.index_table]
        command += [str(self.ahead), json.dumps(self.aws.client_arguments()), dynamodb_url or self.aws.endpoint_url]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as worker:
            assert worker.stdout is not None
            for number, _ in enumerate(worker.stdout, 1):
                if number == kill_after:
                    worker.kill()
                    worker.wait()
                    return True
        return False

    def state(self) -> AsyncQuery:
        found = self.store.find(self.query.key)
        assert found is not None
        return found

    def check_done(self) -> None:
        """Checks that a new process reads the pinned version from the index that the query names."""
        done = self.state()
        assert (done.status, done.message) == (DONE, None)
        tables = DeltaTables(index=StoredIndexes(self.env.indexes().store))
        snapshot = tables.snapshot_from_checkpoint(self.env.lake.storage(), done.checkpoint_id or "", done.version)
        assert paths(snapshot) == self.env.live
        assert snapshot.summary == DeltaTables().snapshot(self.env.lake.storage(), version=0).summary


def kill_workers(aws: EmbeddedAws, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    killed, done, failed = 0, 0, 0
    while killed < kills:
        submitted = Submitted(aws)
        while submitted.state().status != DONE and submitted.state().failure(submitted.store.now()) is None:
            is_last = submitted.state().attempts == MAX_ATTEMPTS - 1 and chance.random() < 0.7
            killed += submitted.run_worker(None if is_last else chance.randrange(1, 25))
            submitted.env.check_read()
            submitted.ahead += LEASE_SECONDS + 1
        if submitted.state().status == DONE:
            submitted.check_done()
            done += 1
        else:
            assert submitted.state().failure(submitted.store.now()) == KILLED
            failed += 1
    assert done > 0


def test_a_query_survives_workers_that_are_killed(aws: EmbeddedAws) -> None:
    kill_workers(aws, 4, seed=3)


@pytest.mark.slow("kills 20 workers")
def test_queries_survive_twenty_workers_that_are_killed(aws: EmbeddedAws) -> None:
    kill_workers(aws, 20, seed=16)


def test_a_query_is_prepared_although_dynamodb_fails_often(aws: EmbeddedAws) -> None:
    submitted = Submitted(aws)
    with fault_proxy(aws.port, share=1 / 10, seed=5) as proxy:
        while submitted.state().status != DONE and submitted.state().attempts < MAX_ATTEMPTS:
            submitted.run_worker(None, proxy.url)
            submitted.ahead += LEASE_SECONDS + 1
        assert proxy.outcomes.keys() - {PASSED}
    submitted.check_done()
