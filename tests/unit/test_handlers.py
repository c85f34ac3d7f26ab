"""Runs every handler in a new process with tracing, as Lambda does, and checks which packages it imports."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import build

ROOT = Path(__file__).parents[2]
HANDLERS = {path.stem for path in (ROOT / "handlers").glob("[!_]*.py")}
ROUTES = sorted(HANDLERS - build.OTHER_STACKS - build.WORKERS)
NEVER_NEEDED = {"boto3", "deltalake", "pydantic", "pyarrow", "pandas", "pyspark", "typer", "moto"}

PROGRAM = """
import importlib, json, sys
handler = importlib.import_module(f"handlers.{sys.argv[1]}").lambda_handler
answer = handler(json.load(open(sys.argv[2])), object())
print(json.dumps({"answer": answer, "modules": sorted(name for name in sys.modules if "." not in name)}))
"""


@pytest.mark.parametrize("route", ROUTES)
def test_a_handler_imports_only_what_its_route_needs_and_requires_a_token(route: str) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "AWS_REGION": "eu-west-1",
        "AWS_LAMBDA_FUNCTION_NAME": route,
        "LAMBDA_TASK_ROOT": str(ROOT),
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        **{name: value for name, value in os.environ.items() if name.startswith("COV")},
    }
    event = ROOT / "events" / f"{route}.json"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, route, str(event)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    # The token in the sample events is invalid. The unknown route does not check it.
    assert result["answer"]["statusCode"] == (404 if route == "unknown_route" else 401)
    assert not NEVER_NEEDED.intersection(result["modules"])
    assert ("arro3" in result["modules"]) == (route in build.READ_TABLES)


WORKER_PROGRAM = """
import importlib, json, sys
handler = importlib.import_module(f"handlers.{sys.argv[1]}").lambda_handler
handler({"Records": [{"messageId": "1", "body": "not a message"}]}, object())
print(json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""


@pytest.mark.parametrize("worker", sorted(build.WORKERS))
def test_a_worker_imports_only_what_its_package_has_and_ignores_other_messages(worker: str) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "AWS_REGION": "eu-west-1"}
    command = [sys.executable, "-c", WORKER_PROGRAM, worker]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not NEVER_NEEDED.intersection(json.loads(done.stdout))
