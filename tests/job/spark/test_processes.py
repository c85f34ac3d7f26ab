"""Spark jobs that are killed, run at the same time, or use a DynamoDB with faults."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.embedded.ministack import ACCOUNT_ID, EmbeddedAws
from tests.fault_proxy import FAULTS, PASSED, fault_proxy
from tests.integration.iam import allow, create_role
from tests.job.index.builder import build
from tests.job.index.embedded import EmbeddedIndex

ROOT = Path(__file__).parents[3]
FILES = 6000
# Each kill takes half a minute, mostly to start Java. `make test-nightly` sets 20.
KILLS = int(os.environ.get("SLUICE_KILLS", "4"))


@pytest.fixture
def env(aws: EmbeddedAws) -> EmbeddedIndex:
    return EmbeddedIndex(aws, FILES)


@contextlib.contextmanager
def job(aws: EmbeddedAws, env: EmbeddedIndex, dynamodb_url: str) -> Iterator["subprocess.Popen[str]"]:
    """Runs a job in its own process group, so that its Java is killed with it."""
    arguments = aws.client_arguments()
    bucket = f"arn:aws:s3:::{env.lake.location.bucket}"
    role_arn = create_role(
        aws,
        f"table-{uuid.uuid4().hex[:8]}",
        allow("s3:GetObject", f"{bucket}/*"),
        allow("s3:ListBucket", bucket),
        trusts=f"arn:aws:iam::{ACCOUNT_ID}:root",
    )
    environment = os.environ | {
        "SLUICE_STORAGE_ROLE_ARN": role_arn,
        "AWS_ENDPOINT_URL": arguments["endpoint_url"],
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb_url,
        "AWS_REGION": aws.region,
        "AWS_DEFAULT_REGION": aws.region,
        "AWS_ACCESS_KEY_ID": arguments["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": arguments["aws_secret_access_key"],
    }
    command = [sys.executable, "-m", "tests.job.spark.builder", env.lake.location.uri, aws.region, env.index_table]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            kill(process)


def kill(process: "subprocess.Popen[str]") -> None:
    """Kills the process group. Spark's Python workers have their own group and run on for a while, as on a cluster."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def outcome_of(process: "subprocess.Popen[str]") -> str:
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    return output.split()[-1]


def test_a_job_may_be_killed_at_any_point(aws: EmbeddedAws, env: EmbeddedIndex) -> None:
    rng = random.Random(5)
    with fault_proxy(aws.port, share=0, seed=0) as proxy:
        with job(aws, env, proxy.url) as process:
            assert outcome_of(process) == "built"
        env.check_indexed()
        requests = proxy.outcomes.total()
        for _ in range(KILLS):
            env.commit()
            with job(aws, env, proxy.url) as process:
                at = proxy.outcomes.total() + rng.randint(1, requests)
                proxy.on_request = lambda number, at=at, process=process: kill(process) if number == at else None
                process.wait(240)
                assert process.returncode == -signal.SIGKILL
            env.check_read()
            if rng.random() < 0.2:
                build(env.indexes(), env.opened)
                env.check_indexed()
        proxy.on_request = lambda _: None
        with job(aws, env, proxy.url) as process:
            assert outcome_of(process) == "built"
    env.check_indexed()


def test_two_jobs_at_the_same_time_leave_one_valid_index(aws: EmbeddedAws, env: EmbeddedIndex) -> None:
    with job(aws, env, aws.endpoint_url) as one, job(aws, env, aws.endpoint_url) as other:
        while one.poll() is None or other.poll() is None:
            env.check_read()
        assert {outcome_of(one), outcome_of(other)} in ({"built", "lost"}, {"built"})
    env.check_indexed()


def test_a_job_finishes_even_if_half_of_its_dynamodb_requests_fail(aws: EmbeddedAws, env: EmbeddedIndex) -> None:
    with fault_proxy(aws.port, share=1 / 2, seed=23) as proxy, job(aws, env, proxy.url) as process:
        assert outcome_of(process) == "built"
    env.check_indexed()
    assert len(set(proxy.outcomes) - {PASSED}) > len(FAULTS) // 2  # different faults
