"""The program that starts functions that stream: which command it runs, and with which environment."""

import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.build import WRAPPER, write_zip

# Prints its arguments and its working folder instead of running Python.
INTERPRETER = f"""#!{sys.executable}
import json, os, sys
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ["_HANDLER"]]))
"""


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    path = tmp_path / "python 3.13"
    path.write_text(INTERPRETER)
    path.chmod(0o755)
    return path


def started(interpreter: Path, task_root: Path, **variables: str) -> object:
    """Returns the arguments, the folder and the handler with which the wrapper started the interpreter."""
    done = subprocess.run(
        [str(WRAPPER), str(interpreter), "/var/runtime/bootstrap.py", "an argument"],
        env={"LAMBDA_TASK_ROOT": str(task_root), "_HANDLER": "handlers.query_table.lambda_handler", **variables},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_it_starts_our_runtime_in_the_folder_of_the_function(interpreter: Path, tmp_path: Path) -> None:
    expected = [["-m", "core.runtime.streaming"], str(tmp_path), "handlers.query_table.lambda_handler"]
    assert started(interpreter, tmp_path) == expected


def test_under_sam_local_it_starts_the_runtime_of_lambda(interpreter: Path, tmp_path: Path) -> None:
    expected = [["/var/runtime/bootstrap.py", "an argument"], "/", "handlers.query_table.lambda_handler"]
    assert started(interpreter, tmp_path, AWS_SAM_LOCAL="true") == expected


def test_a_missing_folder_is_an_error(interpreter: Path, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        started(interpreter, tmp_path / "missing")


def test_only_the_wrapper_is_executable_in_the_zip(packages: Path, tmp_path: Path) -> None:
    folder = packages / "host" / "full"
    assert os.access(folder / WRAPPER.name, os.X_OK)
    write_zip(folder, tmp_path / "full.zip")
    with zipfile.ZipFile(tmp_path / "full.zip") as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    assert modes.pop(WRAPPER.name) == stat.S_IFREG | 0o755
    assert set(modes.values()) == {stat.S_IFREG | 0o644}
