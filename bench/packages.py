"""Measures the size of the packages, and how much cold-start time their bytecode saves.

Import to ready is measured in fresh interpreters that have only the package, with and without bytecode in turn. Lambda
cannot write bytecode itself, because the folder of a function is read-only.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.cold import ENVIRONMENT
from bench.report import Result, write
from infra.build import MAX_UNPACKED, PACKAGES, build, unpacked_size, write_zip

ROUNDS = 9
MEGABYTE = 2**20
# One route of each package.
ROUTES = {"thin": "list_shares", "full": "query_table"}
READY = """
import sys, time
started = time.perf_counter()
sys.path.insert(0, sys.argv[1])
__import__(f"handlers.{sys.argv[2]}")
print(time.perf_counter() - started)
"""


def seconds(package: Path, route: str) -> float:
    command = [sys.executable, "-I", "-S", "-B", "-c", READY, str(package), route]
    return float(subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout)


def sizes(package: str, folder: Path) -> list[Result]:
    shipped, archive = folder / "lambda", folder / "lambda.zip"
    build(package, "lambda", shipped)
    write_zip(shipped, archive)
    unpacked = unpacked_size(shipped)
    return [
        Result(f"{package}, unpacked", unpacked // MEGABYTE, "MB", MAX_UNPACKED // MEGABYTE, unpacked <= MAX_UNPACKED),
        Result(f"{package}, zipped", archive.stat().st_size // MEGABYTE, "MB"),
    ]


def cold_starts(package: str, folder: Path) -> list[Result]:
    compiled, plain = folder / "compiled", folder / "plain"
    build(package, "host", compiled)
    shutil.copytree(compiled, plain, ignore=shutil.ignore_patterns("__pycache__"))
    rounds = [(seconds(compiled, ROUTES[package]), seconds(plain, ROUTES[package])) for _ in range(ROUNDS)]
    ratio = statistics.median(without / with_bytecode for with_bytecode, without in rounds)
    milliseconds = round(statistics.median(with_bytecode for with_bytecode, _ in rounds) * 1000)
    return [
        Result(f"{ROUTES[package]}, import to ready", milliseconds, "ms"),
        Result(f"{ROUTES[package]} without bytecode", round(ratio, 2), "x as long"),
    ]


def main() -> None:
    results: list[Result] = []
    for package in PACKAGES:
        with tempfile.TemporaryDirectory() as folder:
            results += sizes(package, Path(folder)) + cold_starts(package, Path(folder))
    write("packages", results)


if __name__ == "__main__":
    main()
