"""Measures the time from first import to ready of every function, compared with a minimal baseline.

A function is ready when Lambda has imported its handler and the handler has created its clients. The baseline is
`import boto3` and one DynamoDB client. Both run in fresh processes and alternate, so that noise affects both alike.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

from bench.report import Result, write
from infra.build import OTHER_STACKS, READ_TABLES, WORKERS

ROUNDS = 15
THIN_TARGET = 1.3
FULL_TARGET = 1.6
OPEN_TABLES = READ_TABLES | {"table_version"}
ROOT = Path(__file__).parents[1]
BASELINE = "import boto3\nboto3.client('dynamodb', region_name='eu-west-1')"
# As set by Lambda. With these, a handler creates its clients at import.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "example",
    "AWS_REGION": "eu-west-1",
    "AWS_LAMBDA_FUNCTION_NAME": "bench",
    "LAMBDA_TASK_ROOT": str(ROOT),
    "SLUICE_STORAGE_ROLE_ARN": "arn:aws:iam::000000000000:role/bench",
    "PYTHONPATH": str(ROOT),
    "PATH": os.environ["PATH"],
    "HOME": os.environ.get("HOME", "/"),
}


def seconds(code: str) -> float:
    timed = f"import time\nstarted = time.perf_counter()\n{code}\nprint(time.perf_counter() - started)"
    done = subprocess.run([sys.executable, "-c", timed], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    routes = sorted({path.stem for path in (ROOT / "handlers").glob("[!_]*.py")} - OTHER_STACKS - WORKERS)
    cases = {"boto3 + DynamoDB client": BASELINE} | {route: f"import handlers.{route}" for route in routes}
    for code in cases.values():
        seconds(code)  # the first run writes bytecode and warms the page cache
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, code in cases.items():
            times[name].append(seconds(code))
    baseline, *functions = times.items()
    results = [Result(baseline[0], round(statistics.median(baseline[1]) * 1000, 1), "ms", None, None)]
    for route, measured in functions:
        ratio = statistics.median(own / base for own, base in zip(measured, baseline[1], strict=True))
        target = FULL_TARGET if route in OPEN_TABLES else THIN_TARGET
        results.append(Result(route, round(ratio, 2), "x baseline", target, ratio <= target))
    write("cold", results)


if __name__ == "__main__":
    main()
