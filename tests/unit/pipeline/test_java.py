"""Which Java Spark runs on: the machine's own, or the packaged one behind a wrapper."""

import stat
import subprocess
from pathlib import Path

import pytest

from pipeline.spark import java


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


@pytest.mark.parametrize(
    ("version", "found"), [("17.0.15", True), ("21.0.8", True), ("11.0.2", False), ("1.8.0_292", False)]
)
def test_only_java_17_or_later_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, found: bool
) -> None:
    home = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", "/usr/bin-without-java")
    assert java.machine_java_home() == (home if found else None)


def test_the_wrapper_drops_the_flag_that_the_packaged_java_does_not_support(tmp_path: Path) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    echo.chmod(0o755)
    wrapper = tmp_path / "java"
    wrapper.write_text(java._wrapper_script(echo))
    wrapper.chmod(0o755)
    done = subprocess.run(
        [wrapper, "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["-Xmx1g", "a b", "Main"]
