"""Fetches jars for Spark from Maven Central by their coordinates, once, into the user's cache.

The Ivy that PySpark ships downloads and verifies them, so Maven is not needed.
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
    return [_jar(*each.split(":")) for each in coordinates]


def _jar(organisation: str, artifact: str, version: str) -> Path:
    jar = CACHE / f"{artifact}-{version}.jar"
    if not jar.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as draft:
            _run_ivy(organisation, artifact, version, Path(draft))
            (Path(draft) / "fetched" / jar.name).replace(jar)
    return jar


def _run_ivy(organisation: str, artifact: str, version: str, folder: Path) -> None:
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    command = [str(java_home() / "bin" / "java"), "-cp", str(ivy), "org.apache.ivy.Main", "-warn", "-notransitive"]
    command += ["-types", "jar", "-cache", str(folder), "-dependency", organisation, artifact, version]
    command += ["-retrieve", str(folder / "fetched" / "[artifact]-[revision].[ext]")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotFetchedError(f"{organisation}:{artifact}:{version} could not be fetched\n{done.stdout}{done.stderr}")
