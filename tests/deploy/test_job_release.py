"""The release that `make build-job` builds for EMR Serverless and for the function that starts runs."""

import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.build_job import build_job

AARCH64 = 183


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_job(tmp_path_factory.mktemp("dist") / "job")


def top_level_names(archive: Path) -> set[str]:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(archive).namelist()}
    return {name for name in names if not name.endswith(".dist-info")}


def test_a_release_is_named_after_its_content(release: Path, tmp_path: Path) -> None:
    (tmp_path / "job" / "0123456789ab").mkdir(parents=True)
    again = build_job(tmp_path / "job")
    assert again.name == release.name
    assert list((tmp_path / "job").iterdir()) == [again]
    assert {path.name for path in again.iterdir()} == {"dependencies.zip", "sluice.zip", "job.py"}


def test_a_release_has_the_dependencies_of_the_job_without_spark(release: Path) -> None:
    assert {"arro3", "botocore", "orjson", "pyarrow"} <= top_level_names(release / "dependencies.zip")
    unwanted = {"pyspark", "py4j", "deltalake", "pydantic", "core", "tests"}
    assert not unwanted & top_level_names(release / "dependencies.zip")


def test_native_code_matches_the_processor_and_python_of_the_job(release: Path) -> None:
    with zipfile.ZipFile(release / "dependencies.zip") as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
        assert libraries
        for name in libraries:
            assert struct.unpack_from("<H", archive.read(name), 18) == (AARCH64,), name
            assert "x86_64" not in name
            assert "cpython-" not in name or "cpython-313-" in name


def test_a_release_has_the_sources_of_the_job_and_of_the_function_that_starts_it(release: Path) -> None:
    names = set(zipfile.ZipFile(release / "sluice.zip").namelist())
    assert top_level_names(release / "sluice.zip") == {"core", "pipeline", "handlers"}
    assert {"core/__init__.py", "core/index/write/job_runs.py", "pipeline/job.py"} <= names
    assert {name for name in names if name.startswith("handlers/")} == {
        "handlers/__init__.py",
        "handlers/start_index_job.py",
    }


def test_the_function_that_starts_runs_needs_only_botocore_and_the_sources(release: Path, tmp_path: Path) -> None:
    """Of our dependencies, the Lambda runtime includes only botocore."""
    forbidden = ["boto3", "orjson", "arro3", "pydantic", "aws_lambda_powertools", "pyspark", "deltalake", "sqlglot"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({forbidden})); "
        "import handlers.start_index_job as handler; print(handler.__file__)"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(release / "sluice.zip")}
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "sluice.zip" in done.stdout
