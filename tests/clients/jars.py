"""Fetches jars for Spark from Maven Central into the user's cache, once.

The Ivy that comes with PySpark downloads and verifies them, so Maven is not needed.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import pyspark

from pipeline.spark.java import java_home

DELTA = ("io.delta:delta-spark_4.0_2.13:4.4.0", "io.delta:delta-storage:4.4.0")
CONNECTOR = ("io.delta:delta-sharing-spark_4.0_2.13:4.4.0", "io.delta:delta-sharing-client_2.13:1.4.1")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice" / "jars"


class NotFetchedError(Exception):
    """A jar is not in the cache and cannot be fetched. The first line names it, the others say why."""


def fetched(coordinates: tuple[str, ...]) -> list[Path]:
    return [_jar(*coordinate.split(":")) for coordinate in coordinates]


def _jar(organisation: str, artifact: str, version: str) -> Path:
    jar = CACHE / f"{artifact}-{version}.jar"
    if not jar.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            _run_ivy(organisation, artifact, version, Path(scratch))
            (Path(scratch) / "fetched" / jar.name).replace(jar)
    return jar


def _run_ivy(organisation: str, artifact: str, version: str, folder: Path) -> None:
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    command = [str(java_home() / "bin" / "java"), "-cp", str(ivy), "org.apache.ivy.Main", "-warn", "-notransitive"]
    command += ["-types", "jar", "-cache", str(folder), "-dependency", organisation, artifact, version]
    command += ["-retrieve", str(folder / "fetched" / "[artifact]-[revision].[ext]")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise NotFetchedError(
            f"{organisation}:{artifact}:{version} could not be fetched\n{result.stdout}{result.stderr}"
        )
