"""Jobs with Spark that are killed, that run at once, and that have a DynamoDB which fails."""

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
# Each takes half a minute, most of it Java's start: `make test-nightly` has 20 of them.
KILLS = int(os.environ.get("SLUICE_KILLS", "4"))


@pytest.fixture
def env(aws: EmbeddedAws) -> EmbeddedIndex:
    return EmbeddedIndex(aws, FILES)


@contextlib.contextmanager
def job(aws: EmbeddedAws, env: EmbeddedIndex, dynamodb_url: str) -> Iterator["subprocess.Popen[str]"]:
    """In a session of its own, so that its Java ends with it."""
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
    """Spark's Python workers are in no group of ours: they go on a little, as those of a cluster would."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def what_it_did(process: "subprocess.Popen[str]") -> str:
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    return output.split()[-1]


def test_a_job_may_be_killed_at_any_point(aws: EmbeddedAws, env: EmbeddedIndex) -> None:
    chance = random.Random(5)
    with fault_proxy(aws.port, share=0, seed=0) as proxy:
        with job(aws, env, proxy.url) as process:
            assert what_it_did(process) == "built"
        env.check_indexed()
        requests = proxy.outcomes.total()
        for _ in range(KILLS):
            env.commit()
            with job(aws, env, proxy.url) as process:
                at = proxy.outcomes.total() + chance.randint(1, requests)
                proxy.on_request = lambda number, at=at, process=process: kill(process) if number == at else None
                process.wait(240)
                assert process.returncode == -signal.SIGKILL
            env.check_read()
            if chance.random() < 0.2:
                build(env.indexes(), env.opened)
                env.check_indexed()
        proxy.on_request = lambda _: None
        with job(aws, env, proxy.url) as process:
            assert what_it_did(process) == "built"
    env.check_indexed()


def test_of_jobs_at_once_one_wins(aws: EmbeddedAws, env: EmbeddedIndex) -> None:
    with job(aws, env, aws.endpoint_url) as one, job(aws, env, aws.endpoint_url) as other:
        while one.poll() is None or other.poll() is None:
            env.check_read()
        assert {what_it_did(one), what_it_did(other)} in ({"built", "lost"}, {"built"})
    env.check_indexed()


def test_a_job_finishes_though_half_of_its_requests_to_dynamodb_fail(aws: EmbeddedAws, env: EmbeddedIndex) -> None:
    with fault_proxy(aws.port, share=1 / 2, seed=23) as proxy, job(aws, env, proxy.url) as process:
        assert what_it_did(process) == "built"
    env.check_indexed()
    assert len(set(proxy.outcomes) - {PASSED}) > len(FAULTS) // 2  # kinds of faults
